// Package kube translates between the API server's objects and core values: Pod to place.Pod (with api/pod), NodeLayout
// to state.Layout, and the event streams of both into a ledger.Book.
//
// Invariant: a translation never substitutes a silent default for a value that it does not understand. It returns an
// error that names the object and the value, and a rejected object affects no other. The package writes nothing: the
// conditions of a NodeLayout are written by scheduler/report.
package kube

import (
	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// ID returns the ledger's id of a pod.
func ID(pod *v1.Pod) state.PodID {
	return state.PodID{UID: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name}
}

// Started reports whether the pod's kubelet has processed it: the kubelet sets startTime when it first reports a pod
// that it admitted.
func Started(pod *v1.Pod) bool { return pod.Status.StartTime != nil }

// Ended reports whether the pod has terminated, so that it holds nothing.
func Ended(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

// Rejection returns why the pod's kubelet rejected it for alignment. ok is false if it did not.
func Rejection(pod *v1.Pod) (why place.RefusalReason, ok bool) {
	switch e := place.RefusalReason(pod.Status.Reason); e {
	case place.TopologyAffinityError, place.SMTAlignmentError, place.UnexpectedAdmissionError:
		return e, pod.Status.Phase == v1.PodFailed
	}
	return "", false
}
