// Package kube translates between the API server's objects and core values: Pod to place.Pod (by api/pod),
// NodeLayout to ledger.Layout, and the event streams of both into a ledger.Book.
//
// Invariant: a translation is total: what it does not understand is an error that names the object and
// the value, never a silent default, and an object that is refused harms no other. The package refuses
// to write anything: the conditions of a NodeLayout are package sched's.
package kube

import (
	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
)

// ID names a pod for the ledger.
func ID(pod *v1.Pod) ledger.PodID {
	return ledger.PodID{UID: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name}
}

// Started reports whether the pod's kubelet has dealt with it: the kubelet sets startTime when it first
// reports a pod that it admitted.
func Started(pod *v1.Pod) bool { return pod.Status.StartTime != nil }

// Ended reports whether the pod holds nothing any more.
func Ended(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

// Rejection returns why the pod's kubelet refused it for the sake of alignment.
func Rejection(pod *v1.Pod) (why place.RefusalReason, ok bool) {
	switch e := place.RefusalReason(pod.Status.Reason); e {
	case place.TopologyAffinityError, place.SMTAlignmentError, place.UnexpectedAdmissionError:
		return e, pod.Status.Phase == v1.PodFailed
	}
	return "", false
}
