package apply

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/ops/evict"
)

// This file evicts the pods of a node, as kubectl drain does.

var daemonSets = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "daemonsets"}

// leaving returns the pods that have to leave a node. It returns an error if a pod or its data would be lost and the
// options do not permit that.
func (c *Cluster) leaving(ctx context.Context, node string, o Options) ([]v1.Pod, error) {
	list, err := c.core.Pods.List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return nil, fmt.Errorf("list the pods of node %s: %w", node, err)
	}
	var out []v1.Pod
	for _, p := range list.Items {
		set, err := c.daemonSetOf(ctx, &p)
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", node, err)
		}
		switch {
		case set == existing || c.remains(node, &p):
			continue
		case (set == missing || metav1.GetControllerOfNoCopy(&p) == nil) && !o.Force:
			return nil, fmt.Errorf("node %s: pod %s/%s has no controller, and would end for good: --force permits that", node,
				p.Namespace, p.Name)
		case !o.LoseEmptyDir && slices.ContainsFunc(p.Spec.Volumes, func(v v1.Volume) bool { return v.EmptyDir != nil }):
			return nil, fmt.Errorf("node %s: pod %s/%s has an emptyDir volume, whose data would be lost: "+
				"--delete-emptydir-data permits that", node, p.Namespace, p.Name)
		}
		out = append(out, p)
	}
	return out, nil
}

// podNode is a [Node] that changes a node by means of a pod. Own reports whether p is that pod, which is not evicted.
type podNode interface {
	Own(node string, p *v1.Pod) bool
}

// remains reports whether the pod is not evicted: a mirror pod, the pod that changes the node, or a pod that has
// ended. Any user can write the annotation of mirror pods, but gains nothing by it, because kubelets do not run such
// a pod.
func (c *Cluster) remains(node string, p *v1.Pod) bool {
	o, ok := c.node.(podNode)
	return apipod.Mirror(p) || ok && o.Own(node, p) || p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
}

// daemonSet is the state of the DaemonSet that is the controller of a pod.
type daemonSet int

const (
	none     daemonSet = iota // the pod has another controller or none
	existing                  // the pod is not evicted: the DaemonSet would create it again
	missing                   // the DaemonSet does not exist, so the pod counts as one without a controller
)

// daemonSetOf returns the state of the DaemonSet that controls a pod. It reads the DaemonSet, because users may write
// any owner reference to their pods.
func (c *Cluster) daemonSetOf(ctx context.Context, p *v1.Pod) (daemonSet, error) {
	owner := metav1.GetControllerOfNoCopy(p)
	if owner == nil || owner.Kind != "DaemonSet" {
		return none, nil
	}
	type controller struct {
		namespace, name string
		uid             types.UID
	}
	key := controller{p.Namespace, owner.Name, owner.UID}
	if _, known := c.sets.Load(key); known {
		return existing, nil
	}
	found, err := c.dynamic.Resource(daemonSets).Namespace(p.Namespace).Get(ctx, owner.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || err == nil && found.GetUID() != owner.UID:
		return missing, nil
	case err != nil:
		return none, fmt.Errorf("read the DaemonSet of pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	c.sets.Store(key, true)
	return existing, nil
}

// evict asks for the eviction of each pod until all have gone, and asks again while a PodDisruptionBudget refuses it.
// If pods remain after o.EvictWithin, it returns a [remainingError] with the reasons. A round of requests is finished
// even after this time, so that no reason is missing.
func (c *Cluster) evict(ctx context.Context, node string, o Options) error {
	var reasons []string // why pods remain, one for each pod
	round := func(context.Context) (bool, error) {
		pods, err := c.leaving(ctx, node, o)
		if err != nil {
			return false, err
		}
		reasons = nil
		for _, p := range pods {
			switch err := evict.Pod(ctx, c.dynamic, &p); {
			case err == nil:
				reasons = append(reasons, fmt.Sprintf("pod %s/%s is ending still", p.Namespace, p.Name))
			case apierrors.IsNotFound(err), apierrors.IsConflict(err): // it is gone, perhaps replaced by one of its name
			case apierrors.IsTooManyRequests(err):
				reasons = append(reasons, fmt.Sprintf("pod %s/%s: %v", p.Namespace, p.Name, err))
			default:
				return false, fmt.Errorf("evict pod %s/%s: %w", p.Namespace, p.Name, err)
			}
		}
		return len(reasons) == 0, nil
	}
	err := wait.PollUntilContextTimeout(ctx, 500*time.Millisecond, o.EvictWithin, true, round)
	if wait.Interrupted(err) && ctx.Err() == nil {
		return remainingError{fmt.Errorf("not all pods were evicted within %s: %s", o.EvictWithin,
			strings.Join(reasons, "; ")), len(reasons)}
	}
	return err
}
