package pod

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/printable"
)

// The annotations that state a pod's own demand; see docs/reference/pod-annotations.md.
const (
	PolicyAnnotation = "tenon.sh/numa-policy"
	ScopeAnnotation  = "tenon.sh/numa-scope"
	// AlignAnnotation lists the resources to align, and devices of claims ([NearDevices]); IgnoreAnnotation lists
	// resources that need not be aligned. With resources in one of them and no policy, the policy is single-numa-node.
	AlignAnnotation  = "tenon.sh/align"
	IgnoreAnnotation = "tenon.sh/align-ignore"

	// VolcanoPolicy and KoordinatorSpec are the annotations of other schedulers that state a demand.
	VolcanoPolicy   = "volcano.sh/numa-topology-policy"
	KoordinatorSpec = "scheduling.koordinator.sh/numa-topology-spec"
)

// Bounds on a list of names.
const (
	maxNames     = 16
	maxNamesText = 2048 // bytes
)

// Demand reads a pod's own demand from its annotations. Tenon's annotations take precedence over those of Volcano and
// Koordinator. A pod without annotations demands nothing. An annotation that is empty or has an unknown value is an
// error. A demand of a pod that gets no CPUs, memory or devices of its own on any node is also an error, because no
// node can satisfy it.
func Demand(p *v1.Pod) (d place.Demand, err error) {
	var set bool
	if d.Policy, set, err = policy(p); err != nil {
		return place.Demand{}, err
	}
	if value, ok := p.Annotations[ScopeAnnotation]; ok {
		if d.Scope, ok = place.ParseScope(value); !ok {
			return place.Demand{}, unknown(p, ScopeAnnotation, value, "one of container, pod")
		}
	}
	if err := relate(p, &d); err != nil {
		return place.Demand{}, err
	}
	annotation, names, err := listed(p)
	switch {
	case err != nil:
		return place.Demand{}, err
	case annotation == "":
	case !set:
		d.Policy = place.SingleNUMA
	case d.Policy != place.SingleNUMA && d.Policy != place.Restricted:
		return place.Demand{}, fmt.Errorf("pod %s/%s: annotation %s: the pod's policy is %s, which demands nothing",
			p.Namespace, p.Name, annotation, d.Policy)
	}
	if !d.Binds() {
		return d, nil
	}
	spec, err := ToPlace(p)
	if err != nil {
		return place.Demand{}, err
	}
	own := spec.Own()
	if own == "" {
		return place.Demand{}, fmt.Errorf("pod %s/%s: demands %s, and no node can give it CPUs, memory or devices "+
			"of its own: want a Guaranteed pod or one that asks for devices", p.Namespace, p.Name, wanted(d))
	}
	if annotation == "" {
		return d, nil
	}
	list, err := parseNames(p, annotation, names, own)
	switch {
	case err != nil:
		return place.Demand{}, err
	case annotation == AlignAnnotation:
		d.Align = list
	case list == own:
		return place.Demand{}, unknown(p, annotation, p.Annotations[annotation],
			"fewer resources than all that it can get of its own")
	default:
		d.Ignore = list
	}
	return d, nil
}

// wanted describes what a demand is about.
func wanted(d place.Demand) string {
	switch {
	case d.Policy == place.SingleNUMA || d.Policy == place.Restricted:
		return d.Policy.String()
	case d.Together != "":
		return "a NUMA node together with other pods"
	}
	return "a NUMA node apart from other pods"
}

// listed returns the name of the annotation in which the pod lists resources, and their names; "" if it has none. A
// pod with both such annotations is an error.
func listed(p *v1.Pod) (annotation string, names []string, err error) {
	_, aligns := p.Annotations[AlignAnnotation]
	_, ignores := p.Annotations[IgnoreAnnotation]
	switch {
	case aligns && ignores:
		return "", nil, fmt.Errorf("pod %s/%s: annotations %s and %s are both there: want one",
			p.Namespace, p.Name, AlignAnnotation, IgnoreAnnotation)
	case aligns:
		annotation = AlignAnnotation
	case ignores:
		annotation = IgnoreAnnotation
	default:
		return "", nil, nil
	}
	value := p.Annotations[annotation]
	names = strings.Split(value, ",")
	if len(value) > maxNamesText || len(names) > maxNames {
		return "", nil, unknown(p, annotation, value, fmt.Sprintf("at most %d names", maxNames))
	}
	if annotation == AlignAnnotation {
		if names, err = withoutDevices(p, names); err != nil {
			return "", nil, err
		}
		if len(names) == 0 {
			return "", nil, nil
		}
	}
	return annotation, names, nil
}

// parseNames reads the list of resources in an annotation. Each resource must be in own, the resources that the pod
// can get of its own, and may be there only once.
func parseNames(p *v1.Pod, annotation string, list []string, own place.Names) (place.Names, error) {
	for i, name := range list {
		if !own.Has(name) && shared(p, name) {
			return "", fmt.Errorf("pod %s/%s: annotation %s: no kubelet gives the pod %s of its own, since the pod is not "+
				"Guaranteed or asks for no whole number of CPUs: give each container limits for cpu and memory that equal its "+
				"requests, or name some of: %s", p.Namespace, p.Name, annotation, name, printable.Clip(own.String(), 400))
		}
		if !own.Has(name) {
			return "", fmt.Errorf("pod %s/%s: annotation %s: %q is not a resource that the pod can get of its own: "+
				"let the pod ask for it, or name some of: %s", p.Namespace, p.Name, annotation, printable.Clip(name, 60),
				printable.Clip(own.String(), 400))
		}
		if slices.Contains(list[:i], name) {
			return "", unknown(p, annotation, p.Annotations[annotation], "every resource once")
		}
	}
	return place.NamesOf(list...), nil
}

// shared reports whether a resource is CPUs or memory that the pod requests. If it is not among the pod's own
// resources, the pod shares it with other pods.
func shared(p *v1.Pod, name string) bool {
	if name != string(v1.ResourceCPU) && name != string(v1.ResourceMemory) {
		return false
	}
	lists := []v1.ResourceList{}
	if r := p.Spec.Resources; r != nil {
		lists = append(lists, r.Requests)
	}
	for _, all := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range all {
			lists = append(lists, all[i].Resources.Requests)
		}
	}
	return slices.ContainsFunc(lists, func(l v1.ResourceList) bool {
		_, asked := l[v1.ResourceName(name)]
		return asked
	})
}

// policy reads the policy of the first annotation that the pod has; set is false if no annotation names a policy.
func policy(p *v1.Pod) (policy place.Policy, set bool, err error) {
	for _, name := range [...]string{PolicyAnnotation, VolcanoPolicy} {
		if value, ok := p.Annotations[name]; ok {
			policy, known := place.ParsePolicy(value)
			if !known {
				return place.None, true, unknown(p, name, value, "one of none, best-effort, restricted, single-numa-node")
			}
			return policy, true, nil
		}
	}
	if value, ok := p.Annotations[KoordinatorSpec]; ok {
		return koordinator(p, value)
	}
	return place.None, false, nil
}

// koordinator reads Koordinator's JSON object. A preference for an exclusive NUMA node demands nothing; a requirement
// is an error, since Tenon cannot keep other pods away from a NUMA node.
func koordinator(p *v1.Pod, value string) (policy place.Policy, set bool, err error) {
	var spec *struct {
		Policy    string `json:"numaTopologyPolicy"`
		Exclusive string `json:"singleNUMANodeExclusive"`
	}
	if err := json.Unmarshal([]byte(value), &spec); err != nil || spec == nil {
		return place.None, true, unknown(p, KoordinatorSpec, value, "a JSON object with numaTopologyPolicy")
	}
	if spec.Exclusive != "" && spec.Exclusive != "Preferred" {
		return place.None, true, unknown(p, KoordinatorSpec+": singleNUMANodeExclusive", spec.Exclusive, "Preferred")
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
	return place.None, true, unknown(p, KoordinatorSpec+": numaTopologyPolicy", spec.Policy,
		"one of BestEffort, Restricted, SingleNUMANode")
}

// unknown returns the error for an annotation whose value is wrong. want describes the valid values.
func unknown(p *v1.Pod, annotation, value, want string) error {
	return fmt.Errorf("pod %s/%s: annotation %s: unknown value %q: want %s",
		p.Namespace, p.Name, annotation, printable.Clip(value, 60), want)
}
