package stage

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/kube/kubetest"
	"github.com/tenon-numa/tenon/cluster/live/livetest"
	"github.com/tenon-numa/tenon/core/whatif"
)

// The pods of another namespace, which a layout lists, hold their CPUs on a node whose pods were read in part: once in
// the NUMA nodes, and once in the plain amounts. Nothing is counted twice where their objects were read too.
func TestHoldersThatWereNotReadCount(t *testing.T) {
	mine, other := livetest.Pod("ml", "mine", "a"), livetest.Pod("web", "other", "a")
	layout := livetest.Layout(t, "a", kubetest.Holding(mine, "8-11"), kubetest.Holding(other, "12-15,76-79"))
	for _, c := range []struct {
		seen *kube.Seen
		pods []v1.Pod
		cpus int64
	}{
		{&kube.Seen{Namespaces: []string{"ml"}}, []v1.Pod{*mine}, 12_000},
		{nil, []v1.Pod{*mine, *other}, 8_000},
	} {
		v := kube.ViewOfObjects(kube.Objects{Layouts: []v1alpha1.NodeLayout{*layout}, Nodes: []v1.Node{*livetest.Node("a")},
			Pods: c.pods,
			Seen: c.seen}, time.Unix(1e9, 0))
		s, err := Of(v)
		if err != nil {
			t.Fatal(err)
		}
		n := s.Nodes()[0]
		if n.Used["cpu"] != c.cpus || n.Used["pods"] != 2 || n.State.Usage.FreeCPUs().Len() != 128-12 {
			t.Errorf("seen %v: %d mCPU and %d pods used, %d CPUs free", c.seen, n.Used["cpu"], n.Used["pods"],
				n.State.Usage.FreeCPUs().Len())
		}
		if (s.Partial() == "") != (c.seen == nil) {
			t.Errorf("seen %v: %q", c.seen, s.Partial())
		}
		varied, _, err := s.Vary(whatif.Variation{})
		if err != nil || varied.Partial() != s.Partial() {
			t.Errorf("after a variation what was not read is %q, and was %q (%v)", varied.Partial(), s.Partial(), err)
		}
	}
}
