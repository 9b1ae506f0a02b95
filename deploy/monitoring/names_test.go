package monitoring_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"
)

// objectsOf are the objects in files, each as a tree.
func objectsOf(t *testing.T, files ...string) (out []map[string]any) {
	t.Helper()
	for _, file := range files {
		for _, doc := range bytes.Split(read(t, file), []byte("\n---\n")) {
			var o map[string]any
			if err := yaml.Unmarshal(doc, &o); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if o != nil {
				out = append(out, o)
			}
		}
	}
	return out
}

func text(o map[string]any, path ...string) string {
	for _, p := range path[:len(path)-1] {
		o, _ = o[p].(map[string]any)
	}
	s, _ := o[path[len(path)-1]].(string)
	return s
}

// named calls found with the kind and name of each Secret, ServiceAccount, ConfigMap and role that a value names.
func named(value any, found func(kind, name string)) {
	switch v := value.(type) {
	case []any:
		for _, x := range v {
			named(x, found)
		}
	case map[string]any:
		for key, kind := range map[string]string{"credentials": "Secret", "secret": "Secret", "keySecret": "Secret",
			"bearerTokenSecret": "Secret", "configMap": "ConfigMap"} {
			if ref, ok := v[key].(map[string]any); ok {
				found(kind, text(ref, "name"))
			}
		}
		if ref, ok := v["roleRef"].(map[string]any); ok {
			found(text(ref, "kind"), text(ref, "name"))
		}
		if name := text(v, "metadata", "annotations", "kubernetes.io/service-account.name"); name != "" {
			found("ServiceAccount", name)
		}
		for _, x := range v {
			named(x, found)
		}
	}
}

// What the manifests of one command name is among them.
func TestEverythingThatIsNamedIsThere(t *testing.T) {
	var k struct{ Resources []string }
	data, err := os.ReadFile("kustomization.yaml")
	if err == nil {
		err = yaml.Unmarshal(data, &k)
	}
	if err != nil {
		t.Fatal(err)
	}
	all, there := objectsOf(t, k.Resources...), map[[2]string]bool{}
	for _, o := range all {
		there[[2]string{text(o, "kind"), text(o, "metadata", "name")}] = true
	}
	count := 0
	for _, o := range all {
		named(o, func(kind, name string) {
			count++
			if !there[[2]string{kind, name}] {
				t.Errorf("%s %s names the %s %s, which %s lacks", text(o, "kind"), text(o, "metadata", "name"), kind, name,
					filepath.Join("deploy/monitoring", "kustomization.yaml"))
			}
		})
	}
	if count < 4 {
		t.Errorf("%d names were found: want those of two monitors, a token and a binding", count)
	}
}
