package sched

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/core/score"
)

// strategyAnnotation is by what a pod says how nodes are scored for it, instead of its profile.
const strategyAnnotation = "tenon.sh/scoring-strategy"

// maxQuoted keeps an event readable whatever a pod's annotation says.
const maxQuoted = 60

// scoringType reads the type of the strategy that a pod asks for; nil where it leaves that to its profile.
func scoringType(pod *v1.Pod) (*score.Type, error) {
	value, ok := pod.Annotations[strategyAnnotation]
	if !ok {
		return nil, nil
	}
	t, ok := score.ParseType(value)
	if !ok {
		if len(value) > maxQuoted {
			value = value[:maxQuoted] + "..."
		}
		return nil, fmt.Errorf("pod %s/%s: annotation %s: unknown value %q: want one of %s",
			pod.Namespace, pod.Name, strategyAnnotation, value, strings.Join(score.Names(), ", "))
	}
	return &t, nil
}

// scoring returns how nodes are scored for a pod. Weights are those of the profile, whatever the type.
func (p *Plugin) scoring(wish *score.Type) score.Strategy {
	s := p.strategy
	if wish != nil {
		s.Type = *wish
	}
	return s
}
