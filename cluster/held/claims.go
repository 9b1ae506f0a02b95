package held

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/claims"
	"github.com/tenon-numa/tenon/core/printable"
)

// This file finds the claims that pods name, and why a claim holds no devices for its pod.

// named is a claim that a pod names.
type named struct {
	entry  string // the name in the pod's spec; "" for the claim of its extended resources
	claim  string // the name of the object; "" if there is none yet
	needed bool   // false: the driver needs no claim
	owned  bool   // the claim was made from a template, or for extended resources, so the pod must own it
}

// namedBy returns the claims that a pod names in its spec and its status.
func namedBy(p *v1.Pod) (out []named) {
	for _, c := range p.Spec.ResourceClaims {
		n := named{entry: c.Name, needed: true}
		if c.ResourceClaimName != nil {
			n.claim = *c.ResourceClaimName
			out = append(out, n)
			continue
		}
		n.owned = true
		for _, s := range p.Status.ResourceClaimStatuses {
			if s.Name == c.Name {
				n.needed = s.ResourceClaimName != nil
				if n.needed {
					n.claim = *s.ResourceClaimName
				}
			}
		}
		out = append(out, n)
	}
	if s := p.Status.ExtendedResourceClaimStatus; s != nil {
		out = append(out, named{claim: s.ResourceClaimName, needed: true, owned: true})
	}
	return slices.DeleteFunc(out, func(n named) bool { return !n.needed })
}

// maxName bounds the letters of a name in a sentence, which has to fit a line. Names of claims have up to 253.
const maxName = 80

// holds returns what a claim holds for a pod, or why it holds nothing.
func (x *join) holds(p *v1.Pod, n named) (claims.Held, string) {
	text := "claim " + printable.Text(printable.Clip(n.claim, maxName))
	switch {
	case n.claim == "":
		entry := printable.Text(printable.Clip(n.entry, maxName))
		return claims.Held{}, "claim " + entry + " is not made from its template yet"
	case n.entry == "":
		text += " (for its extended resources)"
	}
	key := types.NamespacedName{Namespace: p.Namespace, Name: n.claim}
	object := x.objects[key]
	h, allocated := x.held[key]
	switch {
	case object == nil && !x.devices.ClaimsOf.Has(p.Namespace):
		return h, text + " was not read"
	case object == nil:
		return h, text + " does not exist"
	case n.owned && !owns(p, object.OwnerReferences):
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

// owns reports whether a pod controls an object with these owners, as the API server's plugins verify it.
func owns(p *v1.Pod, owners []metav1.OwnerReference) bool {
	return slices.ContainsFunc(owners, func(o metav1.OwnerReference) bool {
		return o.Controller != nil && *o.Controller && o.UID == p.UID
	})
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
