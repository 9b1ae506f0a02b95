package kube

import (
	"context"
	"fmt"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/document"
)

// Devices has the objects of dynamic resource allocation (DRA) by which devices and their holders are known.
type Devices struct {
	Slices []resourcev1.ResourceSlice
	Claims []resourcev1.ResourceClaim
	// ClaimsOf are the namespaces whose claims were read; nil: all.
	ClaimsOf *Seen
	// Unread are the kinds that could not be read.
	Unread []document.Limit
}

// Slices is the resource of what drivers publish, in the form of Devices.Unread.
const Slices = "resourceslices"

// Devices lists what drivers publish, and claims of all namespaces or, if that is forbidden, of the namespaces
// of pods, as far as the identity may list them. An API server that does not serve the kinds (before 1.34)
// has none.
func (r *Reader) Devices(ctx context.Context, pods *Seen) (*Devices, error) {
	out := &Devices{}
	published, err := r.devices.Slices.List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsForbidden(err):
		out.Unread = append(out.Unread, document.Limit{Resource: Slices, Reason: notListed})
	case err != nil && !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("list resource slices: %w", err)
	default:
		out.Slices = published.Items
	}
	all, err := r.devices.Claims.List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return out, r.claimsWithin(ctx, pods, out)
	case err != nil && !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("list resource claims: %w", err)
	}
	out.Claims = all.Items
	return out, nil
}

// claimsWithin lists the claims of each namespace whose pods were listed, and adds them to out. It leaves
// namespaces out whose claims the identity may not list, and adds a limit that names the others.
func (r *Reader) claimsWithin(ctx context.Context, pods *Seen, out *Devices) error {
	out.ClaimsOf = &Seen{}
	if pods != nil {
		for _, namespace := range pods.Namespaces {
			some, err := r.devices.Claims.In(namespace).List(ctx, metav1.ListOptions{})
			if apierrors.IsForbidden(err) {
				continue
			}
			if err != nil {
				return fmt.Errorf("list resource claims in namespace %s: %w", namespace, err)
			}
			out.Claims, out.ClaimsOf.Namespaces = append(out.Claims, some.Items...), append(out.ClaimsOf.Namespaces, namespace)
		}
	}
	why := notListed
	if read := out.ClaimsOf.Namespaces; len(read) > 0 {
		why = "you may not list those of other namespaces than " + strings.Join(read, ", ")
	}
	out.Unread = append(out.Unread, document.Limit{Resource: "resourceclaims", Reason: why})
	return nil
}

// Templates lists the templates of claims of all namespaces. known is false if the identity may not list them. An API
// server that does not serve the kind has none.
func (r *Reader) Templates(ctx context.Context) (list []resourcev1.ResourceClaimTemplate, known bool, err error) {
	all, err := r.devices.Templates.List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return nil, false, nil
	case apierrors.IsNotFound(err):
		return nil, true, nil
	case err != nil:
		return nil, false, fmt.Errorf("list templates of resource claims: %w", err)
	}
	return all.Items, true, nil
}

// AddLayout reads the layout of a node into a view, for the PCI functions in it. A layout that is not there or may not
// be read is no error.
func (r *Reader) AddLayout(ctx context.Context, v *View, node string) error {
	l, err := r.layouts.Get(ctx, node, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return nil
	case err != nil:
		return fmt.Errorf("read the layout of node %s: %w", node, err)
	}
	v.Layouts = append(v.Layouts, *l)
	return nil
}

// ClaimObject is a claim, a template or a class of devices of a cluster.
type ClaimObject struct {
	Spec *resourcev1.ResourceClaimSpec // nil for a class
	// Allocated: the claim has devices.
	Allocated bool
}

// ClaimObject reads a ResourceClaim, a ResourceClaimTemplate or a DeviceClass. It returns nil if there is none. The
// error is why that is not known.
func (r *Reader) ClaimObject(ctx context.Context, kind, namespace, name string) (*ClaimObject, error) {
	var out *ClaimObject
	var err error
	switch kind {
	case "ResourceClaim":
		var c *resourcev1.ResourceClaim
		if c, err = r.devices.Claims.In(namespace).Get(ctx, name, metav1.GetOptions{}); err == nil {
			out = &ClaimObject{Spec: &c.Spec, Allocated: c.Status.Allocation != nil}
		}
	case "ResourceClaimTemplate":
		var t *resourcev1.ResourceClaimTemplate
		if t, err = r.devices.Templates.In(namespace).Get(ctx, name, metav1.GetOptions{}); err == nil {
			out = &ClaimObject{Spec: &t.Spec.Spec}
		}
	default:
		if _, err = r.devices.Classes.Get(ctx, name, metav1.GetOptions{}); err == nil {
			out = &ClaimObject{}
		}
	}
	switch {
	case apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		return nil, fmt.Errorf("the API server does not serve %s: %w", resourcev1.SchemeGroupVersion, err)
	case apierrors.IsNotFound(err):
		return nil, nil
	}
	return out, err
}
