package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/test/debian"
)

// debianPackage is a Debian package that tests need.
type debianPackage struct{ arch, name, why string }

const host = runtime.GOARCH // Debian has the same names

// toInstall are packages that apt-get installs.
var toInstall = []debianPackage{
	{host, "gcc", "race detector, runc"},
	{host, "libc6-dev", "race detector, runc"},
	{host, "qemu-system-x86", "guests"},
	{host, "qemu-system-arm", "guests of arm64"},
	{host, "libseccomp-dev", "runc"},
	{host, "e2fsprogs", "disks of guests"},
	{host, "chromium", "pages of the console"},
	{host, "fonts-noto-cjk", "pages of the console in Chinese"},
}

// toUnpack are packages that are unpacked into the user's cache. A kernel is for guests and must not become the host's;
// busybox is of the guest's architecture; installing prometheus would start it as a service of the host.
var toUnpack = []debianPackage{
	{"amd64", "linux-image-cloud-amd64", "guests"},
	{"amd64", "busybox-static", "guests"},
	{"arm64", "linux-image-cloud-arm64", "guests of arm64"},
	{"arm64", "busybox-static", "guests of arm64"},
	{host, "prometheus", "alerting rules"},
}

// systemd and systemdExtras are packages that are unpacked with their dependencies, for guests that run systemd.
var (
	systemd       = debianPackage{"amd64", "systemd", "guests with systemd"}
	systemdExtras = []string{"mount", "util-linux", "coreutils", "dash"}
)

// debianPackages installs and unpacks the missing packages. It reports each package that is not available; the tests
// that need it do not run.
func (r *runner) debianPackages(ctx context.Context) error {
	if _, err := exec.LookPath("apt-get"); err != nil {
		all := slices.Concat(toInstall, toUnpack, []debianPackage{systemd})
		return r.reportNotRun("what this machine, which is no Debian, may lack: %s", reasons(all))
	}
	errs := []error{r.install(ctx)}
	for _, n := range toUnpack {
		if ctx.Err() != nil {
			return errors.Join(append(errs, context.Cause(ctx))...)
		}
		err := debian.Unpack(ctx, n.arch, n.name, func(line string) {
			r.installed = true
			r.say("%s", line)
		})
		if err != nil {
			errs = append(errs, r.reportNotRun("%s: %v", n.why, err))
		}
	}
	err := debian.UnpackTree(ctx, systemd.arch, systemd.name, systemdExtras, func(line string) {
		r.installed = true
		r.say("%s", line)
	})
	if err != nil {
		errs = append(errs, r.reportNotRun("%s: %v", systemd.why, err))
	}
	return errors.Join(errs...)
}

// install installs missing packages, as root or by sudo without a password.
func (r *runner) install(ctx context.Context) error {
	missing := slices.DeleteFunc(slices.Clone(toInstall), func(n debianPackage) bool {
		out, err := exec.CommandContext(ctx, "dpkg-query", "-W", "-f", "${db:Status-Status}", n.name).Output()
		return err == nil && string(out) == "installed"
	})
	if len(missing) == 0 {
		return nil
	}
	var root []string
	if os.Geteuid() != 0 {
		root = []string{"sudo", "-n"}
	}
	apt := slices.Concat(root, []string{"apt-get", "install", "-y", "--no-install-recommends", "-o",
		"DPkg::Lock::Timeout=120"})
	update := slices.Concat(root, []string{"apt-get", "update"})
	all := slices.Concat(apt, packageNames(missing))
	r.say("installing Debian packages: %s", strings.Join(all, " "))
	if r.installed = r.runQuietly(ctx, all) == nil; r.installed {
		return nil
	}
	// The usual cause is a list of packages that is missing or old. One unavailable package should not keep the others
	// away.
	r.say("reading Debian's list of packages: %s", strings.Join(update, " "))
	updateErr := r.runQuietly(ctx, update)
	var errs []error
	for _, n := range missing {
		r.say("installing Debian package %s", n.name)
		if err := r.runQuietly(ctx, slices.Concat(apt, []string{n.name})); err != nil {
			errs = append(errs, r.reportNotRun("%s: Debian package %s: %v", n.why, n.name,
				errors.Join(err, updateErr)))
			continue
		}
		r.installed = true
	}
	return errors.Join(errs...)
}

// runQuietly runs a program. If it fails, the error has the last three lines of its output; otherwise the output is
// not shown.
func (r *runner) runQuietly(ctx context.Context, line []string) error {
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	out, err := cmd.CombinedOutput()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return fmt.Errorf("%s: %w: %s", line[0], err, strings.Join(lines[max(0, len(lines)-3):], " "))
	}
	return nil
}

// reportNotRun reports that something is not tested, at once and again at the end. With CI set that is an error: a
// run that passes must have tested everything.
func (r *runner) reportNotRun(format string, args ...any) error {
	line := r.reportLeftOut(format, args...)
	if os.Getenv("CI") != "" {
		return errors.New(line)
	}
	return nil
}

// reportLeftOut prints at once, and again at the end, that something is not run. It returns the line.
func (r *runner) reportLeftOut(format string, args ...any) string {
	line := "NOT RUN: " + fmt.Sprintf(format, args...)
	r.say("%s", line)
	first, _, _ := strings.Cut(line, "\n")
	r.leftOut(first)
	return line
}

func packageNames(list []debianPackage) []string {
	var out []string
	for _, n := range list {
		out = append(out, n.name)
	}
	return out
}

// reasons lists what packages are for, each reason once.
func reasons(list []debianPackage) string {
	var out []string
	for _, n := range list {
		out = append(out, strings.Split(n.why, ", ")...)
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), ", ")
}
