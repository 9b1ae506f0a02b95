// Package program runs other programs for a lab cluster, each as a child process that writes to a log file.
//
// Invariant: a program ends with [Running.Stop], and with the process that started it. The package restarts nothing:
// a caller that needs its program watches Done. [LogTail] returns the end of a log, of bounded size.
package program

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

// Running is a running program.
type Running struct {
	name, log string
	cmd       *exec.Cmd
	stopping  atomic.Bool
	done      chan struct{}
	err       error // how the process ended; set before done is closed
}

// Start starts a command. It appends the command's output to a log file, and replaces the command's process
// attributes. The name is for errors.
func Start(name, log string, cmd *exec.Cmd) (*Running, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer file.Close()
	r := &Running{name: name, log: log, cmd: cmd, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = file, file
	// The child gets its own process group, so that an interrupt at the terminal reaches only the parent, which then
	// stops the child.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go r.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return r, nil
}

// run starts the process and waits for it on one thread, because the kernel sends the death signal when the thread
// that started the child ends.
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

// Log returns the path of the program's log.
func (r *Running) Log() string { return r.log }

// Done returns a channel that is closed when the program has ended.
func (r *Running) Done() <-chan struct{} { return r.done }

// Err returns why the program ended by itself, with the end of its log. It returns nil while the program runs, and
// after Stop or Kill. A program that ends with status 0 by itself is an error too.
func (r *Running) Err() error {
	select {
	case <-r.done:
	default:
		return nil
	}
	if r.stopping.Load() {
		return nil
	}
	return fmt.Errorf("%s ended: %w; the end of its log:\n%s", r.name, cmp.Or(r.err, errors.New("exit status 0")),
		LogTail(r.log))
}

// patience is how long Stop waits after SIGTERM before it kills the program.
const patience = 2 * time.Second

// Stop ends the program and returns when its process is gone. The error is always nil.
func (r *Running) Stop() error {
	r.stopping.Store(true)
	_ = r.cmd.Process.Signal(syscall.SIGTERM) // fails where it has ended
	select {
	case <-r.done:
		return nil
	case <-time.After(patience):
	}
	_ = r.cmd.Process.Kill() // fails if it has ended since
	<-r.done
	return nil
}

// Kill ends the program at once, as a crash does, and returns when its process is gone.
func (r *Running) Kill() {
	r.stopping.Store(true)
	_ = r.cmd.Process.Kill() // fails where it has ended
	<-r.done
}
