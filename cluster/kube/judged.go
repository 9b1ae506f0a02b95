package kube

import v1 "k8s.io/api/core/v1"

// JudgedSpec returns a copy of a pod's spec with only what decides which nodes may take the pod, apart from its volumes
// and its group. Environments, commands and probes, which take most of the memory and may hold secrets, are left out.
func JudgedSpec(s *v1.PodSpec) v1.PodSpec {
	return v1.PodSpec{NodeName: s.NodeName, SchedulerName: s.SchedulerName, Priority: s.Priority,
		PriorityClassName: s.PriorityClassName, NodeSelector: s.NodeSelector, Affinity: s.Affinity,
		Tolerations: s.Tolerations, TopologySpreadConstraints: s.TopologySpreadConstraints, Overhead: s.Overhead,
		Resources: s.Resources, ResourceClaims: s.ResourceClaims, SchedulingGates: s.SchedulingGates,
		HostNetwork: s.HostNetwork, InitContainers: judgedContainers(s.InitContainers),
		Containers: judgedContainers(s.Containers)}
}

// judgedContainers keeps names, resources, host ports and whether an init container is a sidecar.
func judgedContainers(in []v1.Container) (out []v1.Container) {
	for i := range in {
		c := v1.Container{Name: in[i].Name, Resources: in[i].Resources, RestartPolicy: in[i].RestartPolicy}
		for _, p := range in[i].Ports {
			if p.HostPort > 0 {
				c.Ports = append(c.Ports, p)
			}
		}
		out = append(out, c)
	}
	return out
}
