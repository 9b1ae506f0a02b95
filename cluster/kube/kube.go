// Package kube translates between the API server's objects and core values: Pod to place.Pod (with api/pod), NodeLayout
// to state.Layout, and the event streams of both into a ledger.Book.
//
// Invariant: a translation never substitutes a silent default for a value that it does not understand. It returns an
// error that names the object and the value, and a rejected object affects no other. The package writes nothing: the
// conditions of a NodeLayout are written by scheduler/report.
package kube

import (
	"strings"

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

// Refused returns the reason that the pod's kubelet gave when it did not take the pod, for alignment or for anything
// else: a taint, a label, a sysctl. ok is false if it did not refuse the pod. The prefix of the message is rejectPod's
// (pkg/kubelet/kubelet.go, 1.34 to 1.37).
func Refused(pod *v1.Pod) (reason string, ok bool) {
	if why, ok := Rejection(pod); ok {
		return string(why), true
	}
	ok = pod.Status.Phase == v1.PodFailed && strings.HasPrefix(pod.Status.Message, "Pod was rejected: ")
	return pod.Status.Reason, ok
}

// Rejection returns why the pod's kubelet rejected it for alignment. ok is false if it did not.
func Rejection(pod *v1.Pod) (why place.RefusalReason, ok bool) {
	switch e := place.RefusalReason(pod.Status.Reason); e {
	case place.TopologyAffinityError, place.SMTAlignmentError, place.UnexpectedAdmissionError:
		return e, pod.Status.Phase == v1.PodFailed
	}
	return "", false
}
