package booking

import (
	"crypto/sha256"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/score"
)

// Request has what a pod requests, in the form in which core judges it. It is immutable.
type Request struct {
	UID string
	Pod *place.Pod
	// Key is equal exactly for pods that get equal verdicts. It is made of the shape and of the container names,
	// because reasons contain these names; see keyOf.
	Key    string
	Shape  string
	Demand place.Demand
	// Strategy is the type of the scoring strategy that the pod requests, or nil.
	Strategy *score.Type
}

// TooLarge is the error for a pod that is not judged on any node because that would cost too much. Its text is the
// reason.
type TooLarge string

// Error implements error.
func (e TooLarge) Error() string { return string(e) }

// Read returns what a pod requests. It returns a [TooLarge] for a pod that costs too much to judge, and another error
// if the pod, its demand or its strategy cannot be parsed. A pod that no kubelet aligns is never too large.
func Read(pod *v1.Pod) (*Request, error) {
	if why := surelyTooLarge(pod); why != "" {
		return nil, TooLarge(why)
	}
	cp, err := apipod.ToPlace(pod)
	if err != nil {
		return nil, err
	}
	if why := whyTooLarge(cp); why != "" {
		return nil, TooLarge(why)
	}
	demand, err := apipod.Demand(pod)
	if err != nil {
		return nil, err
	}
	strategy, err := strategyOf(pod)
	if err != nil {
		return nil, err
	}
	shape := cp.Shape()
	return &Request{UID: string(pod.UID), Pod: cp, Key: keyOf(shape, cp.Containers), Shape: shape, Demand: demand,
		Strategy: strategy}, nil
}

const (
	// maxContainers bounds all containers of a pod that has at least one container that needs alignment.
	// [place.MaxContainers] bounds the containers that need alignment; the others cost little each.
	maxContainers = 1000
	// maxKeyText bounds the key of a request in bytes, because tables of answers keep keys.
	maxKeyText = 256
)

// whyTooLarge returns why a pod costs too much to be judged on any node, or "".
func whyTooLarge(p *place.Pod) string {
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

// surelyTooLarge does what whyTooLarge does for most pods that are too large, but reads no container, because
// queueing hints call it for every waiting pod at every event. It relies on the QoS class that the API server has
// set: all containers of a Guaranteed pod name memory (qos.ComputePodQOS), so all need alignment. It returns "" for
// all other pods, whose containers must be read.
func surelyTooLarge(pod *v1.Pod) string {
	n := len(pod.Spec.InitContainers) + len(pod.Spec.Containers)
	if n <= place.MaxContainers || pod.Status.QOSClass != v1.PodQOSGuaranteed || pod.Spec.Resources != nil {
		return ""
	}
	return place.Reason{Code: place.TooComplex, Want: int64(n), Have: place.MaxContainers}.Text()
}

// keyOf returns a text of bounded length that is equal exactly for pods that get equal verdicts: pods of one shape
// whose containers have the same names, since reasons contain these names.
func keyOf(shape string, containers []place.Container) string {
	size := len(shape)
	for i := range containers {
		size += 1 + len(containers[i].Name)
	}
	out := append(make([]byte, 0, size), shape...)
	for i := range containers {
		out = append(append(out, '/'), containers[i].Name...)
	}
	return Bounded(string(out))
}

// Bounded returns a text of at most maxKeyText bytes unchanged. For a longer text it returns the beginning and a hash
// of the whole text, in maxKeyText bytes.
func Bounded(text string) string {
	if len(text) <= maxKeyText {
		return text
	}
	return fmt.Sprintf("%s#%x", text[:maxKeyText-65], sha256.Sum256([]byte(text)))
}

// StrategyAnnotation is the annotation by which a pod chooses how nodes are scored for it, instead of its profile.
const StrategyAnnotation = "tenon.sh/scoring-strategy"

// maxQuoted bounds the bytes of an annotation's value that an error quotes, so that events stay readable.
const maxQuoted = 60

// strategyOf returns the type of the strategy that a pod requests, or nil if it has no annotation.
func strategyOf(pod *v1.Pod) (*score.Type, error) {
	value, ok := pod.Annotations[StrategyAnnotation]
	if !ok {
		return nil, nil
	}
	t, ok := score.ParseType(value)
	if !ok {
		if len(value) > maxQuoted {
			value = value[:maxQuoted] + "..."
		}
		return nil, fmt.Errorf("pod %s/%s: annotation %s: unknown value %q: want one of %s",
			pod.Namespace, pod.Name, StrategyAnnotation, value, strings.Join(score.Names(), ", "))
	}
	return &t, nil
}
