package state

// WaitReason is what a reserved pod waits for.
type WaitReason string

// The reasons for a wait.
const (
	WaitTurn    WaitReason = "turn"    // an earlier pod waits for its own turn
	WaitOrder   WaitReason = "order"   // what the pod gets depends on whether the node admits an earlier pod first
	WaitDevices WaitReason = "devices" // an earlier pod gets one of several devices, and the node has not reported which
	WaitReport  WaitReason = "report"  // the node's next report shows whether the pod still fits
	WaitCrowd   WaitReason = "crowd"   // more pods are assumed on the node than are followed
)

// WaitReasons returns all reasons, in ascending order.
func WaitReasons() []WaitReason {
	return []WaitReason{WaitCrowd, WaitDevices, WaitOrder, WaitReport, WaitTurn}
}
