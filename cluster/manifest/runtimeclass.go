package manifest

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

// WithClass changes a pod as the API server does by the pod's runtime class (plugin/pkg/admission/runtimeclass): it
// adds the class's overhead, node selector and tolerations. It returns an error if the API server refuses the pod
// with this class. If c is nil, the pod has no runtime class.
func WithClass(p *v1.Pod, c *nodev1.RuntimeClass) error {
	s := &p.Spec
	if c == nil || c.Overhead == nil {
		if len(s.Overhead) > 0 {
			return fmt.Errorf("spec.overhead: only a runtime class with an overhead gives one")
		}
	} else {
		if len(s.Overhead) > 0 && !apiequality.Semantic.DeepEqual(s.Overhead, c.Overhead.PodFixed) {
			return fmt.Errorf("spec.overhead: differs from that of the runtime class %s", clip(c.Name))
		}
		s.Overhead = maps.Clone(c.Overhead.PodFixed)
	}
	if c == nil || c.Scheduling == nil {
		return nil
	}
	merged := maps.Clone(c.Scheduling.NodeSelector)
	for key, value := range s.NodeSelector {
		if other, both := merged[key]; both && other != value {
			return fmt.Errorf("spec.nodeSelector: %s is %s in the pod and %s in the runtime class %s", clip(key), clip(value),
				clip(other), clip(c.Name))
		}
		if merged == nil {
			merged = map[string]string{}
		}
		merged[key] = value
	}
	s.NodeSelector = merged
	for _, t := range c.Scheduling.Tolerations {
		if !slices.ContainsFunc(s.Tolerations, func(x v1.Toleration) bool { return x.MatchToleration(&t) }) {
			s.Tolerations = append(s.Tolerations, t)
		}
	}
	return nil
}
