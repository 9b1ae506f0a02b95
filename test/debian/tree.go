package debian

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// treeSuffix ends the name of a tree in the cache.
const treeSuffix = ".tree"

// maxArchives bounds the packages of a tree.
const maxArchives = 1000

// Tree returns the directory with the files of a package and of all its dependencies, as in a Debian system on which
// nothing was configured. It does not download: if the tree is missing the error is a [*MissingError].
func Tree(arch, name string) (string, error) {
	dir, err := Dir(arch, name+treeSuffix)
	if missing := (*MissingError)(nil); errors.As(err, &missing) {
		return "", &MissingError{arch, name}
	}
	return dir, err
}

// UnpackTree fetches a package, further packages, and all their dependencies, unless their tree is in the cache. It
// reports each step to progress.
func UnpackTree(ctx context.Context, arch, name string, extra []string, progress func(line string)) error {
	if i := slices.IndexFunc(extra, func(n string) bool { return !validName(n) }); i >= 0 {
		return fmt.Errorf("%q is not the name of a Debian package", extra[i])
	}
	return inCache(ctx, arch, name+treeSuffix, func(a *apt, root string) error {
		progress(fmt.Sprintf("Debian package %s:%s: fetching it and what it needs", name, arch))
		return a.unpackTree(ctx, root, name, extra)
	})
}

// unpackTree downloads packages with all dependencies, and unpacks them into one tree. It first makes the links of a
// merged /usr, such as /bin to /usr/bin, because packages may have their files below either path.
func (a *apt) unpackTree(ctx context.Context, root, name string, extra []string) error {
	tmp, err := os.MkdirTemp(root, incompletePrefix)
	if err != nil {
		return fmt.Errorf("make room: %w", err)
	}
	defer os.RemoveAll(tmp)
	archives, files := filepath.Join(tmp, "archives"), filepath.Join(tmp, "files")
	if err := os.MkdirAll(filepath.Join(archives, "partial"), 0o700); err != nil {
		return fmt.Errorf("make room: %w", err)
	}
	get := slices.Concat(a.options, []string{"-q", "-y", "-o", "Dir::Cache::archives=" + archives,
		"--no-install-recommends", "--download-only", "install", name}, extra)
	if _, err := run(ctx, tmp, "apt-get", get...); err != nil {
		return errors.Join(err, a.updateErr)
	}
	for _, dir := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.MkdirAll(filepath.Join(files, "usr", dir), 0o755); err != nil {
			return fmt.Errorf("make room: %w", err)
		}
		if err := os.Symlink("usr/"+dir, filepath.Join(files, dir)); err != nil {
			return fmt.Errorf("make room: %w", err)
		}
	}
	all, err := filepath.Glob(filepath.Join(archives, "*.deb"))
	if err != nil || len(all) == 0 || len(all) > maxArchives {
		return fmt.Errorf("apt-get left %d archives, want 1 to %d", len(all), maxArchives)
	}
	for _, archive := range all {
		if err := unpackInto(ctx, files, archive); err != nil {
			return err
		}
	}
	if err := os.Rename(files, filepath.Join(root, name+treeSuffix)); err != nil {
		return fmt.Errorf("keep: %w", err)
	}
	return nil
}

// unpackInto adds the files of an archive to a directory. It keeps the directory's links to directories, which
// dpkg-deb -x would replace.
func unpackInto(ctx context.Context, dir, archive string) error {
	read := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", archive)
	write := exec.CommandContext(ctx, "tar", "-x", "--keep-directory-symlink", "--no-same-owner", "-C", dir)
	var stderr bytes.Buffer
	read.Stderr, write.Stderr = &stderr, &stderr
	pipe, err := read.StdoutPipe()
	if err != nil {
		return fmt.Errorf("unpack %s: %w", filepath.Base(archive), err)
	}
	write.Stdin = pipe
	if err := read.Start(); err != nil {
		return fmt.Errorf("unpack %s: %w", filepath.Base(archive), err)
	}
	if err := errors.Join(write.Run(), read.Wait()); err != nil {
		return fmt.Errorf("unpack %s: %w: %s", filepath.Base(archive), err, stderr.String())
	}
	return nil
}

// inCache calls fill to make the directory of a package in the cache, unless the directory exists. A lock keeps other
// processes out meanwhile.
func inCache(ctx context.Context, arch, name string, fill func(a *apt, root string) error) error {
	var missing *MissingError
	if _, err := Dir(arch, name); !errors.As(err, &missing) {
		return err
	}
	root, err := archDir(arch)
	if err != nil {
		return err
	}
	unlock, err := lock(root)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(filepath.Join(root, name)); !errors.Is(err, fs.ErrNotExist) {
		return err // another process had the lock
	}
	if err := removeIncomplete(root); err != nil {
		return err
	}
	a, err := newApt(ctx, arch, filepath.Join(root, ".apt"))
	if err == nil {
		err = fill(a, root)
	}
	if err != nil {
		return fmt.Errorf("Debian package %s:%s: %w", name, arch, err)
	}
	return nil
}
