package kube

import (
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/core/place"
)

// The annotations by which a pod states its own demand on the outcome of its placement.
const (
	PolicyAnnotation = "tenon.sh/numa-policy"
	ScopeAnnotation  = "tenon.sh/numa-scope"

	volcanoPolicy   = "volcano.sh/numa-topology-policy"
	koordinatorSpec = "scheduling.koordinator.sh/numa-topology-spec"
)

// Demand reads a pod's own demand. Tenon's annotations go before their aliases; an annotation that is
// there and says nothing, or what is not known, is an error.
func Demand(pod *v1.Pod) (d place.Demand, err error) {
	if d.Policy, err = policy(pod); err != nil {
		return place.Demand{}, err
	}
	if value, ok := pod.Annotations[ScopeAnnotation]; ok {
		if d.Scope, ok = place.ParseScope(value); !ok {
			return place.Demand{}, unknown(pod, ScopeAnnotation, value, "one of container, pod")
		}
	}
	return d, nil
}

// policy reads the first annotation that there is.
func policy(pod *v1.Pod) (place.Policy, error) {
	for _, name := range [...]string{PolicyAnnotation, volcanoPolicy} {
		if value, ok := pod.Annotations[name]; ok {
			p, known := place.ParsePolicy(value)
			if !known {
				return place.None, unknown(pod, name, value, "one of none, best-effort, restricted, single-numa-node")
			}
			return p, nil
		}
	}
	if value, ok := pod.Annotations[koordinatorSpec]; ok {
		return koordinator(pod, value)
	}
	return place.None, nil
}

// koordinator reads Koordinator's JSON object. An exclusive numa that is only preferred asks for
// nothing; a required one cannot be promised.
func koordinator(pod *v1.Pod, value string) (place.Policy, error) {
	var spec *struct {
		Policy    string `json:"numaTopologyPolicy"`
		Exclusive string `json:"singleNUMANodeExclusive"`
	}
	if err := json.Unmarshal([]byte(value), &spec); err != nil || spec == nil {
		return place.None, unknown(pod, koordinatorSpec, value, "a JSON object with numaTopologyPolicy")
	}
	if spec.Exclusive != "" && spec.Exclusive != "Preferred" {
		return place.None, unknown(pod, koordinatorSpec+": singleNUMANodeExclusive", spec.Exclusive, "Preferred")
	}
	switch spec.Policy {
	case "":
		return place.None, nil
	case "BestEffort":
		return place.BestEffort, nil
	case "Restricted":
		return place.Restricted, nil
	case "SingleNUMANode":
		return place.SingleNUMA, nil
	}
	return place.None, unknown(pod, koordinatorSpec+": numaTopologyPolicy", spec.Policy, "one of BestEffort, Restricted, SingleNUMANode")
}

func unknown(pod *v1.Pod, annotation, value, want string) error {
	if len(value) > 60 {
		value = value[:60] + "..."
	}
	return fmt.Errorf("pod %s/%s: annotation %s: unknown value %q: want %s", pod.Namespace, pod.Name, annotation, value, want)
}
