package plugin

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/api/config"
	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
)

// guardArgs are the arguments of the guard in all combinations.
func guardArgs() (all []string) {
	for _, unknown := range []string{config.Allow, config.AllowWithoutDemand, config.Refuse} {
		for bits := range 16 {
			on := func(bit int) string {
				return map[bool]string{true: config.Refuse, false: config.Allow}[bits>>bit&1 == 1]
			}
			all = append(all, fmt.Sprintf("unknownNodes: %s\ncoarseNodes: %s\nsilentNodes: %s\ninexactNodes: %s\n"+
				"keepRestartable: %t", unknown, on(0), on(1), on(2), bits>>3 == 1))
		}
	}
	return all
}

// explain, simulate and check judge a node as Filter does, for all arguments that keep pods from nodes and for all
// states of knowledge about a node.
func TestWhatIfKeepsPodsFromNodesLikeFilter(t *testing.T) {
	wants := map[string]*v1.Pod{"small": cpus("small", 2), "half": cpus("half", 14), "large": cpus("large", 31),
		"demanding": cpus("demanding", 2)}
	wants["demanding"].Annotations = map[string]string{"tenon.sh/numa-policy": "single-numa-node"}
	kept := 0
	for _, args := range guardArgs() {
		p := newPlugin(t, args)
		p.Feed.Layout(layout(t, "exact", two, place.SingleNUMA, 1))
		p.Feed.Layout(inexact(layout(t, "inexact", two, place.BestEffort, 2), state.UnknownKubeletVersion))
		p.Feed.Layout(strict(t, "strict", 3))
		p.Feed.Topology(topology("coarse", 4, 16, 16))
		p.Feed.Layout(layout(t, "silent", two, place.SingleNUMA, 5))
		late := bind(cpus("late", 1), "silent")
		p.Book.Assume("silent", kube.ID(late), mustPod(t, late))
		p.Book.Admitted(string(late.UID))
		p.Book.Overdue(string(late.UID))
		for name, pod := range wants {
			demand, err := apipod.Demand(pod)
			if err != nil {
				t.Fatal(err)
			}
			cs, w := cycle(t, p, pod), &whatif.Want{Pod: mustPod(t, pod), Demand: demand}
			for _, node := range []string{"exact", "inexact", "strict", "coarse", "silent", "unknown"} {
				n := &whatif.Node{Name: node, State: p.Book.Snapshot().Node(node)}
				status, judged := filter(t, p, cs, node), whatif.Rules{Guard: p.guard}.Judge(n, w, nil)
				if status.IsSuccess() != judged.Fits() {
					t.Errorf("%s: pod %s on node %s: Filter says %v, and what-if %v", args, name, node, status, judged.Reasons)
				}
				if len(judged.Reasons) == 1 && judged.Verdict.Fits() {
					kept++
				}
			}
		}
	}
	if kept == 0 {
		t.Error("the arguments kept no pod from any node")
	}
}
