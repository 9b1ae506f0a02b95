// Package kubelet runs real kubelets on described machines, in this process. It needs only a directory that it may
// write. All of the kubelet is Kubernetes' own code, except the parts that touch hardware: cadvisor, cgroups and the
// container runtime. The description of the machine replaces these.
//
// [Start] runs a whole kubelet against an API server. [NewManagers] makes only the topology, device, CPU and memory
// managers, composed as in the kubelet, to find out what they would do.
//
// Invariant: no decision about a pod is made here. Policies, hints, allocations, state files and admission errors all
// come from the managers of k8s.io/kubernetes. The package refuses configurations that the kubelet's own validation
// refuses. A kubelet cannot be stopped inside a process: end the process.
package kubelet
