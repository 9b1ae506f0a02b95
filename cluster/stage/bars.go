package stage

import (
	"encoding/json"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	corev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/tenon-numa/tenon/core/score"
	"github.com/tenon-numa/tenon/core/whatif"
)

// This file says where a pod may not go for reasons that are neither amounts nor numas, as kube-scheduler's
// plugins NodeName, NodeUnschedulable, TaintToleration and NodeAffinity do.

// wishes is all of a pod that decides where it is barred.
type wishes struct {
	Node        string
	Selector    map[string]string
	Affinity    *v1.NodeSelector
	Tolerations []v1.Toleration
}

// barred returns where a pod may not go; pods with the same wishes share what is returned.
func (s *Stage) barred(p *v1.Pod) (*whatif.Bars, error) {
	if s.objects == nil {
		return nil, nil
	}
	w := wishes{Node: p.Spec.NodeName, Selector: p.Spec.NodeSelector, Tolerations: p.Spec.Tolerations}
	if a := p.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		w.Affinity = a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	text, err := json.Marshal(w)
	if err != nil {
		return nil, fmt.Errorf("read where the pod may go: %w", err)
	}
	if b := s.bars[string(text)]; b != nil {
		return b, nil
	}
	b := &whatif.Bars{Why: make([]string, len(s.objects))}
	affinity := nodeaffinity.GetRequiredNodeAffinity(p)
	for i, n := range s.objects {
		if b.Why[i], err = bar(n, p, affinity); err != nil {
			return nil, err
		}
	}
	s.bars[string(text)] = b
	return b, nil
}

func bar(n *v1.Node, p *v1.Pod, affinity nodeaffinity.RequiredNodeAffinity) (string, error) {
	if p.Spec.NodeName != "" && p.Spec.NodeName != n.Name {
		return "pod names another node", nil
	}
	cordon := v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}
	if n.Spec.Unschedulable && !tolerated(p, cordon) {
		return "node is cordoned", nil
	}
	for _, t := range n.Spec.Taints {
		if t.Effect != v1.TaintEffectPreferNoSchedule && !tolerated(p, t) {
			return "pod does not tolerate the taint " + t.ToString(), nil
		}
	}
	ok, err := affinity.Match(n)
	if err != nil {
		return "", fmt.Errorf("node affinity: %w", err)
	}
	if !ok {
		return "node does not match the pod's node selector or affinity", nil
	}
	return "", nil
}

// tolerated leaves out the operators Lt and Gt, which are behind a gate that is off by default in 1.36.
func tolerated(p *v1.Pod, t v1.Taint) bool {
	return corev1.TolerationsTolerateTaint(klog.Logger{}, p.Spec.Tolerations, &t, false)
}

// unjudged names what a pod asks of its node and nobody here looks at.
func (s *Stage) unjudged(p *v1.PodSpec) (out []string) {
	for _, x := range []struct {
		asked bool
		name  string
	}{
		{s.objects == nil && (len(p.NodeSelector) > 0 || p.Affinity != nil && p.Affinity.NodeAffinity != nil),
			"node selector and affinity (the nodes have no labels here)"},
		{p.Affinity != nil && p.Affinity.PodAffinity != nil, "pod affinity"},
		{p.Affinity != nil && p.Affinity.PodAntiAffinity != nil, "pod anti-affinity"},
		{len(p.TopologySpreadConstraints) > 0, "topology spread constraints"},
		{ports(p), "host ports"},
		{volumes(p), "volumes"},
		{len(p.ResourceClaims) > 0, "resource claims"},
		{len(p.SchedulingGates) > 0, "scheduling gates"},
	} {
		if x.asked {
			out = append(out, x.name)
		}
	}
	return out
}

func ports(p *v1.PodSpec) bool {
	for i := range p.Containers {
		for _, port := range p.Containers[i].Ports {
			if port.HostPort != 0 || p.HostNetwork {
				return true
			}
		}
	}
	return false
}

// volumes reports whether a pod has volumes that may tie it to some nodes.
func volumes(p *v1.PodSpec) bool {
	for i := range p.Volumes {
		v := &p.Volumes[i].VolumeSource
		if v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			return true
		}
	}
	return false
}

// strategyAnnotation is by what a pod says how nodes are scored for it (docs/design/scoring.md).
const strategyAnnotation = "tenon.sh/scoring-strategy"

func scoringType(p *v1.Pod) (*score.Type, error) {
	value, ok := p.Annotations[strategyAnnotation]
	if !ok {
		return nil, nil
	}
	t, ok := score.ParseType(value)
	if !ok {
		return nil, fmt.Errorf("annotation %s: unknown value %.60q: want one of %s", strategyAnnotation, value,
			strings.Join(score.Names(), ", "))
	}
	return &t, nil
}
