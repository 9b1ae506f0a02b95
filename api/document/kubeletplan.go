package document

import "github.com/tenon-numa/tenon/api/v1alpha1"

// KubeletPlan is what a change of the kubelets' configuration does, computed before it is made.
type KubeletPlan struct {
	Kind     string `json:"kind"` // "KubeletPlan"
	Selector string `json:"selector"`
	// Nodes are those that change, in the order in which they are to be changed, one after the other.
	Nodes []KubeletPlanNode `json:"nodes"`
	// Unchanged are nodes that have the configuration already.
	Unchanged []string `json:"unchanged"`
	// Moves are the pods that their nodes would refuse when they start again.
	Moves []PlannedMove `json:"moves"`
	// Shapes are the pods that the cluster usually runs.
	Shapes []ShapeSlots `json:"shapes"`
	// Limits are what was not looked at.
	Limits []Limit `json:"limits"`
}

// KubeletPlanNode is one node of a plan.
type KubeletPlanNode struct {
	Name    string         `json:"name"`
	Version string         `json:"version,omitempty"` // of the kubelet
	Before  v1alpha1.Rules `json:"before"`
	After   v1alpha1.Rules `json:"after"`
	// Diff are lines of the KubeletConfiguration that go ("- ") and come ("+ "), and DropIn is a file for the
	// kubelet's --config-dir that makes the change.
	Diff   []string `json:"diff"`
	DropIn string   `json:"dropIn"`
	// Errors are why the kubelet would not start, or not serve pods, with this configuration.
	Errors []string `json:"errors"`
	// StateFiles have to be removed, below the kubelet's directory, while it is stopped.
	StateFiles []string `json:"stateFiles"`
	// Pods are those that run now, in the order in which the node admitted them, and what it would do with them.
	Pods []PlannedPod `json:"pods"`
	// Evicted are pods that a drain evicts; of these Waiting find no other place until the node is back.
	Evicted int `json:"evicted"`
	Waiting int `json:"waiting"`
	// Blocked are PodDisruptionBudgets that allow no eviction now, as NAMESPACE/NAME.
	Blocked []string `json:"blocked"`
}

// PlannedPod is a pod that runs on a node that changes.
type PlannedPod struct {
	Pod
	// Starts: the node would admit it again. Error is the kubelet's error otherwise.
	Starts  bool     `json:"starts"`
	Error   string   `json:"error,omitempty"`
	Reasons []Reason `json:"reasons"`
	// Before and After are the NUMA nodes that it is on.
	Before v1alpha1.IDList `json:"before,omitempty"`
	After  v1alpha1.IDList `json:"after,omitempty"`
}

// PlannedMove is a pod that has to go elsewhere.
type PlannedMove struct {
	Pod
	From string `json:"from"`
	// To is empty where no node has room, or where the pod belongs to its node (a DaemonSet, a static pod).
	To  string `json:"to,omitempty"`
	Why string `json:"why"`
}

// ShapeSlots is how many pods of a shape the nodes that change would have room for if they were empty.
type ShapeSlots struct {
	Shape  string `json:"shape"`
	Before int    `json:"before"`
	After  int    `json:"after"`
}
