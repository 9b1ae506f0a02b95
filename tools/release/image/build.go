package image

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/tenon-numa/tenon/tools/release/archive"
)

// Program is one of Tenon's programs that runs in a container.
type Program struct {
	Name        string // of the folder below cmd, and of the image
	Module      string // folder of its module, which has other dependencies; empty for the main module
	Description string
	Ports       []string // in the form of an image's configuration: "9201/tcp"
}

// Scheduler is the program that must not be of a newer release of Kubernetes than the API server.
const Scheduler = "tenon-scheduler"

// Programs returns the programs that have images.
func Programs() []Program {
	return []Program{
		{"tenon-agent", "", "Publishes a node's NUMA topology, kubelet rules and holdings as a NodeLayout.",
			[]string{"9201/tcp", "9202/tcp"}},
		{"tenon-console", "", "A page and an API that show a cluster by NUMA node to whoever signs in.", []string{"8443/tcp"}},
		{Scheduler, "", "kube-scheduler with Tenon's plugin: NUMA-aware placement.", []string{"10259/tcp"}},
		{"kubectl-tenon", "", "Finds and carries out plans that move pods, by a schedule.", nil},
		{"tenon-descheduler", "descheduler", "The descheduler with Tenon's plugin TenonMakeRoom.", []string{"10258/tcp"}},
		{"tenon-volcano-scheduler", "volcano", "Volcano's scheduler with Tenon's plugin.", []string{"8080/tcp", "11251/tcp"}},
	}
}

// Source identifies the sources of images.
type Source struct {
	Root    string    // of the repository
	Version string    // of the release, without a v, as in the images' tag: 0.2.0
	Commit  string    // 40 hexadecimal digits
	Date    time.Time // of the commit: the only date in an image
	// Kubernetes is the release of the API server for which the scheduler is built, as 1.35; empty for the one of go.mod.
	Kubernetes string
}

// user is the user of images; it has no name and owns nothing. The agent's manifest sets another user, with the reason.
const user = "65532:65532"

// Compile builds a program for a platform into the file at path. The source is the folder cmd/NAME of the program's
// module.
func (s Source) Compile(ctx context.Context, p Program, platform v1.Platform, path string) error {
	file, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("find %s: %w", path, err)
	}
	// Without gRPC's traces, which use templates, the linker omits methods that are never called: the agent is a sixth
	// smaller on disk, and a tenth in memory.
	tags, workspace := "grpcnotrace", filepath.Join(s.Root, "go.work")
	args := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid= " + s.versionFlags(), "-o", file}
	if p.Module != "" {
		workspace = "off"
	}
	if s.Kubernetes != "" && p.Name == Scheduler {
		dir := filepath.Join(s.Root, "tools", "kubernetes")
		more, err := exec.CommandContext(ctx, filepath.Join(dir, "tags"), s.Kubernetes).Output()
		if err != nil {
			return fmt.Errorf("find the build tags of Kubernetes %s: %w", s.Kubernetes, err)
		}
		tags, workspace = tags+","+string(bytes.TrimSpace(more)), "off"
		args = append(args, "-modfile", filepath.Join(dir, s.Kubernetes+".mod"))
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "-tags", tags, "./cmd/"+p.Name)...)
	cmd.Dir = filepath.Join(s.Root, p.Module)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK="+workspace, "GOFLAGS=",
		"GOOS="+platform.OS, "GOARCH="+platform.Architecture, "GOAMD64=v1", "GOARM64=v8.0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s for %s: %w\n%s", p.Name, platform, err, tail(out))
	}
	return nil
}

// versionFlags returns the linker's flags that set a program's version.
func (s Source) versionFlags() string {
	const at = "-X github.com/tenon-numa/tenon/internal/version."
	return at + "tag=v" + s.Version + " " + at + "commit=" + s.Commit
}

// tail returns the end of what a command printed.
func tail(out []byte) []byte {
	const maxBytes = 4 << 10
	return out[max(0, len(out)-maxBytes):]
}

// Image returns the image of a program for a platform. The file at path is the compiled program.
func (s Source) Image(p Program, platform v1.Platform, path string) (v1.Image, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read program: %w", err)
	}
	// The program is at the root, belongs to root, and is read-only.
	var packed bytes.Buffer
	err = archive.Tar(&packed, []archive.File{{Name: p.Name, Mode: 0o555, Data: data}}, s.Date)
	if err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil }
	layer, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching,
		tarball.WithCompressionLevel(gzip.BestCompression))
	if err != nil {
		return nil, fmt.Errorf("pack %s: %w", p.Name, err)
	}
	date := v1.Time{Time: s.Date}
	config := &v1.ConfigFile{OS: platform.OS, Architecture: platform.Architecture, Variant: platform.Variant,
		Created: date,
		RootFS:  v1.RootFS{Type: "layers"}, Config: v1.Config{User: user, Entrypoint: []string{"/" + p.Name},
			WorkingDir: "/", Labels: s.Labels(p), ExposedPorts: map[string]struct{}{}}}
	for _, port := range p.Ports {
		config.Config.ExposedPorts[port] = struct{}{}
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.ConfigFile(base, config)
	if err != nil {
		return nil, fmt.Errorf("configure the image: %w", err)
	}
	if img, err = mutate.Append(img, mutate.Addendum{Layer: layer,
		History: v1.History{Created: date, CreatedBy: "tools/release images"}}); err != nil {
		return nil, fmt.Errorf("add the program's layer: %w", err)
	}
	return mutate.Annotations(img, s.Labels(p)).(v1.Image), nil
}

// Labels returns the OCI annotations of a program's image.
func (s Source) Labels(p Program) map[string]string {
	const at = "org.opencontainers.image."
	return map[string]string{
		at + "title": p.Name, at + "description": p.Description, at + "licenses": "Apache-2.0",
		at + "source": "https://github.com/tenon-numa/tenon", at + "version": s.Version, at + "revision": s.Commit,
		at + "created": s.Date.UTC().Format(time.RFC3339),
	}
}
