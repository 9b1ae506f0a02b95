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

// pageSize is how many layouts or bases one request lists.
const pageSize = 250

// Complete adds to a view of a followed cluster what only a Reader reads: published objects, volumes, namespaces, and
// the resources that DRA serves. The layouts come without holdings, which the states have. Layouts of equal machines
// share the machine's data, because a large cluster has many of them.
func (r *Reader) Complete(ctx context.Context, v *View) (err error) {
	states := map[string]*state.Node{}
	for _, n := range v.States {
		states[n.Name] = n
	}
	if v.Layouts, err = r.slimLayouts(ctx, states); err != nil {
		return err
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

// slimLayouts reads all layouts, page by page, and completes them by their bases. It drops the holdings of every
// layout. Layouts whose states have the same machine share one copy of it. A layout without its base has the reason
// in Malformed.
func (r *Reader) slimLayouts(ctx context.Context, states map[string]*state.Node) ([]v1alpha1.NodeLayout, error) {
	machines := map[*topo.Machine]v1alpha1.Machine{}
	slim := func(l *v1alpha1.NodeLayout) {
		l.Holdings, l.MemoryGroups, l.Ended = nil, nil, nil
		if n := states[l.Name]; n != nil && n.Machine != nil {
			m, known := machines[n.Machine]
			if !known {
				m = l.Machine
				machines[n.Machine] = m
			}
			l.Machine = m
		}
	}
	var out []v1alpha1.NodeLayout
	bare := map[string]int{} // layouts that need their base, by node
	err := pages(ctx, r.layouts.Layouts.List, func(list *v1alpha1.NodeLayoutList) string {
		for i := range list.Items {
			if l := &list.Items[i]; l.Base == 0 {
				slim(l)
			} else {
				bare[l.Name] = len(out)
			}
			out = append(out, list.Items[i])
		}
		return list.Continue
	})
	if err != nil {
		return nil, fmt.Errorf("list node layouts: %w", err)
	}
	if len(bare) == 0 {
		return out, nil
	}
	err = pages(ctx, r.layouts.Bases.List, func(list *v1alpha1.LayoutBaseList) string {
		for i := range list.Items {
			at, wanted := bare[list.Items[i].Name]
			if !wanted {
				continue
			}
			if whole, err := out[at].On(&list.Items[i]); err == nil {
				slim(whole)
				out[at] = *whole
				delete(bare, whole.Name)
			}
		}
		return list.Continue
	})
	if err != nil {
		return nil, fmt.Errorf("list bases of node layouts: %w", err)
	}
	for _, at := range bare {
		out[at].Malformed = v1alpha1.ErrNoBase.Error()
	}
	return out, nil
}

// pages lists all objects of a kind, at most pageSize per request. take receives each page and returns the page's
// continue token, which is "" for the last page. A kind that the API server does not serve has no objects, and that
// is no error.
func pages[L any](ctx context.Context, list func(context.Context, metav1.ListOptions) (L, error),
	take func(L) string) error {
	next := ""
	for more := true; more; more = next != "" {
		page, err := list(ctx, metav1.ListOptions{Limit: pageSize, Continue: next})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		next = take(page)
	}
	return nil
}
