package claims

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This file relates pods and claims. The status of a claim may name any pod, and the status of a pod any claim, so each
// side has to name the other.

// Named is a claim that a pod names.
type Named struct {
	Entry string // name of the entry in the pod's list; "" for extended resources
	Claim string // "" if it is not made from its template yet
	// Owned: the claim was made from a template, or for extended resources, so the pod must own it.
	Owned bool
}

// NamedBy returns the claims that a pod names in its spec and its status. It leaves out entries for which the driver
// needs no claim.
func NamedBy(p *v1.Pod) (out []Named) {
	for _, c := range p.Spec.ResourceClaims {
		if c.ResourceClaimName != nil {
			out = append(out, Named{Entry: c.Name, Claim: *c.ResourceClaimName})
			continue
		}
		n, needed := Named{Entry: c.Name, Owned: true}, true
		for _, s := range p.Status.ResourceClaimStatuses {
			if s.Name != c.Name {
				continue
			}
			if needed = s.ResourceClaimName != nil; needed {
				n.Claim = *s.ResourceClaimName
			}
		}
		if needed {
			out = append(out, n)
		}
	}
	if s := p.Status.ExtendedResourceClaimStatus; s != nil {
		out = append(out, Named{Claim: s.ResourceClaimName, Owned: true})
	}
	return out
}

// Claims reports whether a pod names claims, or has one for its extended resources.
func Claims(p *v1.Pod) bool {
	return len(p.Spec.ResourceClaims) > 0 || p.Status.ExtendedResourceClaimStatus != nil
}

// Owns reports whether a pod controls an object with these owners, as the API server's plugins verify it.
func Owns(p *v1.Pod, owners []metav1.OwnerReference) bool {
	return slices.ContainsFunc(owners, func(o metav1.OwnerReference) bool {
		return o.Controller != nil && *o.Controller && o.UID == p.UID
	})
}

// UsedBy reports whether a pod names a claim, and owns it if it has to.
func (h Held) UsedBy(p *v1.Pod) bool {
	return p.Namespace == h.Namespace && slices.ContainsFunc(NamedBy(p), func(n Named) bool {
		return n.Claim == h.Name && (!n.Owned || Owns(p, h.Owners))
	})
}
