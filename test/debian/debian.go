// Package debian keeps Debian packages unpacked in a cache of the user, without installing them: kernels for guests,
// programs of another architecture, programs whose installation would start a service.
//
// apt-get fetches them with the host's list of sources and checks their signatures. Its state is kept in the cache too,
// so that neither root nor a foreign architecture is needed, and nothing of the host is changed. Invariant: a package's
// directory is complete or absent. The package refuses names that Debian does not allow, and hosts without apt-get and
// dpkg-deb.
package debian

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

// MissingError is a package that is not in the cache.
type MissingError struct{ Arch, Package string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("Debian package %s:%s is not in the cache: run go run ./test packages", e.Package, e.Arch)
}

// Dir returns the directory that has the files of a package, at their paths below "/". arch is "amd64" or "arm64". It
// does not download: if the package is missing the error is a [*MissingError].
func Dir(arch, name string) (string, error) {
	root, err := archDir(arch)
	if err != nil {
		return "", err
	}
	if !validName(name) {
		return "", fmt.Errorf("%q is not the name of a Debian package", name)
	}
	dir := filepath.Join(root, name)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return "", &MissingError{arch, name}
	} else if err != nil {
		return "", fmt.Errorf("find Debian package %s: %w", name, err)
	}
	return dir, nil
}

// Unpack fetches a package that is not in the cache yet. If a package only depends on its newest version, such as
// linux-image-cloud-amd64, Unpack keeps that version under the requested name. It reports each step to progress.
func Unpack(ctx context.Context, arch, name string, progress func(line string)) error {
	return inCache(ctx, arch, name, func(a *apt, root string) error {
		progress(fmt.Sprintf("Debian package %s:%s: fetching", name, arch))
		return a.unpack(ctx, root, name, progress)
	})
}

const incompletePrefix = ".new-" // prefix of the name of an incomplete directory

// removeIncomplete removes incomplete directories of a killed process.
func removeIncomplete(root string) error {
	left, err := filepath.Glob(filepath.Join(root, incompletePrefix+"*"))
	for _, dir := range left {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	if err != nil {
		return fmt.Errorf("clean the cache: %w", err)
	}
	return nil
}

// lock makes a directory and waits until no other process unpacks into it.
func lock(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the cache: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the cache: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock the cache: %w", err), f.Close())
	}
	return func() { f.Close() }, nil
}

// archDir returns the cache's directory for an architecture. The path contains a version, so that another layout of the
// cache does not conflict with this one.
func archDir(arch string) (string, error) {
	if !validName(arch) {
		return "", fmt.Errorf("%q is not the name of a Debian architecture", arch)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache of the user: %w", err)
	}
	return filepath.Join(cache, "tenon", "debian-1", arch), nil
}

// validName checks names by section 5.6.1 of Debian's policy. A valid name is a single element of a path.
func validName(s string) bool {
	return len(s) <= 100 && regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]+$`).MatchString(s)
}

// apt is apt-get with its own state.
type apt struct {
	options []string
	// updateErr is why the package lists could not be read completely, or nil. One source of several may lack the
	// architecture, so the error is reported only if a package is not available.
	updateErr error
}

// newApt returns apt-get for one architecture, with its state below dir, and reads the package lists of the host's
// sources.
func newApt(ctx context.Context, arch, dir string) (*apt, error) {
	for _, program := range []string{"apt-get", "apt-cache", "dpkg-deb"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("this is no Debian: %w", err)
		}
	}
	for _, d := range []string{"state/lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			return nil, fmt.Errorf("make the state of apt-get: %w", err)
		}
	}
	status := filepath.Join(dir, "status")
	if err := os.WriteFile(status, nil, 0o600); err != nil {
		return nil, fmt.Errorf("make the state of apt-get: %w", err)
	}
	a := &apt{}
	for _, o := range []string{
		"Dir::State=" + filepath.Join(dir, "state"), "Dir::State::status=" + status,
		"Dir::Cache=" + filepath.Join(dir, "cache"),
		"APT::Architecture=" + arch, "APT::Architectures=" + arch,
		"Acquire::Languages=none", "APT::Get::List-Cleanup=false",
		// As root, apt-get would fetch as a user that cannot write here.
		"APT::Sandbox::User=root",
	} {
		a.options = append(a.options, "-o", o)
	}
	_, a.updateErr = run(ctx, dir, "apt-get",
		append(a.options, "-q", "-o", "APT::Update::Error-Mode=any", "update")...)
	return a, nil
}

// unpack downloads a package and unpacks its files into root/name.
func (a *apt) unpack(ctx context.Context, root, name string, progress func(string)) error {
	description, err := run(ctx, root, "apt-cache", append(a.options, "show", "--no-all-versions", name)...)
	if err != nil {
		return errors.Join(err, a.updateErr)
	}
	tmp, err := os.MkdirTemp(root, incompletePrefix)
	if err != nil {
		return fmt.Errorf("make room: %w", err)
	}
	defer os.RemoveAll(tmp)
	concrete := realName(description, name)
	if concrete != name {
		progress(fmt.Sprintf("Debian package %s: fetching %s", name, concrete))
	}
	if _, err := run(ctx, tmp, "apt-get", append(a.options, "-q", "download", concrete)...); err != nil {
		return errors.Join(err, a.updateErr)
	}
	archives, err := filepath.Glob(filepath.Join(tmp, "*.deb"))
	if err != nil || len(archives) != 1 {
		return fmt.Errorf("apt-get download left %d archives, want 1", len(archives))
	}
	files := filepath.Join(tmp, "files")
	if _, err := run(ctx, tmp, "dpkg-deb", "-x", archives[0], files); err != nil {
		return err
	}
	if err := os.Rename(files, filepath.Join(root, name)); err != nil {
		return fmt.Errorf("keep: %w", err)
	}
	return nil
}

// realName returns the package that name stands for, according to its description from apt-cache. If name depends on
// exactly one package, of the same version, that is the package; otherwise it is name.
func realName(description, name string) string {
	var version, depends string
	for line := range strings.Lines(description) {
		switch key, val, _ := strings.Cut(strings.TrimSpace(line), ": "); key {
		case "Version":
			version = val
		case "Depends":
			depends = val
		}
	}
	if other, same := strings.CutSuffix(depends, " (= "+version+")"); same && validName(other) {
		return other
	}
	return name
}

// run runs a program and returns its output; an error contains the end of its error output.
func run(ctx context.Context, dir, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	var out, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		const maxText = 2000
		text := strings.TrimSpace(stderr.String())
		return "", fmt.Errorf("%s: %w: %s", program, err, text[max(0, len(text)-maxText):])
	}
	return out.String(), nil
}
