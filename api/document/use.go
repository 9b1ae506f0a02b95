package document

import (
	"time"

	"github.com/tenon-numa/tenon/api/v1alpha1"
)

// NodeUse is what a node uses, with a time line of the last minutes.
type NodeUse struct {
	Kind string `json:"kind"` // "NodeUse"
	Node string `json:"node"`
	// Source is "agent" or "prometheus".
	Source string `json:"source"`
	// Problem is why there are no samples, or no newer ones.
	Problem string `json:"problem,omitempty"`
	// Seconds is the least time between two samples. Samples come that often only while a client asks that often.
	Seconds int `json:"seconds"`
	// Samples are in ascending order of time, at most 120.
	Samples []UseSample `json:"samples"`
}

// UseSample is what a node used at one time. Unknown values are absent.
type UseSample struct {
	Time time.Time `json:"time"`
	// NUMAs are in ascending order of id.
	NUMAs []NUMAUse `json:"numas"`
	// Containers are those that you may read. All samples but the last one have only the containers of the requested
	// pod.
	Containers []ContainerUse `json:"containers"`
}

// NUMAUse is the use of one NUMA node by all processes.
type NUMAUse struct {
	ID int32 `json:"id"`
	// CPUs is how many CPUs were busy since the previous sample.
	CPUs *float64 `json:"cpus,omitempty"`
	// Memory counts the bytes that the kernel cannot drop, and MemoryFree the unused bytes. The rest of the NUMA node's
	// memory is caches.
	Memory     *int64 `json:"memory,omitempty"`
	MemoryFree *int64 `json:"memoryFree,omitempty"`
}

// ContainerUse is what one container uses.
type ContainerUse struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Container string `json:"container"`
	// CPUs is how many CPUs it kept busy since the previous sample, on the NUMA nodes of the CPUs that it may use.
	CPUs  *float64        `json:"cpus,omitempty"`
	NUMAs v1alpha1.IDList `json:"numas,omitempty"`
	// Memory is the memory that it is charged with, without hugepages, in ascending order of NUMA node.
	Memory []BytesOnNUMA `json:"memory"`
	// Remote is the share, 0 to 1, of its anon and file memory on other NUMA nodes than its CPUs.
	Remote *float64 `json:"remote,omitempty"`
}

// BytesOnNUMA is memory on one NUMA node.
type BytesOnNUMA struct {
	NUMA  int32 `json:"numa"`
	Bytes int64 `json:"bytes"`
}
