package kube

import (
	"strings"
	"testing"
	"unsafe"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/api/pod/podtest"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// Pods that request the same share the memory of that, and others do not.
func TestPodsOfAWorkloadShareTheirSpecs(t *testing.T) {
	f := begun(ledger.New())
	put := func(name string, c v1.Container) *boundPod {
		p := bind(podtest.Pod(name, c), "n", noon)
		f.Pod(p)
		return f.bound.pods[string(p.UID)]
	}
	first := put("a", podtest.Exact("c", "cpu=4 memory=1Gi"))
	if again := put("b", podtest.Exact("c", "cpu=4 memory=1Gi")); again.spec != first.spec {
		t.Error("equal pods have specs of their own")
	}
	for name, c := range map[string]v1.Container{"c": podtest.Exact("c", "cpu=4 memory=2Gi"),
		"d": podtest.Exact("other", "cpu=4 memory=1Gi")} {
		if p := put(name, c); p.spec == first.spec || p.spec.Containers[0].Name != c.Name {
			t.Errorf("pod %s has the spec of another pod", name)
		}
	}
}

// The ids of pods in a layout have the texts of the pods' objects, and no texts of their own.
func TestLayoutsShareTheTextsOfPods(t *testing.T) {
	book := ledger.New()
	f := begun(book)
	p := bind(four("a"), "n", noon)
	f.Pod(p)
	id := ID(p)
	id.UID, id.Namespace, id.Name = strings.Clone(id.UID), strings.Clone(id.Namespace), strings.Clone(id.Name)
	f.Layout(layoutOf(t, "n", 1, state.Entry{Pod: id,
		Holdings: []place.Holding{{Container: "c", CPUs: idset.Of[idset.CPU](1)}}}))
	e := book.Snapshot().Node("n").Entries[0]
	for _, texts := range [][2]string{{e.Pod.UID, string(p.UID)}, {e.Pod.Namespace, p.Namespace}, {e.Pod.Name, p.Name}} {
		if unsafe.StringData(texts[0]) != unsafe.StringData(texts[1]) {
			t.Errorf("%q is a copy", texts[0])
		}
	}
	other := id
	other.Name = "b"
	f.Layout(layoutOf(t, "m", 2, state.Entry{Pod: other}))
	wantHeld(t, book, "m", "b=")
}
