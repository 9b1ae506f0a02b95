package control_test

import (
	"context"
	"strings"
	"testing"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	layouts "github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/core/place"
	definition "github.com/tenon-numa/tenon/deploy/crd"
	"github.com/tenon-numa/tenon/lab/control"
	"github.com/tenon-numa/tenon/lab/machines"
)

// The definition is upgraded before the agents (docs/howto/upgrade.md): a write of an agent that is newer than the
// definition is rejected as a whole, and passes once the definition is replaced. A write of an older agent passes, and
// removes the fields of newer agents.
func TestTheDefinitionIsUpgradedFirst(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	p, err := control.Start(ctx, control.Options{Dir: t.TempDir(), CRDs: [][]byte{withoutSection(t, "kubelet")}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	}()
	nodes, err := layouts.New(p.Admin)
	if err != nil {
		t.Fatal(err)
	}
	m, err := machines.Load("laptop")
	if err != nil {
		t.Fatal(err)
	}
	older := v1alpha1.FromCore("node", m.Topo, place.Rules{}, nil, nil)
	newer := older.DeepCopy()
	newer.Kubelet.Version = "v1.36.3"
	if _, err := nodes.Apply(ctx, newer); err == nil || !strings.Contains(err.Error(), "kubelet") {
		t.Fatalf("a newer agent writes what the definition does not have: %v, want an error that names it", err)
	}
	if _, err := nodes.Apply(ctx, older); err != nil {
		t.Fatalf("an agent of the definition's release: %v", err)
	}

	replace(ctx, t, p, definition.NodeLayout())
	err = wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		l, err := nodes.Apply(ctx, newer)
		return err == nil && l.Kubelet.Version == "v1.36.3", nil
	})
	if err != nil {
		t.Fatalf("a newer agent after the upgrade of the definition: %v", err)
	}
	if l, err := nodes.Apply(ctx, older); err != nil || l.Kubelet.Version != "" {
		t.Errorf("an older agent: %v, and the layout says version %q of its kubelet, want none", err, l.Kubelet.Version)
	}
}

// withoutSection returns the definition of NodeLayout of an imagined earlier release.
func withoutSection(t *testing.T, name string) []byte {
	t.Helper()
	var d apiextensions.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(definition.NodeLayout(), &d); err != nil {
		t.Fatal(err)
	}
	sections := d.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties
	if _, ok := sections[name]; !ok {
		t.Fatalf("the definition has no section %s", name)
	}
	delete(sections, name)
	out, err := yaml.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// replace applies a definition as kubectl apply --server-side does.
func replace(ctx context.Context, t *testing.T, p *control.Plane, manifest []byte) {
	t.Helper()
	c, err := clientset.NewForConfig(p.Admin)
	if err != nil {
		t.Fatal(err)
	}
	data, err := yaml.YAMLToJSON(manifest)
	if err != nil {
		t.Fatal(err)
	}
	force := true
	_, err = c.ApiextensionsV1().CustomResourceDefinitions().Patch(ctx, "nodelayouts.tenon.sh", types.ApplyPatchType, data,
		metav1.PatchOptions{FieldManager: "kubectl", Force: &force})
	if err != nil {
		t.Fatal(err)
	}
}
