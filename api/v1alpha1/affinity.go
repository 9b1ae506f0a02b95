package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The annotation of pods that share CPUs. The annotation of their group is in api/pod.
const (
	// AffinityAnnotation selects whether the pod's traffic is measured and may move it: AffinityMeasure or AffinityNone.
	// It takes precedence over the agent's setting for the pod's namespace.
	AffinityAnnotation = "tenon.sh/numa-affinity"
	AffinityMeasure    = "measure"
	AffinityNone       = "none"
)

// Bounds on one NodeAffinity. It keeps the pairs of pods with the heaviest traffic.
const (
	MaxAffinityPods    = 1024
	MaxAffinityTraffic = 512
)

// NodeAffinity has what a node's agent has measured between the pods of the node that share CPUs, and on which NUMA
// nodes it has put them. It is cluster scoped and has the name of its Node. There is none where no pod opted in.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=nodeaffinities,shortName=na,categories=tenon
// +kubebuilder:printcolumn:name="Pods",type=integer,JSONPath=`.summary.pods`
// +kubebuilder:printcolumn:name="Placed",type=integer,JSONPath=`.summary.placed`
// +kubebuilder:printcolumn:name="Local B/s",type=integer,JSONPath=`.summary.localBytesPerSecond`
// +kubebuilder:printcolumn:name="Remote B/s",type=integer,JSONPath=`.summary.remoteBytesPerSecond`
// +kubebuilder:printcolumn:name="Measured",type=date,JSONPath=`.measured`
type NodeAffinity struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// measured is the end of the sampling period that the object is about. An agent writes the object when something is
	// decided, and otherwise every few minutes.
	// +optional
	Measured metav1.Time `json:"measured,omitzero"`
	// periodSeconds is how long that period was.
	// +kubebuilder:validation:Minimum=0
	// +optional
	PeriodSeconds int64 `json:"periodSeconds,omitempty"`
	// sockets is how many TCP sockets were read.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Sockets int64 `json:"sockets,omitempty"`
	// incomplete is true if there are more sockets than an agent reads.
	// +optional
	Incomplete bool `json:"incomplete,omitempty"`
	// summary has totals, for people.
	// +optional
	Summary AffinitySummary `json:"summary,omitzero"`
	// lastMove is the last period in which pods were moved.
	// +optional
	LastMove *AffinityMove `json:"lastMove,omitempty"`
	// pods are the pods that opted in, and those with exclusive CPUs with which they exchange data, by namespace and name.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	// +optional
	Pods []AffinityPod `json:"pods,omitempty"`
	// traffic is what pairs of pods exchange, heaviest first.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	// +optional
	Traffic []AffinityTraffic `json:"traffic,omitempty"`
}

// NodeAffinityList is a list of affinities.
//
// +kubebuilder:object:root=true
type NodeAffinityList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeAffinity `json:"items"`
}

// AffinitySummary has totals of a NodeAffinity.
type AffinitySummary struct {
	// pods is how many pods opted in, and placed how many of them have a NUMA node.
	Pods   int64 `json:"pods"`
	Placed int64 `json:"placed"`
	// localBytesPerSecond is what pods exchange within NUMA nodes, and remoteBytesPerSecond between them or with pods
	// that run on several.
	LocalBytesPerSecond  int64 `json:"localBytesPerSecond"`
	RemoteBytesPerSecond int64 `json:"remoteBytesPerSecond"`
}

// AffinityMove is a period in which pods were moved.
type AffinityMove struct {
	Time metav1.Time `json:"time"`
	// pods is how many were moved.
	Pods int64 `json:"pods"`
	// remoteBefore and remoteAfter are the bytes per second between NUMA nodes, by the traffic of that period.
	RemoteBefore int64 `json:"remoteBefore"`
	RemoteAfter  int64 `json:"remoteAfter"`
}

// AffinityPod is one pod.
type AffinityPod struct {
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// uid is that of the runtime, which for a static pod is not that of its mirror.
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid"`
	// group is the group that the pod demands.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Group string `json:"group,omitempty"`
	// outcome says why the pod is where it is.
	// +kubebuilder:validation:MaxLength=64
	Outcome string `json:"outcome"`
	// numa is the NUMA node that the pod runs on; none if it runs on several.
	// +optional
	NUMA *int64 `json:"numa,omitempty"`
	// wanted is the NUMA node where the pod is to go, and periods since how many periods.
	// +optional
	Wanted *int64 `json:"wanted,omitempty"`
	// +optional
	Periods int64 `json:"periods,omitempty"`
	// lacks is what the wanted NUMA node has too little of.
	// +optional
	Lacks *AffinityLack `json:"lacks,omitempty"`
	// bytesPerSecond is what the pod exchanges with pods of the node, and remoteBytesPerSecond how much of it is between
	// NUMA nodes.
	// +optional
	BytesPerSecond int64 `json:"bytesPerSecond,omitempty"`
	// +optional
	RemoteBytesPerSecond int64 `json:"remoteBytesPerSecond,omitempty"`
}

// AffinityLack is what a NUMA node has too little of for a pod and its group.
type AffinityLack struct {
	// resource is cpu, in thousandths of a CPU, or memory, in bytes.
	// +kubebuilder:validation:MaxLength=32
	Resource string `json:"resource"`
	Want     int64  `json:"want"`
	Have     int64  `json:"have"`
}

// AffinityTraffic is what two pods exchange, in both directions together. Each is "namespace/name".
type AffinityTraffic struct {
	// +kubebuilder:validation:MaxLength=317
	A string `json:"a"`
	// +kubebuilder:validation:MaxLength=317
	B string `json:"b"`
	// +kubebuilder:validation:Minimum=0
	BytesPerSecond int64 `json:"bytesPerSecond"`
	// remote is true if they run on different NUMA nodes, or on several.
	// +optional
	Remote bool `json:"remote,omitempty"`
}

// AffinityKind is the kind of the object.
const AffinityKind = "NodeAffinity"

// NodeAffinityResource returns the resource of the objects at the API server.
func NodeAffinityResource() schema.GroupVersionResource {
	return GroupVersion().WithResource("nodeaffinities")
}
