package document

import (
	"time"

	"github.com/tenon-numa/tenon/api/v1alpha1"
)

// KubeletPlan is what a change of the kubelets' configuration does, computed before it is made.
type KubeletPlan struct {
	Kind     string `json:"kind"` // "KubeletPlan"
	Selector string `json:"selector"`
	// Nodes are the nodes that change, in the order in which a rollout changes them.
	Nodes []KubeletPlanNode `json:"nodes"`
	// Unchanged are nodes that have the configuration already.
	Unchanged []string `json:"unchanged"`
	// Moves are the pods that their nodes would refuse when the pods start again.
	Moves []PlannedMove `json:"moves"`
	// Shapes counts how many pods fit, by the shapes that the cluster usually runs.
	Shapes []ShapeSlots `json:"shapes"`
	// Limits are the resources that the plan leaves out of account, and the reasons.
	Limits []Limit `json:"limits"`
}

// KubeletPlanNode is one node of a plan.
type KubeletPlanNode struct {
	Name    string         `json:"name"`
	Version string         `json:"version,omitempty"` // of the kubelet
	Before  v1alpha1.Rules `json:"before"`
	After   v1alpha1.Rules `json:"after"`
	// Diff are the lines that the KubeletConfiguration loses ("- ") and gets ("+ "). DropIn is a file for the kubelet's
	// --config-dir that makes the change.
	Diff   []string `json:"diff"`
	DropIn string   `json:"dropIn"`
	// Errors are the reasons why the kubelet would not start, or would run no pods, with this configuration.
	Errors []string `json:"errors"`
	// Warnings are what the kubelet does with this configuration that a person would not expect.
	Warnings []string `json:"warnings"`
	// StateFiles are files below the kubelet's directory that have to be removed while the kubelet is stopped.
	StateFiles []string `json:"stateFiles"`
	// Pods are the pods that run now, in the order of their admission, each with what the changed node would do with it.
	Pods []PlannedPod `json:"pods"`
	// Evicted counts the pods that a drain evicts. Waiting counts those among them that find no other place until the
	// node is back.
	Evicted int `json:"evicted"`
	Waiting int `json:"waiting"`
	// Blocked are PodDisruptionBudgets that allow no eviction now, as NAMESPACE/NAME.
	Blocked []string `json:"blocked"`
}

// PlannedPod is a pod that runs on a node that changes.
type PlannedPod struct {
	Pod
	// Starts is set if the node would admit the pod again. Otherwise Error is the kubelet's error.
	Starts  bool     `json:"starts"`
	Error   string   `json:"error,omitempty"`
	Reasons []Reason `json:"reasons"`
	// Before and After are the NUMA nodes on which the pod holds something, before and after the change.
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

// ShapeSlots counts the pods of a shape that would fit on the nodes that change if these were empty, before and after
// the change.
type ShapeSlots struct {
	Shape  string `json:"shape"`
	Before int    `json:"before"`
	After  int    `json:"after"`
}

// KubeletChange is the body of a request that plans a change of the kubelets' configuration. An empty field changes
// nothing.
type KubeletChange struct {
	// Selector is a label selector of the nodes. If it is empty, all nodes with a layout change.
	Selector string `json:"selector,omitempty"`
	// TopologyManagerPolicy, CPUManagerPolicy and MemoryManagerPolicy are as in a KubeletConfiguration.
	TopologyManagerPolicy string `json:"topologyManagerPolicy,omitempty"`
	CPUManagerPolicy      string `json:"cpuManagerPolicy,omitempty"`
	MemoryManagerPolicy   string `json:"memoryManagerPolicy,omitempty"`
	// Options are policy options of the topology or CPU manager as NAME[=VALUE], or scope=pod.
	Options []string `json:"options,omitempty"`
	// ReservedCPUs is a list of CPUs such as 0-1,64-65. ReservedMemory has amounts by NUMA node, such as
	// 0:memory=2Gi;1:memory=2Gi.
	ReservedCPUs   string `json:"reservedCPUs,omitempty"`
	ReservedMemory string `json:"reservedMemory,omitempty"`
}

// KubeletRolloutRequest is the body of a request that carries out a plan.
type KubeletRolloutRequest struct {
	// Plan is a plan from an earlier answer. Its pods, moves and shapes are not read.
	Plan KubeletPlan `json:"plan"`
	// Namespace is the namespace of the pods that change nodes. If it is empty, it is the namespace of the server.
	Namespace string `json:"namespace,omitempty"`
	// MaxUnavailable is how many nodes may change at the same time; 0 stands for 1.
	MaxUnavailable int `json:"maxUnavailable,omitempty"`
	// Force evicts pods without a controller, too, and DeleteEmptyDirData pods with emptyDir volumes.
	Force              bool `json:"force,omitempty"`
	DeleteEmptyDirData bool `json:"deleteEmptyDirData,omitempty"`
	// Image is the image of the pods that change nodes; StopCommand and StartCommand are shell commands on the node. An
	// empty field stands for the default of "kubectl tenon kubelet apply".
	Image        string `json:"image,omitempty"`
	StopCommand  string `json:"stopCommand,omitempty"`
	StartCommand string `json:"startCommand,omitempty"`
}

// KubeletRollout is a plan that is being carried out, or was.
type KubeletRollout struct {
	Kind string `json:"kind"` // "KubeletRollout"
	// Running is set while the plan is carried out. DryRun is set if it was only checked that the rollout can begin.
	Running bool `json:"running"`
	DryRun  bool `json:"dryRun"`
	// By is the identity that began the rollout. MayStop is set if you began it and it still runs.
	By      string `json:"by,omitempty"`
	MayStop bool   `json:"mayStop"`
	// Began is absent if the rollout did not begin, and Ended if it has not ended.
	Began *time.Time `json:"began,omitempty"`
	Ended *time.Time `json:"ended,omitempty"`
	// Nodes are the nodes that change, in order, as far as you may read them.
	Nodes []KubeletRolloutNode `json:"nodes"`
	// Namespace, Image, StopCommand and StartCommand are the request's values, or the defaults for missing ones.
	Namespace      string `json:"namespace,omitempty"`
	Image          string `json:"image,omitempty"`
	StopCommand    string `json:"stopCommand,omitempty"`
	StartCommand   string `json:"startCommand,omitempty"`
	MaxUnavailable int    `json:"maxUnavailable,omitempty"`
	// Error is why the rollout ended before all nodes were changed; absent if it did not.
	Error string `json:"error,omitempty"`
}

// KubeletRolloutNode is one node of a plan that is carried out.
type KubeletRolloutNode struct {
	Name string `json:"name"`
	// Step is what is done now: cordon, evict, change, verify, keep, uncordon or undo. It is empty before the node's turn;
	// afterwards it is done, or restored where the node has its old configuration.
	Step string `json:"step,omitempty"`
	// Why is the reason why the change of the node is undone.
	Why string `json:"why,omitempty"`
	// Since is when the step began.
	Since *time.Time `json:"since,omitempty"`
}

// KubeletStep is the next step of a node.
type KubeletStep struct {
	Node, Step, Why string
}
