package plugin

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/scheduler/booking"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// missingAmounts returns which plain amounts of a node are too small for a pod that has waited for its turn, or "".
// Another scheduler may have bound pods to the node meanwhile.
//
// The profile's own NodeResourcesFit decides, on the pods that the node has at present. So missingAmounts counts as
// kube-scheduler did when it chose the node: it leaves out resources that the profile ignores, an extender manages,
// or DRA serves, and counts resized pods by their status. It returns "" where the profile does not have that
// plugin, and where the plugin fails; then the kubelet decides.
func (p *Plugin) missingAmounts(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, node string) string {
	skip, ok := p.filtersExcept(amountsName)
	n := p.amounts.Node(node)
	if !ok || n == nil {
		return ""
	}
	info := framework.NewNodeInfo()
	info.SetNode(n)
	for _, other := range p.amounts.With(node, booking.Others(p.Book, pod, node)) {
		if other.UID != pod.UID && !kube.Ended(other) {
			info.AddPod(other)
		}
	}
	cs = cs.Clone() // the original is for the rest of the cycle
	cs.SetSkipFilterPlugins(skip)
	if status := p.handle.RunFilterPlugins(ctx, cs, pod, info); status.IsRejected() {
		return status.Message()
	}
	return ""
}

// filtersExcept returns the names of the profile's filter plugins except the named one. ok is false if the profile
// does not have that plugin.
func (p *Plugin) filtersExcept(name string) (skip sets.Set[string], ok bool) {
	skip = sets.New(p.filters()...)
	ok = skip.Has(name)
	return skip.Delete(name), ok
}
