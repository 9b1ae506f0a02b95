package volcano

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/tenon-numa/tenon/lab/releases"
)

// Files of a folder with Volcano's programs.
const (
	scheduler   = "tenon-volcano-scheduler"
	controllers = "controller-manager"
	webhooks    = "webhook-manager"
	manifest    = "volcano.yaml" // Volcano's own, which kubectl apply would install
)

// Programs is the path of a folder with Volcano's programs and its manifest.
type Programs string

// Find returns the programs in the folder dir. If some are missing, it builds all of them into dir. If dir is empty, it
// always builds them, into a folder of the user's cache. To build, the working directory must be in a checkout of the
// repository.
func Find(ctx context.Context, dir string, progress func(line string)) (Programs, error) {
	if dir != "" && checkFiles(dir) == nil {
		return Programs(dir), nil
	}
	root, err := releases.Checkout()
	module := filepath.Join(root, "volcano")
	if err != nil {
		if dir != "" {
			err = errors.Join(checkFiles(dir), err)
		}
		return "", fmt.Errorf("find Volcano's programs: %w", err)
	}
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("find a folder for Volcano's programs: %w", err)
		}
		dir = filepath.Join(cache, "tenon-lab", "volcano")
	}
	progress("building Volcano's programs in " + dir + " (the first time some minutes)")
	if err := Build(ctx, module, dir); err != nil {
		return "", err
	}
	return Programs(dir), nil
}

// checkFiles returns an error that names the first file that a folder lacks, or nil.
func checkFiles(dir string) error {
	for _, name := range []string{scheduler, controllers, webhooks, manifest} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// Build builds the programs and copies the manifest into the folder dir, which it makes if necessary. module is the
// folder of Volcano's module in the repository.
func Build(ctx context.Context, module, dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("build Volcano's programs: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("build Volcano's programs: %w", err)
	}
	_, err = goTool(ctx, module, "build", "-ldflags=-s -w", "-o", dir+string(filepath.Separator), "./cmd/"+scheduler,
		"volcano.sh/volcano/cmd/"+controllers, "volcano.sh/volcano/cmd/"+webhooks)
	if err != nil {
		return fmt.Errorf("build Volcano's programs: %w", err)
	}
	source, err := goTool(ctx, module, "list", "-m", "-f", "{{.Dir}}", "volcano.sh/volcano")
	if err != nil {
		return fmt.Errorf("find Volcano's manifest: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(source, "installer", "volcano-development.yaml"))
	if err != nil {
		return fmt.Errorf("read Volcano's manifest: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, manifest), text, 0o644); err != nil {
		return fmt.Errorf("write Volcano's manifest: %w", err)
	}
	return nil
}

// goTool runs a go command in the folder of a module outside the workspace.
func goTool(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// Definitions returns Volcano's CustomResourceDefinitions, one YAML document each.
func (p Programs) Definitions() ([][]byte, error) { return p.documents("CustomResourceDefinition") }

// documents returns the YAML documents of Volcano's manifest that have one of the kinds.
func (p Programs) documents(kinds ...string) (out [][]byte, err error) {
	text, err := os.ReadFile(filepath.Join(string(p), manifest))
	if err != nil {
		return nil, fmt.Errorf("read Volcano's manifest: %w", err)
	}
	wanted, err := regexp.Compile(`(?m)^kind: (` + strings.Join(kinds, "|") + `)\s*$`)
	if err != nil {
		return nil, fmt.Errorf("read Volcano's manifest: %w", err)
	}
	docs := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read Volcano's manifest: %w", err)
		}
		if wanted.Match(doc) {
			out = append(out, doc)
		}
	}
}

// objects returns the objects of Volcano's manifest that have one of the kinds.
func (p Programs) objects(kinds ...string) (out []*unstructured.Unstructured, err error) {
	docs, err := p.documents(kinds...)
	if err != nil {
		return nil, err
	}
	for _, doc := range docs {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(doc, &o.Object); err != nil {
			return nil, fmt.Errorf("read Volcano's manifest: %w", err)
		}
		out = append(out, o)
	}
	return out, nil
}
