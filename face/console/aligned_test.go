package console_test

import (
	"context"
	"testing"
	"time"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/live/livetest"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/state"
)

// A pod that holds CPUs of two NUMA nodes where one has enough for it is marked on the page of the cluster, of its node
// and of the pod. The mark goes once the node reports other CPUs.
func TestMisalignedPodsAreMarked(t *testing.T) {
	s := signedIn(t)
	marks := func() (cluster int, node, pod bool) {
		var all document.ClusterOverview
		s.get(t, "/api/v1/cluster", &all)
		for _, n := range all.Nodes {
			cluster += n.Misaligned
		}
		var one document.Node
		s.get(t, "/api/v1/nodes/a", &one)
		for _, h := range one.Holdings {
			node = node || h.Misaligned
		}
		var explained struct{ Holds *document.Holder }
		if s.get(t, "/api/v1/pods/ml/p", &explained); explained.Holds != nil {
			pod = explained.Holds.Misaligned
		}
		return cluster, node, pod
	}
	if cluster, node, pod := marks(); cluster != 0 || node || pod {
		t.Errorf("an aligned pod has the marks %d, %v, %v", cluster, node, pod)
	}
	spread := holding("ml", "p")
	spread.Holdings[0].CPUs = idset.Of[idset.CPU](0, 16, 64, 80)
	s.report(t, "21", spread)
	if cluster, node, pod := marks(); cluster != 1 || !node || !pod {
		t.Errorf("a pod on two NUMA nodes has the marks %d, %v, %v", cluster, node, pod)
	}
	s.report(t, "22", holding("ml", "p"))
	if cluster, node, pod := marks(); cluster != 0 || node || pod {
		t.Errorf("a pod that is aligned again has the marks %d, %v, %v", cluster, node, pod)
	}
}

// report lets node a report the holding of one pod, and waits until the view has it.
func (s *site) report(t *testing.T, version string, e state.Entry) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	f := s.who.View.Follow()
	defer f.Close()
	layout := livetest.Layout(t, "a", e)
	layout.ResourceVersion = version
	s.api.Send(livetest.Layouts, "MODIFIED", layout)
	for {
		n, _ := s.who.View.State().Node("a")
		if got, ok := n.State.Entry(e.Pod.UID); ok && got.Holdings[0].CPUs.Equal(e.Holdings[0].CPUs) {
			return
		}
		if _, err := f.Next(ctx); err != nil {
			t.Fatal("the report does not arrive: ", err)
		}
	}
}
