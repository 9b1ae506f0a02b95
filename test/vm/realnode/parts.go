package realnode

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/tenon-numa/tenon/test/vm/guest"
)

const module = "github.com/tenon-numa/tenon"

// part is a group of programs that are built from one module with the same settings.
type part struct {
	name string // for progress and errors
	// dir is the module whose go.mod pins the versions, from the root of the workspace; "" is the workspace itself.
	dir      string
	packages []string
	env      []string
	tags     string
	ldflags  string
}

// staticC links the C library statically, because the guest has none. Packages are compiled as this module's tests
// compile them, so that they are in the build cache.
const staticC = "-s -w -linkmode external -extldflags -static"

// nodeParts lists the programs of a node. release is Kubernetes', such as "v1.37.2".
func nodeParts(release string) []part {
	const version = "k8s.io/component-base/version"
	noC := []string{"CGO_ENABLED=0"}
	return []part{
		{name: "kubelet", packages: []string{"k8s.io/kubernetes/cmd/kubelet"},
			ldflags: staticC + " -X " + version + ".gitVersion=" + release},
		{name: "tenon-agent", packages: []string{module + "/cmd/tenon-agent"}, ldflags: staticC},
		{name: "device plugins", packages: []string{module + "/test/vm/realnode/plugin"}, ldflags: staticC},
		{name: "driver for claims", packages: []string{module + "/test/vm/realnode/driver"}, ldflags: staticC},
		{name: "service forwarder", packages: []string{module + "/test/vm/realnode/forward"}, env: noC, ldflags: "-s -w"},
		{name: "workload", packages: []string{module + "/test/vm/realnode/work"}, env: noC, ldflags: "-s -w"},
		{name: "containerd", dir: "test/vm/realnode/parts/containerd", env: noC, ldflags: "-s -w",
			tags: "no_btrfs no_devmapper no_zfs no_aufs",
			packages: withPrefix("github.com/containerd/containerd/v2/cmd/", "containerd",
				"containerd-shim-runc-v2", "ctr")},
		// The kubelet gives every sandbox the runtime's seccomp profile, so runc must support seccomp.
		{name: "runc", dir: "test/vm/realnode/parts/runc", ldflags: staticC,
			tags:     "seccomp netgo osusergo urfave_cli_no_docs",
			packages: []string{"github.com/opencontainers/runc"}},
		{name: "network plugins", dir: "test/vm/realnode/parts/cni", env: noC, ldflags: "-s -w",
			packages: withPrefix("github.com/containernetworking/plugins/plugins/", "main/ptp", "main/loopback",
				"ipam/host-local")},
	}
}

// OlderKubelet is the release of the kubelet that a node of [BuildOlderDisk] has. The go.mod in parts/kubelet pins
// it.
const OlderKubelet = "v1.33.13"

// olderParts returns the part with [OlderKubelet], which replaces the newest kubelet. The argument, a release of
// Kubernetes, has no influence.
func olderParts(string) []part {
	return []part{{name: "kubelet " + OlderKubelet, dir: "test/vm/realnode/parts/kubelet",
		packages: []string{"k8s.io/kubernetes/cmd/kubelet"},
		ldflags:  staticC + " -X k8s.io/component-base/version.gitVersion=" + OlderKubelet}}
}

// cpuDriverParts returns the part with dra-driver-cpu, whose release the go.mod in parts/dracpu pins. The argument has
// no influence.
func cpuDriverParts(string) []part {
	return []part{{name: "dra-driver-cpu", dir: "test/vm/realnode/parts/dracpu", env: []string{"CGO_ENABLED=0"},
		ldflags: "-s -w", packages: []string{"github.com/kubernetes-sigs/dra-driver-cpu/cmd/dracpu"}}}
}

// toolParts lists the programs of an administrator's computer, and kube-controller-manager, which the lab's control
// plane lacks.
func toolParts(release string) []part {
	const version = " -X k8s.io/component-base/version.gitVersion="
	kubernetes := "-s -w" + version + release
	return []part{
		{name: "kube-controller-manager and kubectl", ldflags: kubernetes,
			packages: withPrefix("k8s.io/kubernetes/cmd/", "kube-controller-manager", "kubectl")},
		{name: "kubectl-tenon", packages: []string{module + "/cmd/kubectl-tenon"}, ldflags: "-s -w"},
		{name: "helm", dir: "test/vm/realnode/parts/helm", env: []string{"CGO_ENABLED=0"}, ldflags: "-s -w",
			packages: []string{"helm.sh/helm/v4/cmd/helm"}},
	}
}

func withPrefix(prefix string, names ...string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = prefix + n
	}
	return out
}

// buildParts builds the programs of a node that are not up to date, and returns their directory.
func buildParts(ctx context.Context, say func(string)) (string, error) {
	return buildAll(ctx, "", nodeParts, say)
}

// BuildTools builds kubectl with Tenon's plugin, helm, and kube-controller-manager for this computer if they are not up
// to date, and returns the directory of the programs. It reports each step to progress, which must not be nil.
func BuildTools(ctx context.Context, progress func(line string)) (string, error) {
	if err := checkHost(); err != nil {
		return "", err
	}
	return buildAll(ctx, "tools", toolParts, progress)
}

// buildAll builds parts for the release of Kubernetes in go.mod, and returns the directory of the programs. Each
// checkout has its own directory in the user's cache; name is a folder in it.
func buildAll(ctx context.Context, name string, partsOf func(release string) []part,
	say func(string)) (string, error) {
	root, err := Root(ctx)
	if err != nil {
		return "", err
	}
	release, err := goOutput(ctx, root, "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	if err != nil {
		return "", fmt.Errorf("find the release of Kubernetes: %w", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a place for the parts: %w", err)
	}
	sum := sha256.Sum256([]byte(root))
	bin := filepath.Join(cache, "tenon", "realnode-"+hex.EncodeToString(sum[:6]), name)
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return "", fmt.Errorf("make a place for the parts: %w", err)
	}
	for _, p := range partsOf(release) {
		if err := p.build(ctx, root, bin, say); err != nil {
			return "", err
		}
	}
	return bin, nil
}

// Root returns the folder of the repository.
func Root(ctx context.Context) (string, error) {
	root, err := goOutput(ctx, ".", "list", "-m", "-f", "{{.Dir}}", module)
	if err != nil {
		return "", fmt.Errorf("find the source of %s: %w", module, err)
	}
	return root, nil
}

// build builds the programs of a part into a directory. The go command skips what is up to date.
func (p part) build(ctx context.Context, root, bin string, say func(string)) error {
	began := time.Now()
	args := []string{"build", "-o", bin + string(filepath.Separator), "-ldflags", p.ldflags}
	if p.tags != "" {
		args = append(args, "-tags", p.tags)
	}
	cmd := goCommand(ctx, filepath.Join(root, p.dir), append(args, p.packages...)...)
	cmd.Env = append(cmd.Env, p.env...)
	if p.dir != "" {
		cmd.Env = append(cmd.Env, "GOWORK=off")
	}
	// The linker warns of C functions that would need a C library in the guest; only a failure matters.
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	say("building " + p.name)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build %s: %w:\n%s", p.name, errors.Join(err, context.Cause(ctx)),
			tail(output.String(), 4000))
	}
	say(fmt.Sprintf("built %s (%s)", p.name, time.Since(began).Round(100*time.Millisecond)))
	return nil
}

// checkLinker tries a link with the C library, so that missing packages are reported by name before minutes of
// building.
func checkLinker(ctx context.Context) error {
	cc, err := goOutput(ctx, ".", "env", "CC")
	if err != nil {
		return fmt.Errorf("find the C compiler: %w", err)
	}
	words := append(strings.Fields(cc), "-static", "-x", "c", "-o", os.DevNull, "-", "-lseccomp")
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Stdin = strings.NewReader("int main(void) { return 0; }\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return &guest.MissingError{Package: "gcc libc6-dev libseccomp-dev", Err: fmt.Errorf("%s: %w: %s", words[0], err,
			tail(string(out), 400))}
	}
	return nil
}

// goCommand returns a go command that builds for the guest's platform.
func goCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second // the go command does not end while it downloads
	return cmd
}

func goOutput(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := goCommand(ctx, dir, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w: %s", args[0], err, tail(stderr.String(), 400))
	}
	return strings.TrimSpace(string(out)), nil
}

// tail returns the end of a text, at most n bytes.
func tail(s string, n int) string {
	s = strings.TrimSpace(s)
	if len(s) > n {
		s = "... " + s[len(s)-n:]
	}
	return s
}
