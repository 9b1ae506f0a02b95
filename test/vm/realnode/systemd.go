package realnode

import (
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/test/debian"
	"github.com/tenon-numa/tenon/test/vm/guest"
)

// DropIns is where the kubelet of a node with systemd reads its drop-in files.
const DropIns = "/etc/kubernetes/kubelet.conf.d"

// maskedUnits are units that never start, because no user logs in to a node or answers a prompt, and no record of a
// crash or a login is kept.
var maskedUnits = []string{"systemd-logind.service", "getty@tty1.service", "serial-getty@ttyS0.service",
	"serial-getty@ttyS1.service", "systemd-firstboot.service", "systemd-update-utmp.service", "getty.target",
	"systemd-pstore.service", "systemd-ask-password-wall.path", "systemd-ask-password-console.path"}

// enabledUnits are the units that start at boot.
var enabledUnits = []string{"containerd.service", "join.service", "kubelet.service", "tenon-agent.service"}

// layOutSystemd lays out the files of a node with systemd below a directory. Programs that Debian's packages lack are
// busybox's.
func layOutSystemd(ctx context.Context, tree, bin, busybox string) error {
	from, err := debian.Tree(arch, "systemd")
	if missing := (*debian.MissingError)(nil); errors.As(err, &missing) {
		return &guest.MissingError{Package: "systemd", Err: err}
	} else if err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "cp", "-a", from+"/.", tree).CombinedOutput(); err != nil {
		return fmt.Errorf("copy systemd: %w: %s", err, tail(string(out), 400))
	}
	if err := layOut(tree, bin, busybox); err != nil {
		return err
	}
	if err := copyFiles(tree, systemdFiles, "systemd", 0o644); err != nil {
		return err
	}
	if err := os.Chmod(filepath.Join(tree, "usr/local/sbin/node"), 0o755); err != nil {
		return err
	}
	applets, err := appletsOf(ctx, busybox)
	if err != nil {
		return err
	}
	if err := addTools(tree, applets, busybox); err != nil {
		return err
	}
	links := map[string]string{"sbin/init": "/usr/lib/systemd/systemd",
		"etc/systemd/system/default.target": "/usr/lib/systemd/system/multi-user.target"}
	for _, unit := range maskedUnits {
		links["etc/systemd/system/"+unit] = "/dev/null"
	}
	for _, unit := range enabledUnits {
		links["etc/systemd/system/multi-user.target.wants/"+unit] = "/usr/lib/systemd/system/" + unit
	}
	for name, target := range links {
		path := filepath.Join(tree, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.Symlink(target, path)); err != nil {
			return err
		}
	}
	return nil
}

// appletsOf returns the names of the programs that busybox implements and that a node may have as links to it, without
// busybox itself and init.
func appletsOf(ctx context.Context, busybox string) ([]string, error) {
	out, err := exec.CommandContext(ctx, busybox, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("list the programs of busybox: %w", err)
	}
	return slices.DeleteFunc(strings.Fields(string(out)), func(name string) bool {
		return name == "busybox" || name == "init" || name == "linuxrc" || strings.Contains(name, "/")
	}), nil
}

// addTools adds to the tree the programs of busybox that it lacks, and the image [ToolImage] with all of busybox's
// programs.
func addTools(tree string, applets []string, busybox string) error {
	program, err := os.ReadFile(busybox)
	if err != nil {
		return err
	}
	files := []tarFile{{name: "bin/busybox", data: program, mode: 0o755}}
	for _, name := range applets {
		files = append(files, tarFile{name: "bin/" + name, mode: 0o777, link: "busybox"})
		if exists(filepath.Join(tree, "usr/bin", name)) || exists(filepath.Join(tree, "usr/sbin", name)) {
			continue
		}
		if err := os.Symlink("busybox", filepath.Join(tree, "usr/bin", name)); err != nil {
			return err
		}
	}
	image, err := imageArchive(ToolImage, nil, files...)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(tree, "var", "lib", "busybox.tar"), image, 0o644)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// unitFiles returns the files of a node with systemd that differ between nodes, by absolute path. At the first boot,
// join.yaml becomes the kubelet's configuration file.
func unitFiles(name string, kubelet []byte) map[string]guest.File {
	args := "KUBELET_EXTRA_ARGS=--hostname-override=" + name + " --node-ip=10.0.2.15 --config-dir=" + DropIns + "\n"
	return map[string]guest.File{
		"/etc/machine-id":           {Data: fmt.Appendf(nil, "%x\n", md5.Sum([]byte(name))), Mode: 0o444},
		"/etc/resolv.conf":          {Mode: 0o644}, // the kubelet needs the file
		"/etc/hosts":                {Data: []byte("127.0.0.1 localhost " + name + "\n"), Mode: 0o644},
		"/etc/kubernetes/join.yaml": {Data: kubelet, Mode: 0o644},
		"/etc/default/kubelet":      {Data: []byte(args), Mode: 0o644},
	}
}
