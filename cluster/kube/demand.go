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

// Demand reads a pod's own demand. Tenon's annotations go before their aliases; a value that is not
// known is an error.
func Demand(pod *v1.Pod) (d place.Demand, err error) {
	value, from, err := policyText(pod)
	if err != nil {
		return d, err
	}
	if value != "" {
		var ok bool
		if d.Policy, ok = place.ParsePolicy(value); !ok {
			return d, unknown(pod, from, value, "none, best-effort, restricted, single-numa-node")
		}
	}
	if value := pod.Annotations[ScopeAnnotation]; value != "" {
		var ok bool
		if d.Scope, ok = place.ParseScope(value); !ok {
			return d, unknown(pod, ScopeAnnotation, value, "container, pod")
		}
	}
	return d, nil
}

func unknown(pod *v1.Pod, annotation, value, want string) error {
	if len(value) > 60 {
		value = value[:60] + "..."
	}
	return fmt.Errorf("pod %s/%s: annotation %s: unknown value %q: want one of %s", pod.Namespace, pod.Name, annotation, value, want)
}

func policyText(pod *v1.Pod) (value, from string, err error) {
	if v, ok := pod.Annotations[PolicyAnnotation]; ok {
		if v == "" {
			v = "\"\""
		}
		return v, PolicyAnnotation, nil
	}
	if v := pod.Annotations[volcanoPolicy]; v != "" {
		return v, volcanoPolicy, nil
	}
	v := pod.Annotations[koordinatorSpec]
	if v == "" {
		return "", "", nil
	}
	var spec struct {
		Policy string `json:"numaTopologyPolicy"`
	}
	if err := json.Unmarshal([]byte(v), &spec); err != nil {
		return "", "", unknown(pod, koordinatorSpec, v, "a JSON object with numaTopologyPolicy")
	}
	names := map[string]string{"": "", "BestEffort": "best-effort", "Restricted": "restricted", "SingleNUMANode": "single-numa-node"}
	name, ok := names[spec.Policy]
	if !ok {
		return "", "", unknown(pod, koordinatorSpec, spec.Policy, "BestEffort, Restricted, SingleNUMANode")
	}
	return name, koordinatorSpec, nil
}
