package conformance

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/lab/conformance/judge"
)

// GangLabel is the label of a gang's pods. Its value is the name of the gang in its case.
const GangLabel = "conformance.tenon.sh/gang"

// checkGangs checks the gangs of a case.
func (c *Case) checkGangs() error {
	members := map[string]int{}
	for i, s := range c.Steps {
		for _, set := range slices.Concat(s.Create, s.Burst) {
			if set.Gang == "" {
				continue
			}
			if _, ok := c.Gangs[set.Gang]; !ok || set.Node != "" {
				return fmt.Errorf("step %d: pod %s: there is no gang %q for it", i+1, set.Name, set.Gang)
			}
			members[set.Gang] += max(set.Count, 1)
		}
	}
	for name, need := range c.Gangs {
		switch {
		case !nodeName.MatchString(name):
			return fmt.Errorf("gang %q: want a DNS label of at most 8 bytes", name)
		case need < 1 || need > members[name] || members[name] > judge.MaxGang:
			return fmt.Errorf("gang %s: needs %d of %d pods, want at least 1, and at most %d pods", name, need, members[name],
				judge.MaxGang)
		}
	}
	return nil
}

// gangs returns the gangs for a scene.
func (p *play) gangs(c *Case) (out []judge.Gang) {
	for _, name := range slices.Sorted(maps.Keys(c.Gangs)) {
		out = append(out, judge.Gang{Name: name, Need: c.Gangs[name], Begun: p.begun[name]})
	}
	return out
}

// recordGangs records the gangs that have begun: as many pods run as each needs.
func (p *play) recordGangs(c *Case) {
	running := map[string]int{}
	for _, rec := range p.pods {
		if rec.last.Status.Phase == v1.PodRunning && !rec.ended {
			running[rec.last.Labels[GangLabel]]++
		}
	}
	for name, need := range c.Gangs {
		p.begun[name] = p.begun[name] || running[name] >= need
	}
}
