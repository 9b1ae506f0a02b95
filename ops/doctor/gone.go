package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/api/objects"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/core/state"
)

// This file finds pods that a node still reports although their objects are deleted. Every pod that ends is briefly
// in this state, so the file reads the cluster a second time, some seconds later.

// dropTime is how long a node may report a pod after the object of the pod is gone. The CPU manager takes CPUs back
// every ten seconds (--cpu-manager-reconcile-period), and the agent needs a second to report that.
const dropTime = 15 * time.Second

// Bounds on the second look: a node may report any number of pods.
const (
	maxGone      = 10 // pods of one node
	maxGoneNodes = 50
)

// LookAgain reads a second time the pods that are reported without having an object. If a pod is still reported
// without an object after dropTime, LookAgain adds it to s.Gone, where Examine finds it. If there are such pods at
// first, it calls pause, which waits for the given time. Do not call it for a cluster that is read from files: these
// do not change.
func (s *Snapshot) LookAgain(ctx context.Context, cfg *rest.Config,
	pause func(context.Context, time.Duration) error) error {
	gone, skipped := map[string][]state.PodID{}, 0
	for _, n := range s.View.States {
		switch first := n.Gone[:min(len(n.Gone), maxGone)]; {
		case len(first) > 0 && len(gone) < maxGoneNodes:
			gone[n.Name] = first
			skipped += len(n.Gone) - len(first)
		default:
			skipped += len(n.Gone)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	if skipped > 0 {
		s.Limits = append(s.Limits, document.Limit{Resource: "nodelayouts", Reason: fmt.Sprintf(
			"they list %d more pods without an object than were looked at twice", skipped)})
	}
	cfg = withRate(cfg)
	layouts, err := client.New(cfg)
	if err != nil {
		return err
	}
	pods, err := objects.NewCore(cfg)
	if err != nil {
		return err
	}
	if err := pause(ctx, dropTime); err != nil {
		return err
	}
	s.Gone = map[string][]state.PodID{}
	for _, node := range slices.Sorted(maps.Keys(gone)) {
		l, err := layouts.Get(ctx, node, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue // the node reports nothing any more
		}
		if err != nil {
			return s.recordSecondRefusal("nodelayouts", fmt.Errorf("read the layout of node %s again: %w", node, err))
		}
		for _, id := range gone[node] {
			switch ok, err := exists(ctx, pods, id); {
			case err != nil:
				return s.recordSecondRefusal("pods", err)
			case !ok && slices.ContainsFunc(l.Holdings, func(h v1alpha1.PodHoldings) bool { return h.UID == id.UID }):
				s.Gone[node] = append(s.Gone[node], id)
			}
		}
	}
	return nil
}

// recordSecondRefusal adds a limit if the second look is Forbidden, and returns nil: a user who may list objects may
// lack the right to get a single one. It returns other errors.
func (s *Snapshot) recordSecondRefusal(resource string, err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	s.Limits = append(s.Limits, document.Limit{Resource: resource, Reason: "you may not read single ones, so those that " +
		"are gone were not looked at twice"})
	return nil
}

// exists reports whether a pod has an object with the same UID.
func exists(ctx context.Context, c *objects.Core, id state.PodID) (bool, error) {
	p, err := c.Pods.In(id.Namespace).Get(ctx, id.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read pod %s again: %w", id, err)
	}
	return string(p.UID) == id.UID, nil
}

// dropped adds a finding about the pods in x.Gone: the node still reports them long after their end.
func (x *examination) dropped(n *state.Node) {
	if ids := x.Gone[n.Name]; len(ids) > 0 {
		x.add("pods-gone", onNode(n.Name, podNames(ids)...), "a node reports pods that have no object any more", "")
	}
}

func podNames(ids []state.PodID) (out []string) {
	for _, id := range ids {
		out = append(out, id.String())
	}
	return out
}
