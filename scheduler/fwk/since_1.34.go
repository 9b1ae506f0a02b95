//go:build upto1.34

package fwk

import (
	"context"

	v1 "k8s.io/api/core/v1"
	upstream "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// Types of the framework of 1.34.
type (
	APICacher            = framework.APICacher
	ActionType           = upstream.ActionType
	BindPlugin           = framework.BindPlugin
	ClusterEvent         = upstream.ClusterEvent
	ClusterEventWithHint = upstream.ClusterEventWithHint
	Code                 = upstream.Code
	CycleState           = upstream.CycleState
	DeviceClassLister    = framework.DeviceClassLister
	EnqueueExtensions    = framework.EnqueueExtensions
	EventResource        = upstream.EventResource
	FilterPlugin         = framework.FilterPlugin
	Handle               = framework.Handle
	NodeInfo             = upstream.NodeInfo
	NodeScore            = framework.NodeScore
	NodeScoreList        = framework.NodeScoreList
	NodeToStatusReader   = framework.NodeToStatusReader
	NominatingInfo       = framework.NominatingInfo
	Plugin               = framework.Plugin
	PodInfo              = upstream.PodInfo
	PostBindPlugin       = framework.PostBindPlugin
	PostFilterPlugin     = framework.PostFilterPlugin
	PostFilterResult     = framework.PostFilterResult
	PreBindPlugin        = framework.PreBindPlugin
	PreEnqueuePlugin     = framework.PreEnqueuePlugin
	PreFilterExtensions  = framework.PreFilterExtensions
	PreFilterPlugin      = framework.PreFilterPlugin
	PreFilterResult      = framework.PreFilterResult
	PreScorePlugin       = framework.PreScorePlugin
	QueueingHint         = upstream.QueueingHint
	ReservePlugin        = framework.ReservePlugin
	ResourceClaimTracker = framework.ResourceClaimTracker
	ResourceSliceLister  = framework.ResourceSliceLister
	ScoreExtensions      = framework.ScoreExtensions
	ScorePlugin          = framework.ScorePlugin
	SharedDRAManager     = framework.SharedDRAManager
	StateData            = upstream.StateData
	StateKey             = upstream.StateKey
	Status               = upstream.Status
)

// Constants of the framework of 1.34.
const (
	Add                          = upstream.Add
	Delete                       = upstream.Delete
	Error                        = upstream.Error
	MaxNodeScore                 = framework.MaxNodeScore
	Node                         = upstream.Node
	Pod                          = upstream.Pod
	Queue                        = upstream.Queue
	QueueSkip                    = upstream.QueueSkip
	Skip                         = upstream.Skip
	Success                      = upstream.Success
	Unschedulable                = upstream.Unschedulable
	UnschedulableAndUnresolvable = upstream.UnschedulableAndUnresolvable
	Update                       = upstream.Update
	UpdateNodeLabel              = upstream.UpdateNodeLabel
)

// Functions of the framework of 1.34.
var (
	AsStatus    = upstream.AsStatus
	ErrNotFound = upstream.ErrNotFound
	NewStatus   = upstream.NewStatus
)

// SignPlugin and SignFragment exist in the framework from 1.35 on. kube-scheduler 1.34 signs no pods, and uses
// neither.
type (
	SignPlugin interface {
		Plugin
		SignPod(ctx context.Context, pod *v1.Pod) ([]SignFragment, *Status)
	}
	SignFragment struct {
		Key   string
		Value any
	}
)

// ProfileName returns the name of the profile whose plugin has the handle, or "" if the handle does not have it.
func ProfileName(h Handle) string {
	if f, ok := h.(interface{ ProfileName() string }); ok {
		return f.ProfileName()
	}
	return ""
}
