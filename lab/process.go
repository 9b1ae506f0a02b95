package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/lab/machines"
	"github.com/tenon-numa/tenon/lab/program"
)

// This file has the parent's side of a child process that runs nodes. The files child.go and childnodes.go have the
// child's side. The parent writes a job to the child's standard input and then orders, which faults.go sends. The
// child answers each order on a pipe of its own.

// childEnv marks the child; its value does not matter.
const childEnv = "TENON_LAB_CHILD"

// job is the input of a child, as JSON on its standard input. Orders follow it. If the input ends without an order to
// stop, the parent has died.
type job struct {
	Dir     string // the cluster's directory
	Nodes   []jobNode
	Admin   access // an administrator's, for the tokens of the agents
	Agents  bool
	Volcano bool // agents publish Numatopologies too
	Durable bool // containers outlive the process
}

// jobNode is one node of a job. Root is the directory of its kubelet.
type jobNode struct {
	Name, Machine, Root string
	Text, YAML          string // the machine's files
	Access              access // the kubelet's own identity
	Pinned              bool
}

// access is the part of a rest.Config that the lab uses.
type access struct {
	Host, Token string
	CA          []byte
}

func accessOf(c *rest.Config) access { return access{Host: c.Host, Token: c.BearerToken, CA: c.CAData} }

func (a access) config() *rest.Config {
	return &rest.Config{Host: a.Host, BearerToken: a.Token, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: a.CA}}
}

// newJob returns the job of a process for these nodes.
func newJob(c *Cluster, nodes []Node, described map[string]machines.Machine, cfg Config) (job, error) {
	j := job{Dir: c.Dir, Admin: accessOf(c.plane.Admin), Agents: !cfg.NoAgents, Volcano: cfg.Numatopology,
		Durable: c.apart(nodes[0])}
	for _, n := range nodes {
		m := described[n.Name]
		identity, err := c.plane.Node(n.Name)
		if err != nil {
			return job{}, err
		}
		j.Nodes = append(j.Nodes, jobNode{Name: n.Name, Machine: m.Name, Root: c.NodeDir(n.Name),
			Text: m.Text, YAML: m.YAML, Access: accessOf(identity), Pinned: n.Pinned})
	}
	return j, nil
}

// child is a child process that runs nodes, as its parent sees it.
type child struct {
	cmd      *exec.Cmd
	stdin    io.WriteCloser
	answers  *json.Decoder // one for each order, in the order of the orders
	close    func() error  // closes the pipe of answers
	ordering sync.Mutex    // one order at a time
	logPath  string
	stopping atomic.Bool
	done     chan struct{}
	err      error // how the process ended; set before done is closed
}

// startChild starts a program as a child that runs the nodes of a job. Its output is appended to a log file.
func startChild(program string, j job, logPath string) (*child, error) {
	text, err := json.Marshal(j)
	if err != nil {
		return nil, fmt.Errorf("write the nodes' job: %w", err)
	}
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	c := &child{cmd: exec.Command(program), logPath: logPath, done: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), childEnv+"=1")
	c.cmd.Stdout, c.cmd.Stderr = log, log
	// The child gets its own process group, so that an interrupt at the terminal reaches only the parent, which then
	// stops the child.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	c.stdin = stdin
	answers, childEnd, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer childEnd.Close()
	c.answers, c.cmd.ExtraFiles = json.NewDecoder(answers), []*os.File{childEnd}
	c.close = answers.Close
	started := make(chan error, 1)
	go c.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start the nodes' process: %w", err)
	}
	if _, err := stdin.Write(text); err != nil {
		return nil, errors.Join(fmt.Errorf("write the nodes' job: %w", err), c.stop())
	}
	return c, nil
}

// run starts the process and waits for it on one thread, because the kernel sends the death signal when the thread
// that started the child ends, not when the whole parent does.
func (c *child) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := c.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	c.err = c.cmd.Wait()
	_ = c.close() // it was only read
	close(c.done)
}

// childPatience is how long a child may take to end after the order to stop; then it is killed.
const childPatience = 5 * time.Second

// stop ends the process and returns when it is gone.
func (c *child) stop() error {
	c.stopping.Store(true)
	_ = json.NewEncoder(c.stdin).Encode(order{Do: doStop}) // this and Close fail only if the process is gone
	c.stdin.Close()
	select {
	case <-c.done:
		return nil
	case <-time.After(childPatience):
	}
	return c.kill()
}

// kill kills the process and returns when it is gone.
func (c *child) kill() error {
	c.stopping.Store(true)
	if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end the nodes' process: %w", err)
	}
	<-c.done
	return nil
}

// failure returns why the process ended by itself, with the end of its log. It returns nil while the process runs,
// and after stop or kill.
func (c *child) failure() error {
	select {
	case <-c.done:
	default:
		return nil
	}
	if c.stopping.Load() {
		return nil
	}
	return fmt.Errorf("the nodes' process ended (%w); the end of its log:\n%s", c.err, program.LogTail(c.logPath))
}
