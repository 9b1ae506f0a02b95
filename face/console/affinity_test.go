package console_test

import (
	"context"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	resources "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/api/v1alpha1"
)

// A user sees which readable pods exchange data, and totals of all pods. The answer to a user who may not read the
// object names the missing right.
func TestAffinityShowsOnlyPodsThatOneMayRead(t *testing.T) {
	s := signedIn(t)
	const path = "/api/v1/nodes/a/affinity"
	var got document.Affinity
	s.get(t, path, &got)
	if len(got.Nodes) != 1 || len(got.Nodes[0].Pods) != 1 || got.Nodes[0].Pods[0].Why != "together" {
		t.Errorf("the object of the node is shown as %+v", got)
	}
	s.who.Affinity = nil
	if s.get(t, path, &got); got.Kind != "Affinity" || got.Nodes == nil || len(got.Nodes) > 0 {
		t.Errorf("where nothing measures the answer is %+v", got)
	}
	if code, _, _ := s.ask(t, "GET", "/api/v1/nodes/nope/affinity", ""); code != http.StatusNotFound {
		t.Errorf("a node that is not there answers %d", code)
	}
	object := v1alpha1.NodeAffinity{Summary: v1alpha1.AffinitySummary{Pods: 3, LocalBytesPerSecond: 7},
		Pods: []v1alpha1.AffinityPod{{Namespace: "ml", Name: "p"}, {Namespace: "ml", Name: "wait"},
			{Namespace: "secret", Name: "p"}},
		Traffic: []v1alpha1.AffinityTraffic{{A: "ml/p", B: "secret/p", BytesPerSecond: 5},
			{A: "ml/p", B: "ml/p", BytesPerSecond: 2}}}
	object.Name = "a"
	s.who.Affinity = func(context.Context, string) (document.Affinity, error) {
		return document.AffinityOf([]v1alpha1.NodeAffinity{object}), nil
	}
	s.get(t, path, &got)
	if len(got.Nodes) != 1 || got.Nodes[0].Summary.LocalBytesPerSecond != 7 {
		t.Fatalf("affinity %+v", got)
	}
	n := got.Nodes[0]
	if len(n.Pods) != 1 || n.Pods[0].Namespace != "ml" || len(n.Traffic) != 1 || n.Traffic[0].B != "ml/p" {
		t.Errorf("pods %+v, traffic %+v", n.Pods, n.Traffic)
	}
	s.who.Affinity = func(context.Context, string) (document.Affinity, error) {
		return document.Affinity{}, apierrors.NewForbidden(resources.GroupResource{Resource: "nodeaffinities"}, "a", nil)
	}
	if code, _, _ := s.ask(t, "GET", path, ""); code != http.StatusForbidden {
		t.Errorf("without the right the answer is %d", code)
	}
}
