package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/api/objects"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/printable"
	"github.com/tenon-numa/tenon/core/summary"
)

// Bounds of a pod's history.
const (
	maxEvents  = 500     // events to read
	maxFailed  = 20      // events about attempts to schedule the pod
	maxHistory = 100     // decisions
	maxMessage = 2 << 10 // bytes of a message
	// maxEventBytes bounds what is read of events: whoever may create an event may write a megabyte into it.
	maxEventBytes = 4 << 20
)

// eventsOf returns events of a namespace, or of all if the namespace is "".
func (r *Reader) eventsOf(ctx context.Context, namespace string, limit int64, of fields.Set) ([]v1.Event, error) {
	list, err := r.cluster.Events.In(namespace).ListWithin(ctx, metav1.ListOptions{Limit: limit,
		FieldSelector: of.String()}, maxEventBytes)
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// History reads the decisions of schedulers and kubelets on the pods that have or had this name. If the identity may
// not list events, the result has no decisions, and Problem has the reason.
func (r *Reader) History(ctx context.Context, namespace, name string) (document.PodHistory, error) {
	out := document.PodHistory{Kind: "PodHistory", Namespace: namespace, Name: name, Source: "events",
		Decisions: []document.PastDecision{}}
	events, err := r.eventsOf(ctx, namespace, maxEvents, fields.Set{"involvedObject.kind": "Pod",
		"involvedObject.name": name})
	switch {
	case apierrors.IsForbidden(err):
		out.Problem = "you may not list events in namespace " + namespace
		return out, nil
	case errors.Is(err, objects.ErrTooLarge):
		out.Problem = fmt.Sprintf("the pod's events have more than %d bytes, which schedulers and kubelets do not write",
			maxEventBytes)
		return out, nil
	}
	if err != nil {
		return out, fmt.Errorf("list events of pod %s/%s: %w", namespace, name, err)
	}
	for i := range events {
		if d, ok := decisionIn(&events[i]); ok {
			out.Decisions = append(out.Decisions, d)
		}
	}
	slices.SortStableFunc(out.Decisions, func(a, b document.PastDecision) int {
		return cmp.Or(b.Time.Compare(a.Time), strings.Compare(a.Reason, b.Reason))
	})
	out.Decisions = out.Decisions[:min(maxHistory, len(out.Decisions))]
	return out, nil
}

// outcomes has, by the reason of an event, the outcome that a scheduler or a kubelet reports with such an event.
var outcomes = map[string]document.Outcome{
	failedScheduling:        document.OutcomeRefused,
	"PlacementRefused":      document.OutcomeRefused,
	"Scheduled":             document.OutcomeScheduled,
	"Preempted":             document.OutcomePreempted,
	"PreemptedForAlignment": document.OutcomePreempted,
	"Misaligned":            document.OutcomeMisaligned,

	string(place.TopologyAffinityError):    document.OutcomeRejected,
	string(place.SMTAlignmentError):        document.OutcomeRejected,
	string(place.UnexpectedAdmissionError): document.OutcomeRejected,
}

// decisionIn returns the decision that an event reports; ok is false for an event that reports none.
func decisionIn(e *v1.Event) (out document.PastDecision, ok bool) {
	outcome, ok := outcomes[e.Reason]
	if !ok && strings.HasPrefix(e.Reason, "OutOf") {
		outcome, ok = document.OutcomeRejected, true
	}
	if !ok && e.Action == "Scheduling" {
		outcome, ok = document.OutcomeOther, true
	}
	first := e.FirstTimestamp.Time
	if first.IsZero() {
		first = cmp.Or(e.EventTime.Time, e.CreationTimestamp.Time)
	}
	count := max(e.Count, 1)
	if e.Series != nil {
		count = max(count, e.Series.Count)
	}
	last := lastSeen(e)
	if last.Before(first) {
		last = first
	}
	return document.PastDecision{UID: string(e.InvolvedObject.UID), Outcome: outcome, First: first.UTC(), Time: last.UTC(),
		Count: count, By: cmp.Or(e.ReportingController, e.Source.Component), Reason: e.Reason,
		Message: printable.Clip(e.Message, maxMessage), Summary: printable.Clip(summary.Cut(e.Message), maxMessage),
		Warning: e.Type == v1.EventTypeWarning}, ok
}
