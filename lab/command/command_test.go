package command_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/command"
)

func TestMain(m *testing.M) {
	lab.MaybeChild()
	os.Exit(m.Run())
}

func TestMachinesFitATerminal(t *testing.T) {
	var out bytes.Buffer
	cmd := command.New(command.Parts{}, command.Show{})
	cmd.SetArgs([]string{"machines"})
	cmd.SetOut(&out)
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if len(line) > 100 {
			t.Errorf("line of %d columns: %s", len(line), line)
		}
	}
	if !strings.Contains(out.String(), "epyc-nps4") {
		t.Errorf("no epyc-nps4 in:\n%s", &out)
	}
}

// stopper stands for a scheduler.
type stopper struct{ running *bool }

func (stopper) Done() <-chan struct{} { return nil }
func (stopper) Err() error            { return nil }
func (s stopper) Stop() error         { *s.running = false; return nil }
func (stopper) Addresses() []command.Address {
	return []command.Address{{What: "inspection", URL: "https://127.0.0.1:1/debug/tenon/"}}
}

// The cluster starts, the scheduler is started on it, an interrupt ends both, and nothing is left.
func TestUp(t *testing.T) {
	ctx, interrupt := context.WithTimeout(t.Context(), 10*time.Minute)
	defer interrupt()
	base, running, out := t.TempDir(), false, new(bytes.Buffer)
	cmd := command.New(command.Parts{Scheduler: func(c *lab.Cluster) (command.Running, error) {
		if _, err := os.Stat(c.KubeconfigPath); err != nil {
			t.Error(err)
		}
		running = true
		interrupt()
		return stopper{&running}, nil
	}}, command.Show{})
	cmd.SetArgs([]string{"up", "--nodes", "laptop", "--dir", base})
	cmd.SetOut(out)
	cmd.SetErr(io.Discard)
	if err := cmd.ExecuteContext(ctx); err != nil {
		t.Fatal(err)
	}
	if running {
		t.Error("the scheduler was not stopped")
	}
	if left, _ := os.ReadDir(base); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
	for _, want := range []string{"export KUBECONFIG=" + base, "create Pods, not Deployments",
		"inspection  https://127.0.0.1:1/debug/tenon/\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
}

func TestUpRefuses(t *testing.T) {
	for flag, want := range map[string]string{"--nodes=0xlaptop": "count is outside", "--nodes=vax": "no machine"} {
		cmd := command.New(command.Parts{}, command.Show{})
		cmd.SetArgs([]string{"up", flag, "--dir", t.TempDir()})
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("up %s: error %v, want %q", flag, err, want)
		}
	}
}

// Names of machines and releases are completed, the last one of a comma list.
func TestNamesAreCompleted(t *testing.T) {
	for line, want := range map[string]string{
		"up --nodes gpu":          "gpu-8",
		"up --nodes gpu-8,2xxeon": "gpu-8,2xxeon-2s gpu-8,2xxeon-snc2",
		"up --nodes xeon-2s@1.3":  "xeon-2s@1.34 xeon-2s@1.35 xeon-2s@1.36 xeon-2s@1.37",
		"up --release 1.35":       "1.35",
		"up --volcano=n":          "numa-aware none",
		"demo --act c":            "c",
		"mach":                    "machines",
	} {
		var out bytes.Buffer
		cmd := command.New(command.Parts{}, command.Show{})
		cmd.SetArgs(append([]string{"__complete"}, strings.Fields(line)...))
		cmd.SetOut(&out)
		cmd.SetErr(io.Discard)
		if err := cmd.Execute(); err != nil {
			t.Fatal(err)
		}
		offered, _, _ := strings.Cut(out.String(), ":")
		var names []string
		for l := range strings.Lines(offered) {
			name, _, _ := strings.Cut(strings.TrimSpace(l), "\t")
			names = append(names, name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
