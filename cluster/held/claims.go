package held

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/claims"
	"github.com/tenon-numa/tenon/core/printable"
)

// This file finds why a claim that a pod names holds no devices for it.

// maxName bounds the letters of a name in a sentence, which has to fit a line. Names of claims have up to 253.
const maxName = 80

// holds returns what a claim holds for a pod, or why it holds nothing.
func (x *join) holds(p *v1.Pod, n claims.Named) (claims.Held, string) {
	text := "claim " + printable.Text(printable.Clip(n.Claim, maxName))
	switch {
	case n.Claim == "":
		entry := printable.Text(printable.Clip(n.Entry, maxName))
		return claims.Held{}, "claim " + entry + " is not made from its template yet"
	case n.Entry == "":
		text += " (for its extended resources)"
	}
	key := types.NamespacedName{Namespace: p.Namespace, Name: n.Claim}
	object := x.objects[key]
	h, allocated := x.held[key]
	switch {
	case object == nil && !x.devices.ClaimsOf.Has(p.Namespace):
		return h, text + " was not read"
	case object == nil:
		return h, text + " does not exist"
	case n.Owned && !claims.Owns(p, object.OwnerReferences):
		return h, text + " does not belong to the pod"
	case object.Status.Allocation == nil:
		return h, text + " is not allocated"
	case !allocated:
		return h, text + " is allocated and holds no device for the pod alone"
	case !slices.Contains(h.Pods, string(p.UID)):
		return h, text + " is allocated, and not reserved for the pod"
	}
	return h, ""
}

// assign finds the nodes on which claims hold devices: the nodes of the pods that use a claim. A claim without such
// pods counts on the nodes whose slices have its devices, because its pods may be unreadable.
func (x *join) assign() {
	nodes := map[claims.ID][]string{}
	for at := range x.where {
		nodes[at.ID] = append(nodes[at.ID], at.node)
	}
	for _, key := range slices.SortedFunc(maps.Keys(x.held), compareNames) {
		holder := document.ClaimHolder{Namespace: key.Namespace, Claim: printable.Text(key.Name)}
		for _, id := range x.users[key] {
			holder.Pods = append(holder.Pods, document.PodOf(id))
		}
		slices.SortFunc(holder.Pods, func(a, b document.Pod) int { return strings.Compare(a.Name, b.Name) })
		for _, d := range x.held[key].Devices {
			on := nodes[d]
			if bound := x.bound[key]; len(bound) > 0 {
				on = slices.Collect(maps.Keys(bound))
			}
			for _, node := range on {
				if x.holders[node] == nil {
					x.holders[node] = map[claims.ID][]document.ClaimHolder{}
				}
				x.holders[node][d] = append(x.holders[node][d], holder)
			}
		}
	}
}

func compareNames(a, b types.NamespacedName) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}
