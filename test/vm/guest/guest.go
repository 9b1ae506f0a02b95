// Package guest boots Linux in a virtual machine: a real kernel that sees the hardware in QEMU's command line. Tests
// use it to run discovery and enforcement on a kernel instead of a description of one.
//
// QEMU translates instructions, so neither /dev/kvm nor root is needed, and a guest's results are right but slow: it
// proves placement and never speed. The kernel and busybox are Debian's, unpacked by package test/debian; the initramfs
// is made anew for every boot. Invariant: after [Boot] returned a guest its shell answers, and after [Guest.Close] no
// process or file of it is left but console.log in a directory that the caller named. When the program dies, QEMU dies
// with it. The package refuses files, scripts and outputs beyond fixed bounds.
package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Config describes a guest.
type Config struct {
	// Arch is Debian's name of the architecture, "amd64" or "arm64"; empty means amd64.
	Arch string
	// Args are arguments of QEMU: machine, CPUs, memory, NUMA nodes, devices. The package adds accelerator, kernel,
	// serial ports, disk and network.
	Args []string
	// Append is added to the kernel's command line, after what the guest itself needs.
	Append string
	// Files are files of the guest by absolute path. With a disk they replace files of the disk.
	Files map[string]File
	// Modules are names of kernel modules, which are loaded in this order, each after its dependencies. The modules for
	// disk and network are added.
	Modules []string
	// Disk is a raw image with an ext4 file system, whose /sbin/init becomes process 1; writes to it are lost with the
	// guest. If it is empty, the guest stays in its initramfs.
	Disk string
	// Network gives the guest eth0 with 10.0.2.15/24; it reaches services on the host's loopback
	// interface at 10.0.2.2.
	Network bool
	// Port is the guest's port that the host reaches at HostPort of the host's loopback interface; 0 means none.
	Port, HostPort int
	// Reboots means that the guest may boot again (see Reboot). Otherwise the guest ends with its kernel.
	Reboots bool
	// Dir is where console.log is written; if it is empty, the log is not kept.
	Dir string
}

// File is a file of a guest.
type File struct {
	Host string // file to copy; empty: Data is the content
	Data []byte // for a link (Mode has fs.ModeSymlink) the target
	Mode fs.FileMode
}

// A boot takes some ten seconds on a busy computer of two cores. A guest that has not come up after bootPatience is
// replaced by another, which has bootTimeout and one thread for all CPUs: see [ErrHung].
const (
	bootPatience = 2 * time.Minute
	bootTimeout  = 5 * time.Minute
)

// Guest is a running guest.
type Guest struct {
	cmd     *exec.Cmd
	console *console
	tmp     string // directory of the initramfs
	done    chan struct{}
	err     error // of QEMU; set before done is closed

	mu    sync.Mutex // one script at a time
	shell *shell
}

// Boot starts a guest and returns when its shell answers. If the guest does not come up, the error ends with the last
// lines of its console. Missing packages are a [*MissingError].
func Boot(ctx context.Context, c Config) (*Guest, error) {
	parts, err := Find(c.Arch)
	if err != nil {
		return nil, err
	}
	g, first := boot(ctx, c, parts, accelerator(c.Args, runtime.NumCPU()), bootPatience)
	if !errors.Is(first, errSilent) || ctx.Err() != nil {
		return g, first
	}
	g, err = boot(ctx, c, parts, oneThread, bootTimeout)
	if err != nil {
		err = fmt.Errorf("%w\nand the boot before it: %w", err, first)
	}
	return g, err
}

// errSilent is a guest whose shell does not answer in time.
var errSilent = errors.New("no shell")

// boot starts QEMU once, with an accelerator, and waits for the shell within a time limit.
func boot(ctx context.Context, c Config, parts *Parts, accel string, limit time.Duration) (_ *Guest, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w after %s", errSilent, limit))
	defer cancel()
	g := &Guest{done: make(chan struct{})}
	if g.tmp, err = os.MkdirTemp("", "guest-"); err != nil {
		return nil, fmt.Errorf("boot guest: %w", err)
	}
	initrd := filepath.Join(g.tmp, "initrd")
	if err := writeInitramfs(initrd, c, parts); err != nil {
		return nil, errors.Join(fmt.Errorf("boot guest: %w", err), os.RemoveAll(g.tmp))
	}
	if g.console, err = newConsole(c.Dir); err != nil {
		return nil, errors.Join(fmt.Errorf("boot guest: %w", err), os.RemoveAll(g.tmp))
	}
	if err := g.start(parts.QEMU, qemuArgs(c, parts, accel, initrd)); err != nil {
		return nil, errors.Join(fmt.Errorf("boot guest: %w", err), g.console.close(), os.RemoveAll(g.tmp))
	}
	if err := g.shell.awaitReady(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("boot guest: %w", g.explain(ctx, err)), g.Close())
	}
	return g, nil
}

// shellFD is QEMU's file descriptor of the shell's serial port: the first of ExtraFiles.
const shellFD = 3

// start starts QEMU with one end of a pair of sockets as the serial port of the shell.
func (g *Guest) start(qemu string, args []string) error {
	hostConn, guestEnd, err := socketPair()
	if err != nil {
		return err
	}
	defer guestEnd.Close()
	g.cmd = exec.Command(qemu, args...)
	g.cmd.ExtraFiles = []*os.File{guestEnd}
	g.cmd.Stdout, g.cmd.Stderr = g.console, g.console
	// Its own process group: an interrupt at the terminal is for the program that closes the guest.
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go g.runQEMU(started)
	if err := <-started; err != nil {
		return errors.Join(fmt.Errorf("start QEMU: %w", err), hostConn.Close())
	}
	g.shell = newShell(hostConn)
	go func() {
		select {
		case <-g.console.hung:
			_ = g.cmd.Process.Kill() // fails if the guest has ended meanwhile
		case <-g.done:
		}
	}()
	return nil
}

// runQEMU starts QEMU and waits for it, on one thread: the kernel sends the death signal when the thread
// that started the child ends, not when the process does.
func (g *Guest) runQEMU(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := g.cmd.Start()
	started <- err
	if err == nil {
		g.err = g.cmd.Wait()
	}
	close(g.done)
}

func socketPair() (hostConn net.Conn, guestEnd *os.File, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a pair of sockets: %w", err)
	}
	guestEnd = os.NewFile(uintptr(fds[1]), "guest")
	hostEnd := os.NewFile(uintptr(fds[0]), "host")
	defer hostEnd.Close()
	if hostConn, err = net.FileConn(hostEnd); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("make a pair of sockets: %w", err), guestEnd.Close())
	}
	return hostConn, guestEnd, nil
}

// Run runs a shell script in the guest and returns its standard output and error, at most [MaxOutput] bytes. A failed
// script is an [*ExitError]. Scripts run one at a time; after a context ended, the guest may still run the script.
// Background processes of a script continue.
func (g *Guest) Run(ctx context.Context, script string) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	out, err := g.shell.run(ctx, script)
	if exit := (*ExitError)(nil); err != nil && !errors.As(err, &exit) {
		err = fmt.Errorf("run script in guest: %w", g.explain(ctx, err))
	}
	return out, err
}

// Reboot boots the guest again, at once and without ending its programs, and returns when its shell answers. The disk
// keeps what was written to it: all programs stop at one moment, and only then Linux writes their files. Otherwise a
// program could rename a file meanwhile whose new content is lost.
func (g *Guest) Reboot(ctx context.Context) error {
	return g.rebootBy(ctx, "kill -STOP -1; /bin/busybox sync; /bin/busybox reboot -f")
}

// Cut boots the guest again as after a power cut, and returns when its shell answers: what programs have written and
// Linux has not yet sent to the disk is lost.
func (g *Guest) Cut(ctx context.Context) error { return g.rebootBy(ctx, "/bin/busybox reboot -n -f") }

// Booted waits for a guest that boots again by itself, and returns when its shell answers.
func (g *Guest) Booted(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.shell.awaitReady(ctx); err != nil {
		return fmt.Errorf("wait for the guest's boot: %w", g.explain(ctx, err))
	}
	return nil
}

// rebootBy boots the guest again by a script, and returns when its shell answers.
func (g *Guest) rebootBy(ctx context.Context, script string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, bootTimeout, fmt.Errorf("%w after %s", errSilent, bootTimeout))
	defer cancel()
	err := g.shell.sendOnly(ctx, script)
	if err == nil {
		err = g.shell.awaitReady(ctx)
	}
	if err != nil {
		return fmt.Errorf("reboot guest: %w", g.explain(ctx, err))
	}
	return nil
}

// explain returns why the shell does not answer: because QEMU ended, or because a context did.
func (g *Guest) explain(ctx context.Context, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		select {
		case <-g.done: // the other end of the socket is QEMU's alone
			err = fmt.Errorf("the guest died: %w", errors.Join(g.err, err))
		case <-ctx.Done():
		}
	} else if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	select {
	case <-g.console.hung:
		err = fmt.Errorf("%w: %w", ErrHung, err)
	default:
	}
	return fmt.Errorf("%w; the console's last lines:\n%s", err, lastLines(g.Console(), 20))
}

// Console returns the end of the console's output, including QEMU's own errors.
func (g *Guest) Console() string { return g.console.String() }

// Done returns a channel that is closed when the guest has ended, by itself or by Close.
func (g *Guest) Done() <-chan struct{} { return g.done }

// Close ends the guest at once; unfinished work is lost. Closing again does nothing.
func (g *Guest) Close() error {
	if err := g.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("close guest: %w", err)
	}
	<-g.done
	return errors.Join(g.shell.close(), g.console.close(), os.RemoveAll(g.tmp))
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
