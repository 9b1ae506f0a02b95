package realnode

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/tenon-numa/tenon/test/vm/guest"
)

// guestFiles are files of a node as they lie below its "/".
//
//go:embed root
var guestFiles embed.FS

// systemdFiles are the files of a node whose programs systemd starts.
//
//go:embed all:systemd
var systemdFiles embed.FS

// arch is the architecture of nodes, in the names of Debian and Go.
const arch = "amd64"

// diskMiB is the size of a node's disk; it uses only the space of its files.
const diskMiB = 1536

// programs has the names of the guest's programs, by the folder on the disk that they are in.
var programs = map[string][]string{
	"usr/local/bin": {"kubelet", "tenon-agent", "plugin", "driver", "forward", "containerd",
		"containerd-shim-runc-v2", "ctr", "runc"},
	"opt/cni/bin": {"ptp", "loopback", "host-local"},
}

// Disk is the disk that nodes boot from. Guests do not write to it, so many may share one.
type Disk struct {
	path    string
	systemd bool
	// further are parts that this disk has besides the usual ones, or instead of them. Their program is replaced.
	further func(release string) []part
	program string
}

// BuildDisk builds the programs of a node if they are not up to date, and the disk that has them, as a file in dir.
// It reports each step to progress, which may be nil. The first build takes some minutes of CPU time; later ones take
// seconds. Missing packages are a [*guest.MissingError].
func BuildDisk(ctx context.Context, dir string, progress func(line string)) (*Disk, error) {
	return buildDisk(ctx, &Disk{path: filepath.Join(dir, "node.img")}, dir, progress)
}

// BuildOlderDisk does what BuildDisk does. Its nodes have the kubelet [OlderKubelet].
func BuildOlderDisk(ctx context.Context, dir string, progress func(line string)) (*Disk, error) {
	return buildDisk(ctx, &Disk{path: filepath.Join(dir, "older.img"), further: olderParts, program: "kubelet"}, dir,
		progress)
}

// BuildCPUDriverDisk does what BuildDisk does. Its nodes also have dra-driver-cpu, which "dracpu" starts.
func BuildCPUDriverDisk(ctx context.Context, dir string, progress func(line string)) (*Disk, error) {
	return buildDisk(ctx, &Disk{path: filepath.Join(dir, "dracpu.img"), further: cpuDriverParts, program: "dracpu"}, dir,
		progress)
}

// BuildSystemdDisk does what BuildDisk does. Its nodes run Debian's systemd, with units for containerd, the kubelet
// and the agent. The kubelet's unit is as packages install it, with a directory of drop-in files. The nodes have
// [ToolImage], too.
func BuildSystemdDisk(ctx context.Context, dir string, progress func(line string)) (*Disk, error) {
	return buildDisk(ctx, &Disk{path: filepath.Join(dir, "systemd.img"), systemd: true}, dir, progress)
}

func buildDisk(ctx context.Context, d *Disk, dir string, progress func(line string)) (*Disk, error) {
	if progress == nil {
		progress = func(string) {}
	}
	if err := d.build(ctx, dir, progress); err != nil {
		return nil, fmt.Errorf("build a node's disk: %w", err)
	}
	return d, nil
}

func (d *Disk) build(ctx context.Context, dir string, say func(string)) error {
	if err := checkHost(); err != nil {
		return err
	}
	linux, err := guest.Find(arch)
	if err != nil {
		return err
	}
	mkfs, err := findMkfs()
	if err != nil {
		return err
	}
	if err := checkLinker(ctx); err != nil {
		return err
	}
	bin, err := buildParts(ctx, say)
	if err != nil {
		return err
	}
	tree, err := os.MkdirTemp(dir, "tree-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tree)
	if d.systemd {
		err = layOutSystemd(ctx, tree, bin, linux.Busybox)
	} else if err = layOut(tree, bin, linux.Busybox); err == nil {
		err = copyFiles(tree, guestFiles, "root", 0o755)
	}
	if err != nil {
		return err
	}
	if d.further != nil {
		if err := d.addProgram(ctx, tree, say); err != nil {
			return err
		}
	}
	if err := d.makeFileSystem(ctx, mkfs, tree); err != nil {
		return err
	}
	say("built the disk")
	return nil
}

// addProgram builds the disk's further parts, and puts their program in place of one of the same name.
func (d *Disk) addProgram(ctx context.Context, tree string, say func(string)) error {
	bin, err := buildAll(ctx, "further", d.further, say)
	if err != nil {
		return err
	}
	file := filepath.Join(tree, "usr/local/bin", d.program)
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return copyFile(file, filepath.Join(bin, d.program))
}

// checkHost refuses hosts on which programs would have to be cross-compiled with a C library.
func checkHost() error {
	if runtime.GOARCH != arch {
		return fmt.Errorf("the host is %s, and the programs of a node are built for %s", runtime.GOARCH, arch)
	}
	return nil
}

// layOut lays out the files of a node below a directory.
func layOut(tree, bin, busybox string) error {
	for _, dir := range []string{"dev", "proc", "sys", "run", "tmp", "root", "bin", "sbin", "usr/bin", "usr/sbin",
		"var/log", "var/lib"} {
		if err := os.MkdirAll(filepath.Join(tree, dir), 0o755); err != nil {
			return err
		}
	}
	for dir, names := range programs {
		for _, name := range names {
			if err := copyFile(filepath.Join(tree, dir, name), filepath.Join(bin, name)); err != nil {
				return err
			}
		}
	}
	if err := copyFile(filepath.Join(tree, "bin", "busybox"), busybox); err != nil {
		return err
	}
	program, err := os.ReadFile(filepath.Join(bin, "work"))
	if err != nil {
		return err
	}
	image, err := imageArchive(Image, []string{entryPoint}, tarFile{name: entryPoint[1:], data: program, mode: 0o755})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(tree, "var", "lib", "work.tar"), image, 0o644)
}

// copyFiles copies the embedded files below a directory.
func copyFiles(tree string, files embed.FS, below string, mode fs.FileMode) error {
	return fs.WalkDir(files, below, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		path := filepath.Join(tree, filepath.FromSlash(name[len(below)+1:]))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		return os.WriteFile(path, data, mode)
	})
}

func copyFile(to, from string) (err error) {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	_, err = io.Copy(out, in)
	return err
}

// findMkfs finds the program that makes ext4 file systems. On Debian it is only in root's path.
func findMkfs() (string, error) {
	if path, err := exec.LookPath("mkfs.ext4"); err == nil {
		return path, nil
	}
	path, err := exec.LookPath("/usr/sbin/mkfs.ext4")
	if err != nil {
		return "", &guest.MissingError{Package: "e2fsprogs", Err: err}
	}
	return path, nil
}

// makeFileSystem makes an ext4 image of a directory, which needs neither root nor a mount. It has a journal only for
// nodes with systemd, because tests cut their power.
func (d *Disk) makeFileSystem(ctx context.Context, mkfs, tree string) error {
	journal := "^has_journal"
	if d.systemd {
		journal = "has_journal"
	}
	cmd := exec.CommandContext(ctx, mkfs, "-q", "-F", "-O", journal, "-m", "0", "-E", "root_owner=0:0",
		"-d", tree, d.path, fmt.Sprintf("%dM", diskMiB))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make file system %s: %w: %s", d.path, err, tail(string(out), 400))
	}
	return nil
}
