package sched

import (
	"crypto/sha256"
	"fmt"

	v1 "k8s.io/api/core/v1"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/core/place"
)

// This file bounds what one pod, and one kind of pods, may cost the others. The API server takes pods of several
// thousand containers from anybody who may create pods.

const (
	// maxContainers bounds all containers of a pod that has at least one container that needs alignment.
	// [place.MaxContainers] bounds the containers that need alignment; the others cost little each.
	maxContainers = 1000
	// maxIndexed bounds the containers of a pod for which PreFilter asks all nodes in advance. For a larger pod
	// kube-scheduler runs Filter on nodes until enough fit, on several CPUs at once.
	maxIndexed = 16
	// maxKeyText bounds the text of a kind of pods. The table of answers keeps it.
	maxKeyText = 256
)

// oversized says why a pod costs too much to be judged on any node, or "".
func oversized(p *place.Pod) string {
	if p.Plain() {
		return ""
	}
	if large := p.TooLarge(); len(large) > 0 {
		return large[0].Text()
	}
	if n := len(p.Containers); n > maxContainers {
		return fmt.Sprintf("pod has %d containers, more than %d; use fewer containers", n, maxContainers)
	}
	return ""
}

// tooLarge is oversized for pods whose class the API server has set, without reading a container: queueing hints ask it
// for every waiting pod at every event. All containers of a Guaranteed pod name memory (qos.ComputePodQOS), so all need
// alignment. It is "" where the containers have to be read.
func tooLarge(pod *v1.Pod) string {
	n := len(pod.Spec.InitContainers) + len(pod.Spec.Containers)
	if n <= place.MaxContainers || pod.Status.QOSClass != v1.PodQOSGuaranteed || pod.Spec.Resources != nil {
		return ""
	}
	return place.Reason{Code: place.TooComplex, Want: int64(n), Have: place.MaxContainers}.Text()
}

// exceedsBudget reports whether the pod is refused for its size. It reads the containers only where it has to.
func exceedsBudget(pod *v1.Pod) bool {
	if tooLarge(pod) != "" {
		return true
	}
	cp, err := apipod.ToPlace(pod)
	return err == nil && oversized(cp) != ""
}

// large reports whether a node's answer about the pod takes long.
func (s *state) large() bool { return len(s.pod.Containers) > maxIndexed }

// keyOf returns a text of bounded length that is equal exactly for pods that get equal verdicts: those of one
// shape whose containers have the same names, since reasons speak of these.
func keyOf(shape string, containers []place.Container) string {
	size := len(shape)
	for i := range containers {
		size += 1 + len(containers[i].Name)
	}
	out := append(make([]byte, 0, size), shape...)
	for i := range containers {
		out = append(append(out, '/'), containers[i].Name...)
	}
	return bounded(string(out))
}

// bounded returns a text as it is where it is short, and its beginning with a hash of all of it otherwise.
func bounded(text string) string {
	if len(text) <= maxKeyText {
		return text
	}
	return fmt.Sprintf("%s#%x", text[:maxKeyText-65], sha256.Sum256([]byte(text)))
}
