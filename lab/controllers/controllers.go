// Package controllers runs a real kube-controller-manager for a lab cluster, so that Deployments, StatefulSets,
// DaemonSets and Jobs get pods, and objects of a deleted owner or namespace are deleted.
//
// It is a child process of the same binary, because the manager's logs, feature gates and metrics are global to a
// process. Invariant: the child ends with [Running.Stop], and with the program that started it. The package does not
// run controllers that act on nodes or clouds: kubelets of a busy computer are late, and their pods would be evicted.
//
// A program that starts one calls [MaybeChild] first of all, in main or TestMain.
package controllers

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/kubernetes/cmd/kube-controller-manager/app"

	"github.com/tenon-numa/tenon/lab/logtail"
	"github.com/tenon-numa/tenon/lab/release"
)

// childEnv marks the child; its value does not matter.
const childEnv = "TENON_LAB_CONTROLLERS"

// names are the controllers that run: those of workloads, and those that clean up.
var names = []string{"cronjob-controller", "daemonset-controller", "deployment-controller", "disruption-controller",
	"garbage-collector-controller", "job-controller", "namespace-controller", "pod-garbage-collector-controller",
	"replicaset-controller", "serviceaccount-controller", "statefulset-controller", "ttl-after-finished-controller"}

// MaybeChild returns at once in a program that a person started. In the child that [Start] made of the same binary it
// runs the manager with the arguments of the process, and does not return.
func MaybeChild() {
	if os.Getenv(childEnv) == "" {
		return
	}
	release.Set()
	if err := app.NewControllerManagerCommand().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Running is a running manager.
type Running struct {
	cmd      *exec.Cmd
	log      string
	stopping atomic.Bool
	done     chan struct{}
	err      error // set before done is closed
}

// Start starts a manager with the rights of a kubeconfig file. Its log is controllers.log in dir.
func Start(dir, kubeconfig string) (*Running, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start controllers: find this program: %w", err)
	}
	r := &Running{log: filepath.Join(dir, "controllers.log"), done: make(chan struct{})}
	log, err := os.Create(r.log)
	if err != nil {
		return nil, fmt.Errorf("start controllers: %w", err)
	}
	defer log.Close()
	r.cmd = exec.Command(exe, "--kubeconfig="+kubeconfig, "--leader-elect=false", "--secure-port=0",
		"--min-resync-period=12h", "--kube-api-qps=1000", "--kube-api-burst=1000",
		"--controllers="+strings.Join(names, ","))
	r.cmd.Env = append(os.Environ(), childEnv+"=1", "GOGC=50")
	r.cmd.Stdout, r.cmd.Stderr = log, log
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go r.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start controllers: %w", err)
	}
	return r, nil
}

// run starts the process and waits for it, on one thread: the kernel sends the death signal when the thread that
// started the child ends.
func (r *Running) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := r.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	r.err = r.cmd.Wait()
	close(r.done)
}

// Done returns a channel that is closed when the manager has ended.
func (r *Running) Done() <-chan struct{} { return r.done }

// Err returns why the manager ended by itself, with the end of its log.
func (r *Running) Err() error {
	select {
	case <-r.done:
	default:
		return nil
	}
	if r.stopping.Load() {
		return nil
	}
	return fmt.Errorf("the controller manager ended: %w; the end of its log:\n%s",
		cmp.Or(r.err, errors.New("exit status 0")), logtail.Read(r.log))
}

// patience is how long the manager may take to end after a signal.
const patience = 2 * time.Second

// Stop ends the manager and returns when its process is gone.
func (r *Running) Stop() error {
	r.stopping.Store(true)
	_ = r.cmd.Process.Signal(syscall.SIGTERM) // fails where it has ended
	select {
	case <-r.done:
		return nil
	case <-time.After(patience):
	}
	_ = r.cmd.Process.Kill() // likewise
	<-r.done
	return nil
}
