package live

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/api/objects/groups"
	"github.com/tenon-numa/tenon/cluster/claims"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/state"
)

// This file follows what drivers publish and what claims hold (DRA), where the API server serves these kinds. What of
// them is missing is no limit of the view: it matters only to answers about claims, which name it.

// Bounds of the slices and claims that a view keeps.
const (
	maxSlices = 50_000
	maxClaims = 200_000
)

// devices has the followed objects, trimmed. The view's mutex guards it.
type devices struct {
	slices map[string]*resourcev1.ResourceSlice
	claims map[types.NamespacedName]*resourcev1.ResourceClaim
	// unread are the reasons why kinds are not or not all there, by kind. claimsOf are the namespaces whose claims are
	// followed; nil: all.
	unread   map[string]string
	claimsOf *kube.Seen
}

func newDevices() devices {
	return devices{slices: map[string]*resourcev1.ResourceSlice{},
		claims: map[types.NamespacedName]*resourcev1.ResourceClaim{}, unread: map[string]string{}}
}

const claimKind = "resourceclaims"

// deviceSources returns the sources of slices and claims; none if the API server does not serve the kinds. Where the
// identity may not list all claims, it follows the claims of the namespaces.
func (v *View) deviceSources(ctx context.Context, cfg *rest.Config, namespaces []string) ([]*source, error) {
	group, err := groups.NewDevices(cfg)
	if err != nil {
		return nil, err
	}
	if _, err := group.Slices.List(ctx, metav1.ListOptions{Limit: 1}); apierrors.IsNotFound(err) {
		return nil, nil
	}
	out := []*source{viaTyped(group.Slices, &source{resource: kube.Slices, optional: true, aside: true,
		trim: slimmed(claims.SlimSlice), put: v.putSlice, gone: v.sliceGone})}
	newSource := func(where string) *source {
		return &source{resource: claimKind, where: where, optional: true, aside: true,
			trim: slimmed(claims.SlimClaim), put: v.putClaim, gone: v.claimGone}
	}
	_, err = group.Claims.List(ctx, metav1.ListOptions{Limit: 1})
	if !apierrors.IsForbidden(err) || len(namespaces) == 0 {
		return append(out, viaTyped(group.Claims, newSource(""))), nil
	}
	v.devices.claimsOf = &kube.Seen{Namespaces: slices.Sorted(slices.Values(namespaces))}
	v.devices.unread[claimKind] = "you may not list those of other namespaces than " +
		strings.Join(v.devices.claimsOf.Namespaces, ", ")
	for _, namespace := range namespaces {
		out = append(out, viaTyped(group.Claims.In(namespace), newSource("in namespace "+namespace)))
	}
	return out, nil
}

// slimmed returns an informer's transform that applies a function to objects of one type.
func slimmed[T any](slim func(*T) *T) func(any) (any, error) {
	return func(obj any) (any, error) {
		if o, ok := obj.(*T); ok {
			return slim(o), nil
		}
		return obj, nil
	}
}

// setAside records why the view lacks slices or claims; with the reason "", that it has them.
func (v *View) setAside(kind, reason string) {
	v.mu.Lock()
	old := v.devices.unread[kind]
	if v.devices.unread[kind] = reason; reason == "" {
		delete(v.devices.unread, kind)
	}
	v.mu.Unlock()
	if old != reason {
		v.changes.everything()
	}
}

func (v *View) putSlice(obj any) any {
	s, ok := obj.(*resourcev1.ResourceSlice)
	if !ok {
		return nil
	}
	v.mu.Lock()
	old := v.devices.slices[s.Name]
	full := old == nil && len(v.devices.slices) >= maxSlices
	if !full {
		v.devices.slices[s.Name] = s
	}
	v.mu.Unlock()
	if full {
		v.setAside("more "+kube.Slices, fmt.Sprintf("only %d are kept", maxSlices))
		return nil
	}
	if old == nil || !reflect.DeepEqual(old.Spec, s.Spec) {
		v.sliceChanged(old)
		v.sliceChanged(s)
	}
	return s
}

func (v *View) sliceGone(obj any) {
	if s, ok := obj.(*resourcev1.ResourceSlice); ok {
		v.mu.Lock()
		delete(v.devices.slices, s.Name)
		v.mu.Unlock()
		v.sliceChanged(s)
	}
}

func (v *View) sliceChanged(s *resourcev1.ResourceSlice) {
	if s != nil && s.Spec.NodeName != nil && *s.Spec.NodeName != "" {
		v.changes.node(*s.Spec.NodeName)
	}
}

func (v *View) putClaim(obj any) any {
	c, ok := obj.(*resourcev1.ResourceClaim)
	if !ok {
		return nil
	}
	key := types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
	v.mu.Lock()
	old := v.devices.claims[key]
	full := old == nil && len(v.devices.claims) >= maxClaims
	if !full {
		v.devices.claims[key] = c
	}
	v.mu.Unlock()
	if full {
		v.setAside("more "+claimKind, fmt.Sprintf("only %d are kept", maxClaims))
		return nil
	}
	if old == nil || !reflect.DeepEqual(old.Status, c.Status) {
		v.claimChanged(old)
		v.claimChanged(c)
	}
	return c
}

func (v *View) claimGone(obj any) {
	if c, ok := obj.(*resourcev1.ResourceClaim); ok {
		v.mu.Lock()
		delete(v.devices.claims, types.NamespacedName{Namespace: c.Namespace, Name: c.Name})
		v.mu.Unlock()
		v.claimChanged(c)
	}
}

// claimChanged records a change of the pods that a claim is reserved for, and of their nodes.
func (v *View) claimChanged(c *resourcev1.ResourceClaim) {
	if c == nil {
		return
	}
	for _, r := range c.Status.ReservedFor {
		key := types.NamespacedName{Namespace: c.Namespace, Name: r.Name}
		v.mu.Lock()
		pod := v.pods.kept[key]
		v.mu.Unlock()
		if pod == nil {
			continue
		}
		v.changes.pod(key.String())
		if pod.node != "" {
			v.changes.node(pod.node)
		}
	}
}

// Claims returns a view with one node, its pods, the slices of its pools, and the claims that may concern it. With the
// name "" it has the pods without a node, also those that request extended resources, which DRA may serve, and no
// slices; AddDevices adds these.
func (v *View) Claims(node string) *kube.View {
	out := &kube.View{}
	if n := v.book.Snapshot().Node(node); n != nil {
		out.States = []*state.Node{n}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	using := map[string]bool{} // namespaces of pods with claims
	for _, r := range v.pods.kept {
		if r.node != node {
			continue
		}
		if p := r.Pod(); claims.Claims(p) {
			out.Pods = append(out.Pods, r)
			using[p.Namespace] = true
		} else if node == "" && !kube.Ended(p) && requestsExtended(p) {
			out.Pods = append(out.Pods, r)
		}
	}
	slices.SortFunc(out.Pods, func(a, b kube.Stored) int { return strings.Compare(keyText(a), keyText(b)) })
	pools := v.devices.poolsOf(node)
	d := &kube.Devices{ClaimsOf: v.devices.read()}
	for _, name := range slices.Sorted(maps.Keys(v.devices.slices)) {
		if s := v.devices.slices[name]; pools[pool{s.Spec.Driver, s.Spec.Pool.Name}] {
			d.Slices = append(d.Slices, *s)
		}
	}
	for _, c := range v.devices.claims {
		if using[c.Namespace] || holdsOf(c, pools) {
			d.Claims = append(d.Claims, *c)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(v.devices.unread)) {
		d.Unread = append(d.Unread, document.Limit{Resource: kind, Reason: v.devices.unread[kind]})
	}
	out.Devices = d
	return out
}

// AddDevices adds to a view of Claims with the name "" all slices, and all claims that have devices: who has a device
// that is kept for a request may be in any namespace.
func (v *View) AddDevices(out *kube.View) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(v.devices.slices)) {
		out.Devices.Slices = append(out.Devices.Slices, *v.devices.slices[name])
	}
	known := map[types.NamespacedName]bool{}
	for i := range out.Devices.Claims {
		c := &out.Devices.Claims[i]
		known[types.NamespacedName{Namespace: c.Namespace, Name: c.Name}] = true
	}
	for key, c := range v.devices.claims {
		if !known[key] && c.Status.Allocation != nil {
			out.Devices.Claims = append(out.Devices.Claims, *c)
		}
	}
}

// requestsExtended reports whether a pod requests extended resources.
func requestsExtended(p *v1.Pod) bool {
	for name := range kube.Requests(p) {
		if kube.Extended(string(name)) {
			return true
		}
	}
	return false
}

func keyText(s kube.Stored) string { return s.Pod().Namespace + "/" + s.Pod().Name }

type pool struct{ driver, name string }

// poolsOf returns the pools that have slices of a node.
func (d *devices) poolsOf(node string) map[pool]bool {
	out := map[pool]bool{}
	for _, s := range d.slices {
		if node != "" && s.Spec.NodeName != nil && *s.Spec.NodeName == node {
			out[pool{s.Spec.Driver, s.Spec.Pool.Name}] = true
		}
	}
	return out
}

func holdsOf(c *resourcev1.ResourceClaim, pools map[pool]bool) bool {
	return c.Status.Allocation != nil && slices.ContainsFunc(c.Status.Allocation.Devices.Results,
		func(r resourcev1.DeviceRequestAllocationResult) bool { return pools[pool{r.Driver, r.Pool}] })
}

// read returns the namespaces whose claims are there; nil: all.
func (d *devices) read() *kube.Seen {
	if d.claimsOf == nil && d.unread[claimKind] == "" {
		return nil
	}
	out := &kube.Seen{}
	if d.claimsOf != nil {
		for _, namespace := range d.claimsOf.Namespaces {
			if d.unread[claimKind+" in namespace "+namespace] == "" {
				out.Namespaces = append(out.Namespaces, namespace)
			}
		}
	}
	return out
}
