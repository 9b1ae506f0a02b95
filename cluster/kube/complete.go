package kube

import (
	"context"
	"fmt"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/cluster/nrt"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// pageOf is how many layouts are listed at a time.
const pageOf = 250

// Complete adds to a view of a followed cluster what only a Reader reads: published objects, volumes, namespaces, and
// the resources that DRA serves. Complete leaves out the parts of layouts that the states of the view already have.
// Layouts of equal machines share the machine's data, because a large cluster has many such layouts.
func (r *Reader) Complete(ctx context.Context, v *View) (err error) {
	states, machines := map[string]*state.Node{}, map[*topo.Machine]v1alpha1.Machine{}
	for _, n := range v.States {
		states[n.Name] = n
	}
	next := ""
	for more := true; more; more = next != "" {
		page, err := r.layouts.List(ctx, metav1.ListOptions{Limit: pageOf, Continue: next})
		if apierrors.IsNotFound(err) { // the kind is not defined
			break
		}
		if err != nil {
			return fmt.Errorf("list node layouts: %w", err)
		}
		for i := range page.Items {
			l := page.Items[i]
			l.Holdings, l.MemoryGroups = nil, nil
			if n := states[l.Name]; n != nil && n.Machine != nil {
				m, known := machines[n.Machine]
				if !known {
					m = l.Machine
					machines[n.Machine] = m
				}
				l.Machine = m
			}
			v.Layouts = append(v.Layouts, l)
		}
		next = page.Continue
	}
	err = nrt.Each(ctx, r.cfg, func(o *v1alpha2.NodeResourceTopology) {
		if states[o.Name] != nil {
			o.Zones = nil
		}
		v.Topologies = append(v.Topologies, o)
	})
	switch {
	case apierrors.IsForbidden(err):
		v.Miss(nrt.Resources()[0].Resource, notListed)
	case err != nil:
		return err
	}
	return r.Around(ctx, v)
}
