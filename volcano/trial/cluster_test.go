// Package trial runs Volcano's own programs on a lab cluster: a real API server, and the kubelet's own managers on
// described machines. The scheduler has the plugin tenon. The lab has Kubernetes libraries of another release, so it is
// a process of its own.
package trial

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	client "volcano.sh/apis/pkg/client/clientset/versioned"

	"github.com/tenon-numa/tenon/lab/program"
	"github.com/tenon-numa/tenon/lab/volcano"
)

// cluster is a lab cluster with Volcano's controllers and webhooks.
type cluster struct {
	*testing.T
	ctx      context.Context
	options  volcano.Options
	client   kubernetes.Interface
	volcano  client.Interface
	observer *volcano.Observer
	denials  []string // beginnings of denials that the test itself causes
}

var (
	labProgram = flag.String("lab", "", "program tenon-lab; built when empty")
	programs   = flag.String("programs", "", "folder with Volcano's programs; they are built when empty")
)

// home is the folder of the programs that this test has built; it is removed with the tests.
var home string

func TestMain(m *testing.M) {
	var err error
	if home, err = os.MkdirTemp("", "tenon-trial-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(home)
	os.Exit(code)
}

// built builds the programs whose paths no flag gives, once for all tests.
var built = sync.OnceValue(func() error {
	if *programs == "" {
		*programs = home
		if err := volcano.Build(context.Background(), "..", home); err != nil {
			return err
		}
	}
	if *labProgram != "" {
		return nil
	}
	*labProgram = filepath.Join(home, "tenon-lab")
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", *labProgram, "./cmd/tenon-lab")
	cmd.Dir, cmd.Env = "../..", append(os.Environ(), "GOWORK=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build tenon-lab: %w\n%s", err, out)
	}
	return nil
})

// start builds the programs, and starts a cluster with nodes of these machines.
func start(t *testing.T, nodes string) *cluster {
	if err := built(); err != nil {
		t.Fatal(err)
	}
	c := &cluster{T: t, ctx: t.Context(),
		options: volcano.Options{Dir: t.TempDir(), Programs: volcano.Programs(*programs)}}
	c.lab(nodes)
	config, err := clientcmd.BuildConfigFromFlags("", c.options.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{}
	c.client, c.volcano = kubernetes.NewForConfigOrDie(config), client.NewForConfigOrDie(config)
	if c.observer, err = volcano.Observe(c.ctx, c.options); err != nil {
		t.Fatal(err)
	}
	return c
}

// lab starts the cluster, without Volcano's scheduler, and waits until it is ready. The cluster ends with the test.
func (c *cluster) lab(nodes string) {
	log := filepath.Join(c.options.Dir, "lab.log")
	r, err := program.Start("tenon-lab", log, exec.Command(*labProgram, "up", "--nodes", nodes, "--volcano=none",
		"--volcano-programs", string(c.options.Programs)))
	if err != nil {
		c.Fatal(err)
	}
	c.ends(r)
	const begins = "export KUBECONFIG="
	c.until("the cluster is up", func() bool {
		if err := r.Err(); err != nil {
			c.Fatal(err)
		}
		text, err := os.ReadFile(log)
		if err != nil {
			c.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if path, ok := strings.CutPrefix(line, begins); ok {
				c.options.Kubeconfig = strings.TrimSpace(path)
				return true
			}
		}
		return false
	})
}

// ends stops a program at the end of the test. It prints the log of a program that failed. The test fails if the API
// server has denied a program anything but what the test forbids: the programs have the rights that they need.
func (c *cluster) ends(r *program.Running) {
	c.Cleanup(func() {
		if err := r.Stop(); err != nil {
			c.Error(err)
		}
		if text, err := os.ReadFile(r.Log()); err != nil {
			c.Error(err)
		} else if d := denied(text, c.denials); d != "" {
			c.Errorf("%s: %s", filepath.Base(r.Log()), d)
		}
		if c.Failed() {
			c.Logf("the end of %s:\n%s", filepath.Base(r.Log()), program.LogTail(r.Log()))
		}
	})
}

// denied returns the first denial of the API server in a log that does not begin like an expected one, or "".
func denied(log []byte, expected []string) string {
	const mark = "is forbidden: "
	for {
		_, rest, found := bytes.Cut(log, []byte(mark))
		if !found {
			return ""
		}
		if !slices.ContainsFunc(expected, func(s string) bool { return bytes.HasPrefix(rest, []byte(s)) }) {
			return mark + string(rest[:min(300, len(rest))])
		}
		log = rest
	}
}

// A test that forbids a binding still finds other denials: missing rights, and denials by other policies.
func TestADenialIsFound(t *testing.T) {
	const policy = "ValidatingAdmissionPolicy 'no-binding' "
	for log, want := range map[string]string{
		"": "",
		`pods "a" is forbidden: ` + policy + "denied request":                       "",
		`is forbidden: ` + policy + "x\nnodes is forbidden: User \"v\" cannot list": `is forbidden: User "v" cannot list`,
		`is forbidden: ValidatingAdmissionPolicy 'other' denied`:                    "is forbidden: ValidatingAdmissionPolicy 'other' denied",
	} {
		if got := denied([]byte(log), []string{policy}); got != want {
			t.Errorf("%q: got %q, want %q", log, got, want)
		}
	}
}

// schedule starts Volcano's scheduler with a plugin.
func (c *cluster) schedule(plugin string) *volcano.Scheduler {
	c.Helper()
	s, err := volcano.Schedule(c.ctx, c.options, plugin)
	if err != nil {
		c.Fatal(err)
	}
	c.ends(s.Running)
	return s
}

// counter returns the value of one of Tenon's counters in the scheduler.
func (c *cluster) counter(s *volcano.Scheduler, name, label, value string) int {
	c.Helper()
	n, err := s.Counter(c.ctx, name, label, value)
	if err != nil {
		c.Fatal(err)
	}
	return int(n)
}

// settle waits until nothing changes any more.
func (c *cluster) settle() volcano.State {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, patience)
	defer cancel()
	s, err := c.observer.Settle(ctx)
	if err != nil {
		c.Fatal(err)
	}
	return s
}

// remove deletes jobs, and waits until their pods have gone.
func (c *cluster) remove(names ...string) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, patience)
	defer cancel()
	if err := c.observer.Remove(ctx, names...); err != nil {
		c.Fatal(err)
	}
}

// reasons returns the scheduler's messages about pods without a node.
func (c *cluster) reasons() (out []string) {
	for _, p := range c.pods() {
		for _, x := range p.Status.Conditions {
			if x.Type == v1.PodScheduled && x.Status == v1.ConditionFalse {
				out = append(out, p.Name+": "+x.Message)
			}
		}
	}
	return out
}

// patience bounds every wait; a busy computer of two cores needs some ten seconds for most.
const patience = 5 * time.Minute

// until polls until a condition holds.
func (c *cluster) until(what string, holds func() bool) {
	c.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		if time.Now().After(deadline) {
			c.Fatalf("not so after %s: %s", patience, what)
		}
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			c.Fatal(c.ctx.Err())
		}
	}
}
