package stage

import (
	"fmt"

	nodev1 "k8s.io/api/node/v1"

	"github.com/tenon-numa/tenon/cluster/manifest"
)

// admit changes the pod of a file as the API server's admission does by runtime classes: those of the file, and those
// of
// the cluster. It returns what else of the admission is not judged, and an error if the API server refuses the pod.
func (s *Stage) admit(t *manifest.Template, own map[string]*nodev1.RuntimeClass) (unjudged []string, err error) {
	known := s.admission != nil && s.admission.Classes != nil
	name, class := "", (*nodev1.RuntimeClass)(nil)
	if n := t.Pod.Spec.RuntimeClassName; n != nil {
		name = *n
	}
	if class = own[name]; class == nil && known {
		class = s.admission.Classes[name]
	}
	switch {
	case name != "" && class == nil && known:
		return nil, fmt.Errorf("spec.runtimeClassName: the cluster has no runtime class %s, so the API server refuses the "+
			"pod: create the class, or add it to the file", name)
	case name != "" && class == nil:
		unjudged = append(unjudged, "runtime class "+name+" (its overhead, node selector and tolerations are not known here)")
	default:
		if err := manifest.WithClass(t.Pod, class); err != nil {
			return nil, err
		}
	}
	switch {
	case s.admission == nil:
	case s.admission.Bounds == nil:
		unjudged = append(unjudged, "limit ranges and resource quotas (they cannot be read)")
	default:
		unjudged = append(unjudged, s.admission.Bounds[t.Namespace]...)
	}
	return unjudged, nil
}
