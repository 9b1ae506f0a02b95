// Package room carries out plans that move pods so that others get room.
//
// A plan has the pods to evict and the pods that wait for the room. The package names the nodes of the waiting pods to
// the scheduler (status.nominatedNodeName), has the scheduler keep a place for the successor of each pod that is to
// move (a ProvisioningRequest of Tenon's class), evicts the pods, and waits until all run.
//
// Invariants: pods leave by the Eviction API only, and only those of the plan, each by its UID; a caller that evicts by
// itself ([Options.Evict]) keeps that. Before each round of evictions the caller computes the plan again, and pods that
// it need not move any more stay. If the plan does not work any more, or a successor gets no place although there is
// room for it, nothing more is evicted. No pod of a gang leaves before the API server would accept the eviction of each
// of them. However it ends, what was kept for pods that stay is released, and the nodes' names are taken back, unless
// the program is killed. The package computes no plan.
package room

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/objects"
	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/provisioning"
	"github.com/tenon-numa/tenon/ops/evict"
)

// Plan is what is to be done.
type Plan struct {
	// Goals are pods that wait, each with the node that the plan gives it.
	Goals []Goal
	// Moves are the pods that are to be evicted, in any order unless Pinned is set, and Gone the pods that an interrupted
	// program has evicted.
	Moves, Gone []Move
	// Empty are nodes that are to be left by all their pods. They are cordoned, and remain so.
	Empty []string
	// Pinned: the pods move one after the other, in the order of Moves. A place for a successor is kept on the node that
	// the plan gives it before its pod is evicted. It needs Options.Keep.
	Pinned bool
}

// Goal is a pod that waits for room on a node.
type Goal struct {
	types.NamespacedName

	Node string
}

// Move is a pod that is to leave its node.
type Move struct {
	types.NamespacedName

	UID  types.UID
	From string
	// To is the node where the plan has a place for its successor.
	To string
	// Gang is equal for pods that have to leave at the same time; "" for a pod that may leave by itself.
	Gang string
}

// Options are the user's choices. All times must be positive.
type Options struct {
	// Keep has the scheduler keep a place for each successor before its pod is evicted.
	Keep bool
	// Whole evicts nothing unless the scheduler keeps a place for each successor. It needs Keep.
	Whole bool
	// AnswerWithin bounds how long the scheduler may take to answer whether it keeps places, EvictWithin how long
	// disruption budgets may refuse an eviction, and RunWithin how long it may take until pods end and others run.
	// Where successors are held back, evictions end before the hold does, whatever EvictWithin is. How long Jobs pause
	// before they create several pods anew comes on top of RunWithin.
	AnswerWithin, EvictWithin, RunWithin time.Duration
	// Again computes the plan again with no other moves than these. It returns an error with the reason if the plan does
	// not work any more, or not with the places that are kept by now.
	Again func(ctx context.Context, left []Move) (Plan, error)
	// Evict, if not nil, evicts a pod in place of the Eviction API. It is called once the API server would accept the
	// eviction of this pod, by its UID. If it returns an error, nothing more is evicted.
	Evict func(ctx context.Context, p *v1.Pod) error
	// Say is called with a line for each step.
	Say func(line string)
}

// Cluster carries out plans in one cluster, with the rights of one user.
type Cluster struct {
	core     *objects.Core
	dynamic  dynamic.Interface
	requests *provisioning.Client
}

// The API server is asked every poll what has become of pods and requests. patience is in polls; see carrying.places.
const (
	poll     = time.Second
	patience = 5
)

// New returns a Cluster.
func New(cfg *rest.Config) (*Cluster, error) {
	fast := rest.CopyConfig(cfg) // evictions follow on each other without a pause, and so do looks at goals; see naming
	fast.QPS, fast.Burst = 100, 200
	core, err := objects.NewCore(fast)
	if err != nil {
		return nil, err
	}
	all, err := dynamic.NewForConfig(fast)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	requests, err := provisioning.NewClient(fast)
	if err != nil {
		return nil, err
	}
	return &Cluster{core: core, dynamic: all, requests: requests}, nil
}

var (
	podResource      = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	templateResource = schema.GroupVersionResource{Version: "v1", Resource: "podtemplates"}
)

// Check returns an error if the API server would refuse a request of the plan, a pod of it is not there, or another
// plan keeps places. All its requests are reads or dry runs.
func (c *Cluster) Check(ctx context.Context, p Plan, o Options) error {
	if err := c.alone(ctx, p, o); err != nil {
		return err
	}
	if err := c.mayHold(ctx, p); err != nil {
		return err
	}
	for _, node := range p.Empty {
		if err := c.cordon(ctx, node, true); err != nil {
			return fmt.Errorf("nothing was changed, since you may not cordon node %s: %w", node, err)
		}
	}
	asked := map[string]bool{} // rights are per namespace
	for _, g := range p.Goals {
		if asked["goal "+g.Namespace] {
			continue
		}
		asked["goal "+g.Namespace] = true
		if err := c.nominate(ctx, g, true); err != nil {
			return fmt.Errorf("nothing was changed, since you may not name the node of pod %s to the scheduler: %w",
				g.NamespacedName, err)
		}
	}
	for _, m := range p.Moves {
		pod, err := c.there(ctx, m)
		if err != nil {
			return err
		}
		if pod == nil {
			return fmt.Errorf("pod %s is not there any more: plan again", m.NamespacedName)
		}
		if asked[m.Namespace] {
			continue
		}
		asked[m.Namespace] = true
		if err := c.mayMove(ctx, pod, o); err != nil {
			return fmt.Errorf("nothing was changed, since pod %s may not be moved by you: %w", m.NamespacedName, err)
		}
	}
	return nil
}

// busy reports whether a request is one of this package that keeps a place, or holds pods back.
func busy(r *provisioning.Request, now time.Time) bool {
	return r.Spec.ProvisioningClassName == apipod.Class && strings.HasPrefix(r.Name, BookingName("")) && !r.Over() &&
		(r.Is(provisioning.Provisioned) || now.Before(r.HeldUntil()))
}

// alone returns an error if the API server has no requests, or if another plan for pods of the same namespaces is busy:
// two plans at a time would count on the same room. Requests of other namespaces do not count, since whoever may create
// them there could stop every plan of the cluster.
func (c *Cluster) alone(ctx context.Context, p Plan, o Options) error {
	if !o.Keep {
		return nil
	}
	own, namespaces := map[string]bool{}, map[string]bool{}
	for _, m := range slices.Concat(p.Moves, p.Gone) {
		own[m.Namespace+"/"+BookingName(m.UID)], namespaces[m.Namespace] = true, true
	}
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		list, err := c.requests.In(namespace).List(ctx, metav1.ListOptions{LabelSelector: managedBy + "=" + manager})
		switch {
		case apierrors.IsNotFound(err):
			return errors.New("the API server has no ProvisioningRequests, by which places are kept: apply their definition, " +
				"or move the pods without that (--keep=false)")
		case err != nil:
			return fmt.Errorf("nothing was changed, since you may not list ProvisioningRequests: %w", err)
		}
		for i := range list.Items {
			r := &list.Items[i]
			if name := r.Namespace + "/" + r.Name; !own[name] && busy(r, time.Now()) {
				return fmt.Errorf("another plan is being carried out, or was interrupted: ProvisioningRequest %s keeps a "+
					"place, or holds pods back; wait until it is gone, or delete it", name)
			}
		}
	}
	return nil
}

// mayMove returns an error if the API server would refuse a request that moving the pod takes.
func (c *Cluster) mayMove(ctx context.Context, pod *v1.Pod, o Options) error {
	if err := evict.Try(ctx, c.dynamic, pod); err != nil && !apierrors.IsTooManyRequests(err) {
		return fmt.Errorf("evict: %w", err)
	}
	if _, err := c.core.Pods.In(pod.Namespace).List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	if !o.Keep || metav1.GetControllerOfNoCopy(pod) == nil {
		return nil
	}
	if err := c.book(ctx, pod, booking{}, true); err != nil {
		return err
	}
	return c.unbook(ctx, pod.Namespace, BookingName(pod.UID), true)
}

// there returns the pod of a move; nil if it is gone or has ended. It returns an error if the pod is on another node.
func (c *Cluster) there(ctx context.Context, m Move) (*v1.Pod, error) {
	pod, err := c.core.Pods.In(m.Namespace).Get(ctx, m.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read pod %s: %w", m.NamespacedName, err)
	case pod.UID != m.UID || pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed:
		return nil, nil
	case pod.Spec.NodeName != m.From:
		return nil, fmt.Errorf("pod %s is on node %s and not on %s, as the plan says: plan again", m.NamespacedName,
			cmp.Or(pod.Spec.NodeName, "none"), m.From)
	}
	return pod, nil
}

// cordon makes a node unschedulable.
func (c *Cluster) cordon(ctx context.Context, node string, try bool) error {
	_, err := c.core.Nodes.Patch(ctx, node, types.StrategicMergePatchType, []byte(`{"spec":{"unschedulable":true}}`),
		metav1.PatchOptions{DryRun: dry(try)})
	return err
}

// nominate names the node of a goal to the scheduler, which then keeps the room there from pods of no higher priority.
// An empty node takes the name back.
func (c *Cluster) nominate(ctx context.Context, g Goal, try bool) error {
	var name any
	if g.Node != "" {
		name = g.Node
	}
	data, err := json.Marshal(map[string]any{"status": map[string]any{"nominatedNodeName": name}})
	if err != nil {
		return err
	}
	_, err = c.dynamic.Resource(podResource).Namespace(g.Namespace).Patch(ctx, g.Name, types.MergePatchType, data,
		metav1.PatchOptions{DryRun: dry(try)}, "status")
	return err
}

func dry(try bool) []string {
	if try {
		return []string{metav1.DryRunAll}
	}
	return nil
}
