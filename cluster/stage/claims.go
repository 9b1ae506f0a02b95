package stage

import (
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/printable"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
)

// Claims returns the devices that drivers publish, and who holds them by claims (DRA), as they are; nil if that was not
// read. They are for people: simulations ask the stage's allocator for devices.
func (s *Stage) Claims() *document.Claims { return s.claims }

// claimed returns what decides about the devices of a pod's claims, and what of them is not judged. existing is the pod
// in the cluster that it stands for, or nil. A pod that waits wants devices for the claims that it has, and one that
// would be created again for other ones like these.
func (s *Stage) claimed(p, existing *v1.Pod) (d whatif.Devices, unjudged []string) {
	if len(p.Spec.ResourceClaims) == 0 {
		return nil, nil
	}
	if s.allocates == nil || existing == nil {
		return nil, []string{UnjudgedClaims}
	}
	d, why := s.allocates().Of(existing.UID)
	if why != "" {
		return nil, []string{UnjudgedClaims + " (" + printable.Clip(why, 200) + ")"}
	}
	return d, nil
}

// addUnsettled adds to a workload what else of the devices of its pods is not judged.
func (s *Stage) addUnsettled(w *whatif.Workload, p *v1.Pod) {
	unsettled := s.unsettledClaims(w.Want)
	w.Unjudged, w.UnjudgedDevices = append(w.Unjudged, unsettled...), append(w.UnjudgedDevices, unsettled...)
	for _, resource := range s.Allocated(p) { // Unjudged has them
		w.UnjudgedDevices = append(w.UnjudgedDevices, allocatedFor+resource)
	}
}

// unsettledClaims returns what of the devices of a pod's claims is not judged although the claims are: on nodes whose
// policy demands alignment and where Tenon's agent decides, the scheduler tries other places of the pod until there are
// devices near it. It names the first of these nodes to which the pod may go.
func (s *Stage) unsettledClaims(w *whatif.Want) []string {
	if w.Devices == nil || w.Pod.Plain() {
		return nil
	}
	for i := range s.nodes {
		n := s.nodes[i].State
		if n == nil || n.Machine == nil || n.Quality == state.Estimated || n.Rules.Arbiter != place.ByAgent ||
			w.Bars != nil && i < len(w.Bars.Why) && len(w.Bars.Why[i]) > 0 {
			continue
		}
		if n.Rules.Topology.Policy.Refuses() {
			return []string{UnjudgedClaims + " (whether devices are near the pod on nodes where Tenon's agent decides, such " +
				"as " + printable.Clip(n.Name, 60) + ")"}
		}
	}
	return nil
}

// templates are the templates of claims, and the claims that were made of them, by namespace and name.
type templates struct {
	known  map[types.NamespacedName]*resourcev1.ResourceClaimTemplate
	claims map[types.NamespacedName]*resourcev1.ResourceClaim
}

func newTemplates(list []resourcev1.ResourceClaimTemplate, d *kube.Devices) *templates {
	t := &templates{map[types.NamespacedName]*resourcev1.ResourceClaimTemplate{},
		map[types.NamespacedName]*resourcev1.ResourceClaim{}}
	for i := range list {
		t.known[types.NamespacedName{Namespace: list[i].Namespace, Name: list[i].Name}] = &list[i]
	}
	for i := range d.Claims {
		t.claims[types.NamespacedName{Namespace: d.Claims[i].Namespace, Name: d.Claims[i].Name}] = &d.Claims[i]
	}
	return t
}

// differs returns why the claims of a pod's successor would not be like the pod's own; "" if they are. The API server
// makes them of the templates, which may be gone or new ones. t may be nil.
func (t *templates) differs(p *v1.Pod) string {
	made := map[string]string{} // claims by entry
	for _, s := range p.Status.ResourceClaimStatuses {
		if s.ResourceClaimName != nil {
			made[s.Name] = *s.ResourceClaimName
		}
	}
	for _, c := range p.Spec.ResourceClaims {
		if c.ResourceClaimTemplateName == nil {
			continue
		}
		if t == nil {
			return "has claims of templates (ResourceClaimTemplate), which were not read"
		}
		name := printable.Clip(*c.ResourceClaimTemplateName, 60)
		template := t.known[types.NamespacedName{Namespace: p.Namespace, Name: *c.ResourceClaimTemplateName}]
		claim := t.claims[types.NamespacedName{Namespace: p.Namespace, Name: made[c.Name]}]
		switch {
		case template == nil:
			return "has a claim of a ResourceClaimTemplate that does not exist: " + name
		case claim == nil || !sameDevices(&template.Spec.Spec.Devices, &claim.Spec.Devices):
			return "has a claim that asks for something else than its ResourceClaimTemplate now: " + name
		}
	}
	return ""
}

// sameDevices reports whether two claims ask for the same devices. Parameters of drivers do not count.
func sameDevices(a, b *resourcev1.DeviceClaim) bool {
	return equality.Semantic.DeepEqual(a.Requests, b.Requests) &&
		equality.Semantic.DeepEqual(a.Constraints, b.Constraints)
}

// decodeDevices adds a slice or a claim to the devices.
func decodeDevices(d *kube.Devices, kind string, text []byte) error {
	if kind == "ResourceSlice" {
		d.Slices = append(d.Slices, resourcev1.ResourceSlice{})
		return json.Unmarshal(text, &d.Slices[len(d.Slices)-1])
	}
	d.Claims = append(d.Claims, resourcev1.ResourceClaim{})
	return json.Unmarshal(text, &d.Claims[len(d.Claims)-1])
}
