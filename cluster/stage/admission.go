package stage

import (
	"context"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"

	"github.com/tenon-numa/tenon/cluster/manifest"
)

// Trial asks the API server to create a pod, without storing it. It returns the pod in the form that the API server
// would store, why it is refused, or why the API server was not asked.
type Trial interface {
	Create(ctx context.Context, p *v1.Pod) (stored *v1.Pod, refused, unasked error)
}

// Asking returns a copy of the stage that asks an API server about the pods of files until ctx ends.
func (s *Stage) Asking(ctx context.Context, t Trial) *Stage {
	out := *s
	out.ask = func(p *v1.Pod) (*v1.Pod, error, error) { return t.Create(ctx, p) }
	return &out
}

// admit changes the pod of a file as the API server does when the pod is created. It asks the API server by a dry run
// or, if it cannot, applies the rules of the admission that are known here. It does not ask about a pod whose runtime
// class is in the file, because the API server does not have that class. own has the runtime classes of the file.
// asked is true if the API server has answered. unjudged names the parts of the admission that were not judged. err
// is why the pod is refused.
func (s *Stage) admit(t *manifest.Template, own map[string]*nodev1.RuntimeClass) (asked bool, unjudged []string,
	err error) {
	class := t.Pod.Spec.RuntimeClassName
	ownClass := class != nil && own[*class] != nil
	if s.ask == nil || t.Written == nil || ownClass {
		unjudged, err = s.admitByRules(t, own)
		return false, unjudged, err
	}
	stored, refused, unasked := s.ask(written(t))
	switch {
	case refused != nil:
		return true, nil, fmt.Errorf("the API server refuses the pod (asked by a dry run): %w", refused)
	case unasked != nil:
		unjudged, err = s.admitByRules(t, own)
		return false, append(unjudged, "what the API server says of the pod (not asked: "+unasked.Error()+")"), err
	}
	t.Pod = stored.DeepCopy()
	t.Pod.ObjectMeta.UID, t.Pod.Status = "", v1.PodStatus{}
	t.Pod.Namespace, t.Pod.Name = t.Namespace, t.Name
	return true, nil, nil
}

// written returns a template's pod as a request to create it. For a StatefulSet, the pod gets the claims of the first
// replica.
func written(t *manifest.Template) *v1.Pod {
	p := t.Written.DeepCopy()
	p.Namespace, p.Name, p.ResourceVersion = t.Namespace, t.Name, ""
	if t.Kind != "Pod" {
		p.GenerateName, p.Name = strings.TrimRight(t.Name, "-.")+"-", ""
	}
	for i := range p.Spec.Volumes {
		if c := p.Spec.Volumes[i].PersistentVolumeClaim; c != nil && t.Kind == "StatefulSet" {
			c.ClaimName = firstClaim(c.ClaimName)
		}
	}
	return p
}

// firstClaim replaces the "-N" at the end of a claim's name by "-0". Package manifest writes N for the number of a
// replica.
func firstClaim(name string) string {
	if base, ok := strings.CutSuffix(name, "-N"); ok {
		return base + "-0"
	}
	return name
}

// admitByRules changes the pod of a file as the API server's admission does, by the runtime classes of the file and
// of the cluster. It returns the parts of the admission that are not judged, and an error if the API server refuses
// the pod.
func (s *Stage) admitByRules(t *manifest.Template, own map[string]*nodev1.RuntimeClass) (unjudged []string, err error) {
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
	unjudged = append(unjudged, priorities(&t.Pod.Spec)...)
	switch {
	case s.admission == nil:
	case s.admission.Bounds == nil || !s.admission.Seen.Has(t.Namespace):
		unjudged = append(unjudged, "limit ranges and resource quotas (they cannot be read)")
	default:
		unjudged = append(unjudged, s.admission.Bounds[t.Namespace]...)
	}
	return unjudged, nil
}

// priorities names the checks of the API server's admission that need PriorityClasses, which this package does not
// read (plugin/pkg/admission/priority). The admission refuses a pod whose class the cluster lacks. It also refuses a
// pod whose priority or preemptionPolicy differs from the class that it names or, if it names none, from the
// cluster's default class.
func priorities(s *v1.PodSpec) (out []string) {
	const refuses = " (if not, the API server refuses the pod)"
	class := s.PriorityClassName
	if system := class == "system-cluster-critical" || class == "system-node-critical"; class != "" && !system {
		out = append(out, "whether the cluster has the priority class "+class)
	}
	if s.Priority != nil {
		out = append(out, "whether spec.priority is that of the pod's priority class"+refuses)
	}
	if p := s.PreemptionPolicy; p != nil && (*p != v1.PreemptLowerPriority || class != "") {
		out = append(out, "whether spec.preemptionPolicy is that of the pod's priority class"+refuses)
	}
	return out
}
