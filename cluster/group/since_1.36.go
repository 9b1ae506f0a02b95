//go:build !upto1.35

package group

import v1 "k8s.io/api/core/v1"

// Of returns the name of the PodGroup to which a pod belongs, in the namespace of the pod; "" if there is none.
func Of(p *v1.PodSpec) string {
	if g := p.SchedulingGroup; g != nil && g.PodGroupName != nil {
		return *g.PodGroupName
	}
	return ""
}

// Keep sets the PodGroup of a spec to that of another one.
func Keep(to, from *v1.PodSpec) { to.SchedulingGroup = from.SchedulingGroup }
