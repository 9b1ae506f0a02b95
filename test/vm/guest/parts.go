package guest

import (
	"cmp"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tenon-numa/tenon/test/debian"
)

// Parts are the files of Debian packages that make up a guest.
type Parts struct {
	QEMU    string // program
	Kernel  string // image
	Modules string // directory /lib/modules/RELEASE
	Busybox string // static
}

// MissingError is a Debian package that a guest needs and that is missing.
type MissingError struct {
	Package string
	Err     error
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("no guests without Debian package %s: %v (go run ./test packages gets it)", e.Package, e.Err)
}

func (e *MissingError) Unwrap() error { return e.Err }

// architecture has QEMU's names of a Debian architecture, and the settings of its guests.
type architecture struct {
	qemu, qemuPackage, kernelPackage string
	console                          string // the kernel's name of the first serial port
	shell                            string // the kernel's name of the shell's port
	shellDevice                      []string
	append                           string // for the kernel's command line
}

func findArchitecture(arch string) (architecture, error) {
	switch arch {
	case "amd64":
		return architecture{"qemu-system-x86_64", "qemu-system-x86", "linux-image-cloud-amd64", "ttyS0", "ttyS1",
			[]string{"-serial", "chardev:shell"},
			// tsc=reliable: on a busy host the kernel finds its clock unstable and switches to another, for which it
			// stops all CPUs at once; emulated CPUs that outnumber the host's may hang then. no_timer_check: the kernel
			// counts ticks of a timer during a busy loop, and panics if a busy host lets the loop end before them.
			"tsc=reliable no_timer_check"}, nil
	case "arm64":
		// The board has one serial port, so the other is on the PCI bus.
		return architecture{"qemu-system-aarch64", "qemu-system-arm", "linux-image-cloud-arm64", "ttyAMA0", "ttyS0",
			[]string{"-device", "pci-serial,chardev=shell"}, ""}, nil
	}
	return architecture{}, fmt.Errorf("no guests of architecture %q: want amd64 or arm64", arch)
}

// Find returns the parts of a guest of an architecture (empty: amd64). A missing Debian package is a [*MissingError];
// tests then skip.
func Find(arch string) (*Parts, error) {
	arch = cmp.Or(arch, "amd64")
	a, err := findArchitecture(arch)
	if err != nil {
		return nil, err
	}
	var p Parts
	if p.QEMU, err = exec.LookPath(a.qemu); err != nil {
		return nil, &MissingError{a.qemuPackage, err}
	}
	kernel, err := packageDir(arch, a.kernelPackage)
	if err != nil {
		return nil, err
	}
	if p.Kernel, err = singleMatch(kernel, "boot/vmlinuz-*"); err != nil {
		return nil, err
	}
	release := strings.TrimPrefix(filepath.Base(p.Kernel), "vmlinuz-")
	// If /lib is a link to /usr/lib, newer packages have their modules there.
	if p.Modules, err = singleMatch(kernel, "lib/modules/"+release, "usr/lib/modules/"+release); err != nil {
		return nil, err
	}
	busybox, err := packageDir(arch, "busybox-static")
	if err != nil {
		return nil, err
	}
	p.Busybox, err = singleMatch(busybox, "bin/busybox", "usr/bin/busybox")
	return &p, err
}

func packageDir(arch, name string) (string, error) {
	dir, err := debian.Dir(arch, name)
	if missing := (*debian.MissingError)(nil); errors.As(err, &missing) {
		return "", &MissingError{name + ":" + arch, err}
	}
	return dir, err
}

// singleMatch returns the single file of a directory that matches a pattern. It uses the first pattern that exactly
// one file matches.
func singleMatch(dir string, patterns ...string) (string, error) {
	for _, p := range patterns {
		if found, err := filepath.Glob(filepath.Join(dir, p)); err != nil {
			return "", fmt.Errorf("find %s: %w", p, err)
		} else if len(found) == 1 {
			return found[0], nil
		}
	}
	return "", fmt.Errorf("%s has not exactly one %s: remove the directory to have the package unpacked anew",
		dir, patterns[0])
}

// oneThread is the accelerator in which one thread runs all CPUs of the guest in turn.
const oneThread = "tcg,thread=single"

// accelerator returns how QEMU translates: with a thread for each CPU of the guest if the host has a CPU for each, and
// otherwise with one thread that runs them in turn. Threads that outnumber the host's CPUs wait for locks whose holders
// the host does not run at the moment, at worst until the guest hangs; one thread switches to the next CPU when one
// waits.
func accelerator(qemu []string, hostCPUs int) string {
	cpus := 1
	if at := slices.Index(qemu, "-smp"); at >= 0 && at+1 < len(qemu) {
		first, _, _ := strings.Cut(qemu[at+1], ",")
		if n, err := strconv.Atoi(strings.TrimPrefix(first, "cpus=")); err == nil {
			cpus = n
		}
	}
	if cpus > hostCPUs {
		return oneThread
	}
	return "tcg,thread=multi"
}

// qemuArgs returns QEMU's command line.
func qemuArgs(c Config, p *Parts, accel, initrd string) []string {
	a, _ := findArchitecture(cmp.Or(c.Arch, "amd64"))
	line := fmt.Sprintf("console=%s quiet loglevel=4 panic=-1 mitigations=off %s guest.shell=%s", a.console,
		a.append, a.shell)
	reboot := "shutdown"
	if c.Reboots {
		reboot = "reset"
	}
	out := []string{"-accel", accel, "-nodefaults", "-no-user-config", "-display",
		"none", "-action", "reboot=" + reboot,
		"-kernel", p.Kernel, "-initrd", initrd, "-append", strings.TrimSpace(line + " " + c.Append),
		"-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console",
		"-chardev", fmt.Sprintf("socket,id=shell,fd=%d", shellFD)}
	out = append(out, a.shellDevice...)
	if c.Disk != "" {
		// QEMU wants commas in values doubled.
		out = append(out, "-drive", "format=raw,if=none,id=disk,snapshot=on,file="+strings.ReplaceAll(c.Disk, ",", ",,"),
			"-device", "virtio-blk-pci,drive=disk")
	}
	if c.Network {
		network := "user,id=network"
		if c.Port != 0 {
			network += fmt.Sprintf(",hostfwd=tcp:127.0.0.1:%d-10.0.2.15:%d", c.HostPort, c.Port)
		}
		out = append(out, "-netdev", network, "-device", "virtio-net-pci,netdev=network")
	}
	// The caller's arguments come last: QEMU would connect devices that name no bus to a bridge among them.
	return append(out, c.Args...)
}
