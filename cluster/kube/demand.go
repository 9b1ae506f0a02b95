package kube

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/core/place"
)

// The annotations by which a pod states its own demand on the outcome of its placement.
const (
	PolicyAnnotation = "tenon.sh/numa-policy"
	ScopeAnnotation  = "tenon.sh/numa-scope"
	// AlignAnnotation names the resources that the demand is about, IgnoreAnnotation those that it is not
	// about. Without a policy they demand single-numa-node.
	AlignAnnotation  = "tenon.sh/align"
	IgnoreAnnotation = "tenon.sh/align-ignore"

	volcanoPolicy   = "volcano.sh/numa-topology-policy"
	koordinatorSpec = "scheduling.koordinator.sh/numa-topology-spec"
)

// Bounds on a list of resources.
const (
	maxNames     = 16
	maxNamesText = 2048 // bytes
)

// Demand reads a pod's own demand. Tenon's annotations go before their aliases; an annotation that is
// there and says nothing, or what is not known, is an error, and so is a demand that no node can satisfy
// because the pod can get nothing of its own.
func Demand(pod *v1.Pod) (d place.Demand, err error) {
	var said bool
	if d.Policy, said, err = policy(pod); err != nil {
		return place.Demand{}, err
	}
	if value, ok := pod.Annotations[ScopeAnnotation]; ok {
		if d.Scope, ok = place.ParseScope(value); !ok {
			return place.Demand{}, unknown(pod, ScopeAnnotation, value, "one of container, pod")
		}
	}
	about, err := aboutOf(pod)
	switch {
	case err != nil:
		return place.Demand{}, err
	case about == "":
	case !said:
		d.Policy = place.SingleNUMA
	case !d.Binds():
		return place.Demand{}, fmt.Errorf("pod %s/%s: annotation %s: the pod's policy is %s, which demands nothing",
			pod.Namespace, pod.Name, about, d.Policy)
	}
	if !d.Binds() {
		return d, nil
	}
	spec, err := Pod(pod)
	if err != nil {
		return place.Demand{}, err
	}
	own := spec.Own()
	if own == "" {
		return place.Demand{}, fmt.Errorf("pod %s/%s: demands %s, and no node can give it CPUs, memory or devices of its own: "+
			"want a Guaranteed pod or one that asks for devices", pod.Namespace, pod.Name, d.Policy)
	}
	if about == "" {
		return d, nil
	}
	list, err := names(pod, about, own)
	switch {
	case err != nil:
		return place.Demand{}, err
	case about == AlignAnnotation:
		d.Align = list
	case list == own:
		return place.Demand{}, unknown(pod, about, pod.Annotations[about], "fewer resources than all that it can get of its own")
	default:
		d.Ignore = list
	}
	return d, nil
}

// aboutOf returns which annotation names resources, or "".
func aboutOf(pod *v1.Pod) (annotation string, err error) {
	_, aligns := pod.Annotations[AlignAnnotation]
	_, ignores := pod.Annotations[IgnoreAnnotation]
	switch {
	case aligns && ignores:
		return "", fmt.Errorf("pod %s/%s: annotations %s and %s are both there: want one", pod.Namespace, pod.Name, AlignAnnotation, IgnoreAnnotation)
	case aligns:
		return AlignAnnotation, nil
	case ignores:
		return IgnoreAnnotation, nil
	}
	return "", nil
}

// names reads a list of resources, each of which the pod can get pieces of.
func names(pod *v1.Pod, annotation string, own place.Names) (place.Names, error) {
	value := pod.Annotations[annotation]
	list := strings.Split(value, ",")
	if len(value) > maxNamesText || len(list) > maxNames {
		return "", unknown(pod, annotation, value, fmt.Sprintf("at most %d resources", maxNames))
	}
	for i, name := range list {
		if !own.Has(name) {
			return "", unknown(pod, annotation, name, "resources that it can get of its own: "+shortened(own.String(), 400))
		}
		if slices.Contains(list[:i], name) {
			return "", unknown(pod, annotation, value, "every resource once")
		}
	}
	return place.NamesOf(list...), nil
}

// policy reads the first annotation that there is; said is false where none speaks of a policy.
func policy(pod *v1.Pod) (p place.Policy, said bool, err error) {
	for _, name := range [...]string{PolicyAnnotation, volcanoPolicy} {
		if value, ok := pod.Annotations[name]; ok {
			p, known := place.ParsePolicy(value)
			if !known {
				return place.None, true, unknown(pod, name, value, "one of none, best-effort, restricted, single-numa-node")
			}
			return p, true, nil
		}
	}
	if value, ok := pod.Annotations[koordinatorSpec]; ok {
		return koordinator(pod, value)
	}
	return place.None, false, nil
}

// koordinator reads Koordinator's JSON object. An exclusive numa that is only preferred asks for
// nothing; a required one cannot be promised.
func koordinator(pod *v1.Pod, value string) (p place.Policy, said bool, err error) {
	var spec *struct {
		Policy    string `json:"numaTopologyPolicy"`
		Exclusive string `json:"singleNUMANodeExclusive"`
	}
	if err := json.Unmarshal([]byte(value), &spec); err != nil || spec == nil {
		return place.None, true, unknown(pod, koordinatorSpec, value, "a JSON object with numaTopologyPolicy")
	}
	if spec.Exclusive != "" && spec.Exclusive != "Preferred" {
		return place.None, true, unknown(pod, koordinatorSpec+": singleNUMANodeExclusive", spec.Exclusive, "Preferred")
	}
	switch spec.Policy {
	case "":
		return place.None, false, nil
	case "BestEffort":
		return place.BestEffort, true, nil
	case "Restricted":
		return place.Restricted, true, nil
	case "SingleNUMANode":
		return place.SingleNUMA, true, nil
	}
	return place.None, true, unknown(pod, koordinatorSpec+": numaTopologyPolicy", spec.Policy, "one of BestEffort, Restricted, SingleNUMANode")
}

func unknown(pod *v1.Pod, annotation, value, want string) error {
	return fmt.Errorf("pod %s/%s: annotation %s: unknown value %q: want %s", pod.Namespace, pod.Name, annotation, shortened(value, 60), want)
}

func shortened(s string, most int) string {
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
