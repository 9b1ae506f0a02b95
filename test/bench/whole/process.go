package whole

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tenon-numa/tenon/lab/program"
)

// process is a child of this process. It ends when it is ordered to, and when this process dies.
type process struct {
	name    string
	cmd     *exec.Cmd
	answers *json.Decoder // its messages, if it sends any
	log     string
	done    chan struct{}
	err     error // of the process; set before done is closed
}

// startProcess starts a program with a job on its standard input. Its output goes to the log, and its messages come on
// descriptor 3.
func startProcess(name string, cmd *exec.Cmd, job any, log string) (*process, error) {
	text, err := json.Marshal(job)
	if err != nil {
		return nil, fmt.Errorf("write the job of %s: %w", name, err)
	}
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer out.Close()
	parentEnd, childEnd, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer childEnd.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = bytes.NewReader(text), out, out, []*os.File{childEnd}
	// An interrupt at the terminal is for this process, which then ends the others in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	p := &process{name: name, cmd: cmd, answers: json.NewDecoder(parentEnd), log: log, done: make(chan struct{})}
	started := make(chan error, 1)
	go p.run(started, parentEnd)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// run starts the process and waits for it on one thread: the kernel sends the death signal when the thread that
// started the child ends.
func (p *process) run(started chan<- error, answers io.Closer) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		answers.Close()
		return
	}
	p.err = p.cmd.Wait()
	close(p.done)
}

// receive reads the child's next message.
func (p *process) receive(into any) error {
	if err := p.answers.Decode(into); err != nil {
		return fmt.Errorf("%s ended or says what is no answer (%w); the end of its log:\n%s", p.name, err,
			program.LogTail(p.log))
	}
	return nil
}

// ask sends the child a signal, and reads its next message. If the context ends first, it ends the child.
func (p *process) ask(ctx context.Context, signal syscall.Signal, into any) error {
	if err := p.cmd.Process.Signal(signal); err != nil {
		return fmt.Errorf("ask %s: %w; the end of its log:\n%s", p.name, err, program.LogTail(p.log))
	}
	stopKill := context.AfterFunc(ctx, func() { _ = p.cmd.Process.Kill() })
	defer stopKill()
	if err := p.receive(into); err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	return nil
}

// failure returns an error with the end of the log if the process has ended, by itself or by stop; nil while it runs.
func (p *process) failure() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s ended (%w); the end of its log:\n%s", p.name, p.err, program.LogTail(p.log))
	default:
		return nil
	}
}

// endPatience is how long a process may take to end by itself.
const endPatience = 30 * time.Second

// stop ends the process and returns when it is gone. A second call does nothing.
func (p *process) stop() error {
	if p == nil {
		return nil
	}
	select {
	case <-p.done:
		return nil
	default:
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end %s: %w", p.name, err)
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(endPatience):
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end %s: %w", p.name, err)
	}
	<-p.done
	return nil
}

// tick is the unit of /proc/PID/stat on every Linux that Go supports (USER_HZ).
const tick = 10 * time.Millisecond

// cpu returns the CPU time of the process, in user and kernel mode.
func (p *process) cpu() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("read the CPU time of %s: %w", p.name, err)
	}
	// The second field is the program's name in parentheses, and may contain any character.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("read the CPU time of %s: %d fields", p.name, len(fields))
	}
	var total time.Duration
	for _, f := range fields[11:13] { // utime, stime: fields 14 and 15 of proc_pid_stat(5)
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read the CPU time of %s: %w", p.name, err)
		}
		total += time.Duration(n) * tick
	}
	return total, nil
}

// peak returns the most memory that the process has had, in bytes.
func (p *process) peak() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("read the memory of %s: %w", p.name, err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("read the memory of %s: no VmHWM", p.name)
}
