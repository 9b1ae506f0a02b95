package numatopo

import (
	"testing"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// The object is created, is written again when it differs or somebody deleted it, and is not written otherwise.
func TestPublish(t *testing.T) {
	m, err := topo.ParseMachine("numa 0 cpus 0-3 memory 1Gi")
	if err != nil {
		t.Fatal(err)
	}
	static := place.Rules{CPU: place.CPURules{Static: true}}
	n := &state.Node{Name: "n", Machine: m, Rules: static, Usage: place.NewUsage(m, static)}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{resource: kind + "List"})
	p := &Publisher{client: client.Resource(resource), log: logr.Discard()}
	meta := metav1.ObjectMeta{Name: "n", OwnerReferences: []metav1.OwnerReference{{Kind: "Node", Name: "n", UID: "u"}}}
	publish := func(read *metav1.GetOptions, want bool) {
		t.Helper()
		_, wrote, err := p.Publish(t.Context(), n, meta, read)
		if err != nil || wrote != want {
			t.Fatalf("wrote %v, error %v; want %v", wrote, err, want)
		}
	}
	read := &metav1.GetOptions{}
	publish(read, true)
	publish(nil, false)
	publish(read, false)

	after, ok := n.With(state.PodID{UID: "p", Name: "p"}, &place.Pod{QoS: place.Guaranteed,
		Containers: []place.Container{{Name: "main", MilliCPU: 1000}}})
	if !ok {
		t.Fatal("the pod does not fit")
	}
	n = after
	publish(nil, true)
	o, err := p.client.Get(t.Context(), "n", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cpus := o.Object["spec"].(map[string]any)["numares"].(map[string]any)["cpu"].(map[string]any)["allocatable"]
	if cpus != "1-3" || len(o.GetOwnerReferences()) != 1 {
		t.Errorf("free CPUs %v, owners %v", cpus, o.GetOwnerReferences())
	}

	if err := p.client.Delete(t.Context(), "n", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	publish(nil, false) // no caller has read it
	publish(read, true)
}
