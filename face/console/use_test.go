package console_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/tenon-numa/tenon/api/document"
)

// A node reports what all its containers use. A person sees only containers of pods on that node that the person may
// read.
func TestUseShowsOnlyPodsThatOneMayRead(t *testing.T) {
	s := signedIn(t)
	var none document.NodeUse
	if s.get(t, "/api/v1/nodes/a/use", &none); none.Problem == "" || none.Samples == nil {
		t.Errorf("where nothing measures the answer is %+v", none)
	}
	if code, _, _ := s.ask(t, "GET", "/api/v1/nodes/nope/use", ""); code != http.StatusNotFound {
		t.Errorf("a node that is not there answers %d", code)
	}
	of := func(namespace, pod string) document.ContainerUse {
		return document.ContainerUse{Namespace: namespace, Pod: pod, Container: "c", Memory: []document.BytesOnNUMA{}}
	}
	now := time.Unix(1e9, 0).UTC()
	all := []document.ContainerUse{of("ml", "p"), of("ml", "wait"), of("secret", "p")}
	said := document.NodeUse{Kind: "NodeUse", Node: "a", Source: "agent", Samples: []document.UseSample{
		{Time: now, NUMAs: []document.NUMAUse{{ID: 0}}, Containers: all},
		{Time: now.Add(5 * time.Second), NUMAs: []document.NUMAUse{{ID: 0}}, Containers: all}}}
	s.who.Use = func(context.Context, string, string) document.NodeUse { return said }
	for path, first := range map[string]int{"/api/v1/nodes/a/use": 0, "/api/v1/nodes/a/use?pod=ml%2Fp": 1,
		"/api/v1/nodes/a/use?pod=secret%2Fp": 0} {
		var got document.NodeUse
		s.get(t, path, &got)
		if len(got.Samples) != 2 || len(got.Samples[0].Containers) != first {
			t.Fatalf("%s: %+v", path, got)
		}
		if last := got.Samples[1].Containers; len(last) != 1 || last[0].Pod != "p" || last[0].Namespace != "ml" {
			t.Errorf("%s shows %+v", path, last)
		}
	}
	if len(said.Samples[0].Containers) != 3 {
		t.Error("an answer changes what others get")
	}
}
