package install_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

const upgradePage = "docs/howto/upgrade.md"

// newer is the version that the chart is upgraded to.
const newer = "0.0.0-two"

// upgrade plays upgrade and rollback while pods come and go.
func upgrade(ctx context.Context, t *testing.T, w *world) {
	// All programs of this cluster share one emulated CPU, and during an upgrade there is one scheduler more.
	w.must(ctx, t, "helm upgrade tenon dist/tenon-*.tgz --namespace tenon-system --set scheduler.replicas=1 "+
		"--set image.pullPolicy=Never --wait --timeout 10m")
	w.next(ctx, t)
	for _, name := range []string{"tenon-agent", "tenon-scheduler"} {
		image := "ghcr.io/tenon-numa/" + name + ":"
		if _, err := w.node.Run(ctx, "ctr -n k8s.io images tag "+image+older+" "+image+newer); err != nil {
			t.Fatal(err)
		}
	}
	follow, come := w.follow(ctx, t), w.begin(ctx)
	defer func() {
		come.end(t)
		follow.check(ctx, t, w)
	}()
	w.play(ctx, t, upgradePage, "## In short")
	if !w.served(ctx, t)["next"] {
		t.Error("the upgraded definition of NodeLayout has no property next")
	}
	w.play(ctx, t, upgradePage, "## Go back")
	if w.served(ctx, t)["next"] {
		t.Error("the definition of NodeLayout still has the property next")
	}
}

// next makes a later chart and puts it into dist: with another version, and thereby another tag of the images, and one
// more property in the definition of NodeLayout.
func (w *world) next(ctx context.Context, t *testing.T) {
	t.Helper()
	dir, dist := filepath.Join(w.dir, "next"), filepath.Join(w.dir, "dist-next")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(w.root, "deploy", "chart"))); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "files", "nodelayouts.tenon.sh.yaml")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var definition apiextensions.CustomResourceDefinition
	if err := yaml.Unmarshal(data, &definition); err != nil {
		t.Fatal(err)
	}
	for _, v := range definition.Spec.Versions {
		v.Schema.OpenAPIV3Schema.Properties["next"] = apiextensions.JSONSchemaProps{Type: "string"}
	}
	if data, err = yaml.Marshal(definition); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	w.must(ctx, t, "helm package "+dir+" --version "+newer+" --app-version "+newer+" --destination "+dist)
	link := filepath.Join(w.shell.dir, "dist")
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dist, link); err != nil {
		t.Fatal(err)
	}
}

// served returns the properties of NodeLayouts that the API server serves.
func (w *world) served(ctx context.Context, t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	text, err := w.shell.run(ctx, "kubectl get customresourcedefinition nodelayouts.tenon.sh -o yaml")
	if err != nil {
		t.Fatal(err, text)
	}
	var definition apiextensions.CustomResourceDefinition
	if err := yaml.Unmarshal([]byte(text), &definition); err != nil {
		t.Fatal(err)
	}
	for _, v := range definition.Spec.Versions {
		for name := range v.Schema.OpenAPIV3Schema.Properties {
			out[name] = true
		}
	}
	return out
}
