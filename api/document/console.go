package document

import (
	"time"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file has the types of answers that only the console's API gives.

// ClusterOverview has every node of a cluster in numbers.
type ClusterOverview struct {
	Kind string `json:"kind"` // "ClusterOverview"
	// Version changes with every change of the view.
	Version uint64 `json:"version"`
	// Ready is set once all resources were listed or refused.
	Ready bool           `json:"ready"`
	Nodes []NodeOverview `json:"nodes"`
	// Pods counts the pods that you may read, and Waiting the readable pods without a node.
	Pods    int `json:"pods"`
	Waiting int `json:"waiting"`
	// Namespaces are those whose pods you may read. It is absent if you may read the pods of all, or of none; then
	// Limits has the pods.
	Namespaces []string `json:"namespaces,omitempty"`
	// Limits are the resources that you may not read, or that are not served.
	Limits []Limit `json:"limits"`
}

// Limit is a resource that the answers lack as a whole or in part, and why.
type Limit struct {
	Resource string `json:"resource"`
	Reason   string `json:"reason"`
}

// NodeOverview is one node in numbers.
type NodeOverview struct {
	Name    string `json:"name"`
	Quality string `json:"quality"` // exact, coarse or none
	// Problem is why there is no data about the node's NUMA nodes.
	Problem string `json:"problem,omitempty"`
	// Policy is the policy of the topology manager.
	Policy string `json:"policy,omitempty"`
	// Flags are notReady, cordoned, unsettled, crowded, silent, inexact and unaligned.
	Flags []string `json:"flags,omitempty"`
	// Labels are the node's labels that the request named.
	Labels map[string]string `json:"labels,omitempty"`
	Pods   int               `json:"pods"` // the pods that hold something
	// Misaligned counts the pods that hold parts of more NUMA nodes, or of more distant ones, than they would on the
	// empty machine. Pods that you may not read are not counted.
	Misaligned int            `json:"misaligned,omitempty"`
	NUMAs      []NUMAOverview `json:"numas"`
}

// NUMAOverview is one NUMA node in numbers: all its CPUs, the memory that pods may have, in bytes, and how much of both
// is free.
type NUMAOverview struct {
	ID   int32 `json:"id"`
	CPUs int   `json:"cpus"`
	// ReservedCPUs counts the CPUs that are kept for the system: no pod has them for itself.
	ReservedCPUs int             `json:"reservedCPUs,omitempty"`
	FreeCPUs     int             `json:"freeCPUs"`
	Memory       int64           `json:"memory"`
	FreeMemory   int64           `json:"freeMemory"`
	Devices      []DevicesOnNUMA `json:"devices,omitempty"`
}

// DevicesOnNUMA counts the devices of one resource that are near a NUMA node.
type DevicesOnNUMA struct {
	Resource string `json:"resource"`
	Count    int    `json:"count"`
	Free     int    `json:"free"`
}

// NodeOverviewOf returns what the ledger knows of a node, in numbers. A nil node has no usable report. The caller
// adds Problem, Labels, and the flags notReady and cordoned.
func NodeOverviewOf(name string, n *state.Node) NodeOverview {
	out := NodeOverview{Name: name, Quality: None, NUMAs: []NUMAOverview{}}
	if n == nil || n.Machine == nil || n.Usage == nil {
		return out
	}
	out.Quality, out.Pods, out.Policy = n.Quality.String(), len(n.Entries), n.Rules.Topology.Policy.String()
	for _, f := range []struct {
		name string
		set  bool
	}{{"unsettled", n.Unsettled}, {"crowded", n.Crowded}, {"silent", n.Silent}, {"inexact", len(n.Inexact) > 0},
		{"unaligned", len(Forgotten(n)) > 0}} {
		if f.set {
			out.Flags = append(out.Flags, f.name)
		}
	}
	u, free := n.Usage, n.Usage.FreeCPUs()
	for i, x := range n.Machine.NUMAs() {
		on := NUMAOverview{ID: int32(x.ID), CPUs: x.CPUs.Len(), FreeCPUs: x.CPUs.AndLen(free),
			ReservedCPUs: x.CPUs.AndLen(n.Rules.CPU.Reserved),
			Memory:       u.Allocatable(i, topo.Memory), FreeMemory: u.FreeMemory(i, topo.Memory)}
		for at, r := range n.Machine.Resources() {
			count := 0
			for k := range r.Devices {
				if r.Devices[k].NUMAs.Has(i) {
					count++
				}
			}
			if count > 0 {
				near := int(u.FreeDevicesOn(at, 1<<uint(i)))
				on.Devices = append(on.Devices, DevicesOnNUMA{r.Name, count, near})
			}
		}
		out.NUMAs = append(out.NUMAs, on)
	}
	return out
}

// PodList is an overview of pods.
type PodList struct {
	Kind    string       `json:"kind"` // "PodList"
	Version uint64       `json:"version"`
	Pods    []PodSummary `json:"pods"`
	// Groups are the PodGroups of these pods, in the order of their first pods.
	Groups []PodGroupSummary `json:"groups,omitempty"`
	// Total counts the pods that the filters select. Continue is set if the answer does not have all of them: it is the
	// parameter "continue" of the next request.
	Total    int    `json:"total"`
	Continue string `json:"continue,omitempty"`
	// Limits are as in ClusterOverview.
	Limits []Limit `json:"limits"`
}

// PodGroupSummary is a group of pods at a glance.
type PodGroupSummary struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Pods counts the pods that name the group and have not ended, and Placed those with a node.
	Pods   int `json:"pods"`
	Placed int `json:"placed"`
}

// PodSummary is one pod in an overview.
type PodSummary struct {
	Pod
	Phase     string    `json:"phase"`
	Reason    string    `json:"reason,omitempty"`
	Node      string    `json:"node,omitempty"` // absent while it waits for a node
	Scheduler string    `json:"scheduler"`
	Created   time.Time `json:"created"`
	// Group is the name of its PodGroup, in its namespace.
	Group string `json:"group,omitempty"`
	// NUMAs are the NUMA nodes on which the pod holds something, and Source is how that is known.
	NUMAs  v1alpha1.IDList `json:"numas,omitempty"`
	Source string          `json:"source,omitempty"`
}

// ClusterChange has what has changed in a cluster since the previous change.
type ClusterChange struct {
	Version uint64 `json:"version"`
	// All is set if more has changed than is named. The client must then read everything again.
	All bool `json:"all,omitempty"`
	// Nodes are as in ClusterOverview, without labels; Gone are the names of nodes that the view no longer has.
	Nodes []NodeOverview `json:"nodes,omitempty"`
	Gone  []string       `json:"gone,omitempty"`
	// Pods are names of pods that were added, changed or deleted, as "namespace/name".
	Pods []string `json:"pods,omitempty"`
	// PodCount counts the pods that you may read, and Waiting the readable pods without a node.
	PodCount int `json:"podCount"`
	Waiting  int `json:"waiting"`
}

// ErrorDetails is an error of the API in the form of RFC 9457 (application/problem+json).
type ErrorDetails struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	// Field is the wrong parameter, header or part of the body.
	Field string `json:"field,omitempty"`
}

// SessionDetails describe the signed-in identity.
type SessionDetails struct {
	Name string `json:"name"` // of the user or of the kubeconfig's context
	// Version is the program's version.
	Version string `json:"version"`
}
