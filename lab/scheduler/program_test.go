package scheduler_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tenon-numa/tenon/lab"
	child "github.com/tenon-numa/tenon/lab/program"
	"github.com/tenon-numa/tenon/scheduler/server"
)

// programEnv makes the test binary the program tenon-scheduler, with the arguments that it has.
const programEnv = "TENON_TEST_SCHEDULER"

// beScheduler is the main function of tenon-scheduler with these arguments. It also ends as tenon-scheduler does: a
// leader that receives SIGTERM gives its lease back.
func beScheduler(args string) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	cmd := server.NewCommand(ctx)
	cmd.SetArgs(strings.Fields(args))
	if err := cmd.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1)
	}
}

// program is a kube-scheduler in a separate process.
type program struct {
	cmd    *exec.Cmd
	log    string // file
	secure string // address of kube-scheduler's own port; of tenon-scheduler only
	token  string // of an administrator; of tenon-scheduler only
}

// startProgram starts tenon-scheduler with a configuration. It ends with the test at the latest.
func startProgram(ctx context.Context, t *testing.T, c *lab.Cluster, config string) *program {
	t.Helper()
	return startFile(ctx, t, c, os.Args[0], config)
}

// startFile starts another build of tenon-scheduler.
func startFile(ctx context.Context, t *testing.T, c *lab.Cluster, file, config string) *program {
	t.Helper()
	port, err := child.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	secure := net.JoinHostPort(child.Host, strconv.Itoa(port))
	// In a cluster it finds the API server by itself, also for its own port.
	args := []string{"--config=" + configFile(t, config), "--bind-address=" + child.Host,
		fmt.Sprint("--secure-port=", port),
		"--inspection-address=127.0.0.1:0", "--authentication-kubeconfig=" + c.SchedulerKubeconfig,
		"--authorization-kubeconfig=" + c.SchedulerKubeconfig}
	cmd := exec.CommandContext(ctx, file)
	if file == os.Args[0] {
		cmd.Env = append(os.Environ(), programEnv+"="+strings.Join(args, " "))
	} else {
		cmd.Args = append(cmd.Args, args...)
	}
	p := launch(t, cmd)
	p.secure, p.token = secure, c.RESTConfig().BearerToken
	return p
}

// configFile writes a scheduler's configuration to a file and returns its name.
func configFile(t *testing.T, config string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// launch starts a scheduler whose output goes to a file. It ends with the test at the latest. If the test failed,
// launch logs the end of the output.
func launch(t *testing.T, cmd *exec.Cmd) *program {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p := &program{cmd: cmd, log: log.Name()}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			text := p.said(t)
			const most = 20_000
			t.Logf("output of %s:\n%s", filepath.Base(cmd.Path), text[max(0, len(text)-most):])
		}
	})
	return p
}

// kill ends the program at once.
func (p *program) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // its error is that it was killed
}

func (p *program) said(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(p.log)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// inspection waits until inspection is served, and returns its address.
func (p *program) inspection(ctx context.Context, t *testing.T) string {
	t.Helper()
	return p.await(ctx, t, regexp.MustCompile(`"Inspection is served" .*address="([^"]+)"`))
}

// await waits until the program prints something, and returns the part in parentheses.
func (p *program) await(ctx context.Context, t *testing.T, what *regexp.Regexp) (part string) {
	t.Helper()
	err := wait.PollUntilContextCancel(ctx, tick, true, func(context.Context) (bool, error) {
		m := what.FindStringSubmatch(p.said(t))
		if m != nil {
			part = m[len(m)-1]
		}
		return m != nil, nil
	})
	if err != nil {
		t.Fatalf("the scheduler does not say %s: %v:\n%s", what, err, p.said(t))
	}
	return part
}
