package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/api/objects"
	"github.com/tenon-numa/tenon/core/printable"
)

// This file computes what the API server shows about the scheduling of a pod without a node: which scheduler it
// belongs to, and how far scheduling has come. A scheduler has no object of its own, but leaves traces: events, pods
// that it bound or refused, and a lease.

// Scheduling returns how far the scheduling of a pod without a node has come. pods are all pods of the cluster.
// Events or leases that the identity may not read are no error; they may leave the state open as NotKnown.
func (r *Reader) Scheduling(ctx context.Context, pod *v1.Pod, pods []Stored) (document.Scheduling, error) {
	events, err := r.eventsOf(ctx, pod.Namespace, maxFailed, fields.Set{"involvedObject.uid": string(pod.UID),
		"reason": failedScheduling})
	switch {
	case apierrors.IsForbidden(err):
		return scheduling(pod, pods, nil, nil), nil
	case errors.Is(err, objects.ErrTooLarge): // no scheduler's
	case err != nil:
		return document.Scheduling{}, fmt.Errorf("list events of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	// The API server matches the field "source" with the component of an old event and the controller of a new one.
	written, err := r.eventsOf(ctx, "", 1, fields.Set{"source": pod.Spec.SchedulerName})
	if apierrors.IsForbidden(err) {
		return scheduling(pod, pods, events, nil), nil
	}
	if err != nil {
		return document.Scheduling{}, fmt.Errorf("list events of scheduler %s: %w", pod.Spec.SchedulerName, err)
	}
	active, known := len(written) > 0, true
	leases := []string{pod.Spec.SchedulerName}
	if pod.Spec.SchedulerName == v1.DefaultSchedulerName {
		leases = append(leases, kubeScheduler)
	}
	for _, lease := range leases {
		if !active {
			held, read := r.leaseHeld(ctx, lease)
			active, known = held, known && read
		}
	}
	if !active && !known {
		return scheduling(pod, pods, events, nil), nil
	}
	out := scheduling(pod, pods, events, &active)
	if out.State == document.Unseen {
		if held, _ := r.leaseHeld(ctx, kubeScheduler); held {
			out.Lease = metav1.NamespaceSystem + "/" + kubeScheduler
		}
	}
	return out, nil
}

// kubeScheduler is the name of kube-scheduler's lease, whatever the names of its profiles are.
const kubeScheduler = "kube-scheduler"

// leaseHeld reports whether a lease with a scheduler's name is held. known is false if that is uncertain: no lease
// that was read is held, and at least one could not be read.
func (r *Reader) leaseHeld(ctx context.Context, scheduler string) (held, known bool) {
	known = true
	leases := schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
	for _, namespace := range []string{metav1.NamespaceSystem, "tenon-system"} {
		text, err := r.raw(ctx, leases, namespace, scheduler, 0)
		if err != nil {
			known = known && apierrors.IsNotFound(err)
			continue
		}
		var lease struct {
			Spec struct {
				HolderIdentity string `json:"holderIdentity"`
			} `json:"spec"`
		}
		switch err := json.Unmarshal(text, &lease); {
		case err != nil:
			known = false
		case lease.Spec.HolderIdentity != "":
			return true, true
		}
	}
	return false, known
}

// failedScheduling is the reason of the events that schedulers write about a pod for which they found no node.
const failedScheduling = "FailedScheduling"

// scheduling judges by the pod, its failure events and all pods. active points to whether the pod's scheduler has
// written any event or holds a lease; it is nil if that is unknown.
func scheduling(pod *v1.Pod, pods []Stored, failures []v1.Event, active *bool) document.Scheduling {
	out := document.Scheduling{Scheduler: pod.Spec.SchedulerName, Seen: Schedulers(pods),
		Node: pod.Status.NominatedNodeName}
	for _, g := range pod.Spec.SchedulingGates {
		out.Gates = append(out.Gates, g.Name)
	}
	for i := range failures {
		if at := lastSeen(&failures[i]); at.After(out.Tried) {
			out.Tried, out.Message = at, cmp.Or(printable.Clip(failures[i].Message, maxMessage), out.Message)
		}
	}
	refused := refusal(pod)
	if refused != nil {
		out.Since, out.Message = refused.LastTransitionTime.Time, cmp.Or(refused.Message, out.Message)
	}
	switch {
	case pod.DeletionTimestamp != nil:
		out.State = document.Deleted
	case len(out.Gates) > 0:
		out.State = document.Gated
	case out.Node != "":
		out.State = document.Chosen
	case refused != nil:
		out.State = document.Refused
	case slices.Contains(out.Seen, out.Scheduler) || active != nil && *active:
		out.State = document.Untried
	case active == nil:
		out.State = document.NotKnown
	default:
		out.State = document.Unseen
	}
	return out
}

// refusal returns the condition by which the scheduler refused the pod, or nil.
func refusal(pod *v1.Pod) *v1.PodCondition {
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse && c.Reason != v1.PodReasonSchedulingGated {
			return c
		}
	}
	return nil
}

// lastSeen returns the latest time at which an event happened, by any of its fields.
func lastSeen(e *v1.Event) time.Time {
	last := e.EventTime.Time
	if e.LastTimestamp.After(last) {
		last = e.LastTimestamp.Time
	}
	if s := e.Series; s != nil && s.LastObservedTime.After(last) {
		last = s.LastObservedTime.Time
	}
	return last
}

// Schedulers returns the names of the schedulers that have bound or refused pods, in ascending order. It ignores
// mirror pods, which have a scheduler's name although no scheduler placed them.
func Schedulers(pods []Stored) []string {
	seen := map[string]bool{}
	for p := range EachPod(pods) {
		_, mirror := p.Annotations[v1.MirrorPodAnnotationKey]
		if !mirror && p.Spec.SchedulerName != "" && (p.Spec.NodeName != "" || refusal(p) != nil) {
			seen[p.Spec.SchedulerName] = true
		}
	}
	return append([]string{}, slices.Sorted(maps.Keys(seen))...)
}
