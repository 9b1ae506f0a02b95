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

// arch is the architecture of nodes, in the names of Debian and Go.
const arch = "amd64"

// diskMiB is the size of a node's disk; it uses only the space of its files.
const diskMiB = 1536

// programs are the paths of the guest's programs.
var programs = map[string][]string{
	"usr/local/bin": {"kubelet", "tenon-agent", "plugin", "forward", "containerd", "containerd-shim-runc-v2", "ctr",
		"runc"},
	"opt/cni/bin": {"ptp", "loopback", "host-local"},
}

// Disk is the disk that nodes boot from. Guests do not write to it, so many may share one.
type Disk struct{ path string }

// BuildDisk builds the programs of a node if they are not up to date, and the disk with them, as a file of a directory.
// It reports each step to progress, which may be nil. The first build takes some minutes of CPU time; later ones take
// seconds. Missing packages are a [*guest.MissingError].
func BuildDisk(ctx context.Context, dir string, progress func(line string)) (*Disk, error) {
	if progress == nil {
		progress = func(string) {}
	}
	d := &Disk{filepath.Join(dir, "node.img")}
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
	if err := fill(tree, bin, linux.Busybox); err != nil {
		return err
	}
	if err := makeFileSystem(ctx, mkfs, d.path, tree); err != nil {
		return err
	}
	say("built the disk")
	return nil
}

// checkHost refuses hosts on which programs would have to be cross-compiled with a C library.
func checkHost() error {
	if runtime.GOARCH != arch {
		return fmt.Errorf("the host is %s, and the programs of a node are built for %s", runtime.GOARCH, arch)
	}
	return nil
}

// fill lays out the files of a node below a directory.
func fill(tree, bin, busybox string) error {
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
	image, err := imageArchive(program)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(tree, "var", "lib", "work.tar"), image, 0o644); err != nil {
		return err
	}
	return fs.WalkDir(guestFiles, "root", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := guestFiles.ReadFile(name)
		if err != nil {
			return err
		}
		return writeProgram(filepath.Join(tree, filepath.FromSlash(name[len("root/"):])), data)
	})
}

func writeProgram(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o755)
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

// makeFileSystem makes an ext4 image of a directory, which needs neither root nor a mount. The file system is never
// recovered, so it has no journal.
func makeFileSystem(ctx context.Context, mkfs, path, tree string) error {
	cmd := exec.CommandContext(ctx, mkfs, "-q", "-F", "-O", "^has_journal", "-m", "0", "-E", "root_owner=0:0",
		"-d", tree, path, fmt.Sprintf("%dM", diskMiB))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make file system %s: %w: %s", path, err, last(string(out), 400))
	}
	return nil
}
