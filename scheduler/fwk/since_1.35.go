//go:build !upto1.34

package fwk

import (
	upstream "k8s.io/kube-scheduler/framework"
)

// Types of the framework from 1.35 on.
type (
	APICacher            = upstream.APICacher
	ActionType           = upstream.ActionType
	BindPlugin           = upstream.BindPlugin
	ClusterEvent         = upstream.ClusterEvent
	ClusterEventWithHint = upstream.ClusterEventWithHint
	Code                 = upstream.Code
	CycleState           = upstream.CycleState
	DeviceClassLister    = upstream.DeviceClassLister
	EnqueueExtensions    = upstream.EnqueueExtensions
	EventResource        = upstream.EventResource
	FilterPlugin         = upstream.FilterPlugin
	Handle               = upstream.Handle
	NodeInfo             = upstream.NodeInfo
	NodeScore            = upstream.NodeScore
	NodeScoreList        = upstream.NodeScoreList
	NodeToStatusReader   = upstream.NodeToStatusReader
	NominatingInfo       = upstream.NominatingInfo
	Plugin               = upstream.Plugin
	PodInfo              = upstream.PodInfo
	PostBindPlugin       = upstream.PostBindPlugin
	PostFilterPlugin     = upstream.PostFilterPlugin
	PostFilterResult     = upstream.PostFilterResult
	PreBindPlugin        = upstream.PreBindPlugin
	PreEnqueuePlugin     = upstream.PreEnqueuePlugin
	PreFilterExtensions  = upstream.PreFilterExtensions
	PreFilterPlugin      = upstream.PreFilterPlugin
	PreFilterResult      = upstream.PreFilterResult
	PreScorePlugin       = upstream.PreScorePlugin
	QueueingHint         = upstream.QueueingHint
	ReservePlugin        = upstream.ReservePlugin
	ResourceClaimTracker = upstream.ResourceClaimTracker
	ResourceSliceLister  = upstream.ResourceSliceLister
	ScoreExtensions      = upstream.ScoreExtensions
	ScorePlugin          = upstream.ScorePlugin
	SharedDRAManager     = upstream.SharedDRAManager
	SignFragment         = upstream.SignFragment
	SignPlugin           = upstream.SignPlugin
	StateData            = upstream.StateData
	StateKey             = upstream.StateKey
	Status               = upstream.Status
)

// Constants of the framework from 1.35 on.
const (
	Add                          = upstream.Add
	Delete                       = upstream.Delete
	Error                        = upstream.Error
	MaxNodeScore                 = upstream.MaxNodeScore
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

// Functions of the framework from 1.35 on.
var (
	AsStatus    = upstream.AsStatus
	ErrNotFound = upstream.ErrNotFound
	NewStatus   = upstream.NewStatus
)

// ProfileName returns the name of the profile whose plugin has the handle.
func ProfileName(h Handle) string { return h.ProfileName() }
