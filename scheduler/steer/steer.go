// Package steer makes kube-scheduler's own plugin for claims (DynamicResources) choose devices beside the CPUs and the
// memory that the kubelet will give to the pod.
//
// The kubelet gives dynamic resource allocation no hints, so only a scheduler can bring both together. The package
// wraps the plugin of the release that it is built for. For each node it runs the plugin as if the devices on other
// NUMA nodes were allocated, and keeps what the plugin allocates then.
//
// Invariant: every allocation is one that kube-scheduler's plugin has computed from the pod's claims, and that these
// claims allow. The package removes devices from the choice, reorders them, and lets requests that the pod demands near
// match fewer devices (demand.go). It widens no request, and changes no taint or capacity, and no counter of a device
// that can be chosen. A device without a known NUMA node neither helps nor hinders. Where nothing is known about
// devices, or about the pod's CPUs and memory, the wrapped plugin decides alone.
package steer

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"
	schedapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/tenon-numa/tenon/api/config"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// Name is the name of the plugin in profiles. A profile that enables it has to disable DynamicResources.
const Name = config.TenonClaims

// Near is where a pod's exclusive CPUs and pinned memory are on a node.
type Near struct {
	// NUMAs are the kernel's ids of the NUMA nodes; empty if the pod holds neither.
	NUMAs []int
	// Must is true if devices may be on no other NUMA node.
	Must bool
	// Unknown is true if nothing can be said about the pod on this node, or if the profile ignores where devices are.
	Unknown bool
	// Elsewhere, if not nil, returns where else the pod can be on the node, because its scheduler decides it: sets of
	// NUMA nodes, the best ones first. The plugin that reserves CPUs has to ask [Chosen] then.
	Elsewhere func() [][]int
}

// Places knows where the pods of a profile are and will be.
type Places interface {
	// Predicted returns where a pod would be on a node in its scheduling cycle.
	Predicted(cs fwk.CycleState, node string) Near
	// Reserved returns where a pod will be on the node that was reserved for it.
	Reserved(cs fwk.CycleState, node string) Near
	// Allocated is called after Reserved, once the pod's devices are allocated. If near is true, the pod must stay where
	// Reserved put it, since its devices are there. Otherwise it must be tried again, because other pods changed where it
	// will be.
	Allocated(pod *v1.Pod, node string, at Near, near bool)
}

// Plugin is DynamicResources with a choice of devices by NUMA node. What it does not define itself is what the wrapped
// plugin does.
type Plugin struct {
	*dynamicresources.DynamicResources
	places Places
	// promises may be nil; see Heed.
	promises Promises
	dra      *recorder
	trial    *trial
	index    index
	// limit is how long all attempts to find near devices on a node may take together; 0 if there is no limit.
	limit time.Duration
}

var (
	_ fwk.PreFilterPlugin   = (*Plugin)(nil)
	_ fwk.FilterPlugin      = (*Plugin)(nil)
	_ fwk.ReservePlugin     = (*Plugin)(nil)
	_ fwk.EnqueueExtensions = (*Plugin)(nil)
)

// New makes the plugin of a profile. args are arguments of DynamicResources, or nil for its defaults; functions may be
// nil. New returns an error if the arguments are invalid.
func New(
	ctx context.Context,
	args runtime.Object,
	h fwk.Handle,
	places Places,
	functions Functions,
) (*Plugin, error) {
	args, err := decode(args)
	if err != nil {
		return nil, err
	}
	p := &Plugin{places: places, index: index{functions: functions}, limit: limitOf(args)}
	if h.SharedDRAManager() == nil { // dynamic resource allocation is off
		p.DynamicResources, err = wrapped(ctx, args, h)
		return p, err
	}
	p.dra = &recorder{SharedDRAManager: h.SharedDRAManager()}
	if p.DynamicResources, err = wrapped(ctx, args, handle{h, p.dra, fwk.ProfileName(h)}); err != nil {
		return nil, err
	}
	p.trial = &trial{slow: countsAmounts(), dra: &snapshot{SharedDRAManager: h.SharedDRAManager()}}
	p.trial.plugin, err = wrapped(ctx, args, handle{h, p.trial.dra, fwk.ProfileName(h) + "/" + Name})
	return p, err
}

// Name returns the plugin's name.
func (p *Plugin) Name() string { return Name }

// decode returns the arguments of DynamicResources in the type that it expects.
func decode(args runtime.Object) (runtime.Object, error) {
	raw := []byte("{}")
	switch a := args.(type) {
	case nil:
	case *runtime.Unknown:
		raw = a.Raw
	default:
		return args, nil
	}
	kind := schedulerv1.SchemeGroupVersion.WithKind("DynamicResourcesArgs")
	out, _, err := scheme.Codecs.UniversalDecoder().Decode(raw, &kind, nil)
	if err != nil {
		return nil, fmt.Errorf("decode arguments of %s, which are those of %s: %w", Name, names.DynamicResources, err)
	}
	return out, nil
}

// limitOf returns how long the wrapped plugin may take to allocate devices on a node.
func limitOf(args runtime.Object) time.Duration {
	if a, ok := args.(*schedapi.DynamicResourcesArgs); ok && a.FilterTimeout != nil {
		return a.FilterTimeout.Duration
	}
	return 0
}

// wrapped makes a plugin DynamicResources with a handle.
func wrapped(ctx context.Context, args runtime.Object, h fwk.Handle) (*dynamicresources.DynamicResources, error) {
	made, err := plugins.NewInTreeRegistry()[names.DynamicResources](ctx, args, h)
	if err != nil {
		return nil, fmt.Errorf("make plugin %s: %w", names.DynamicResources, err)
	}
	p, ok := made.(*dynamicresources.DynamicResources)
	if !ok {
		return nil, fmt.Errorf("make plugin %s: unexpected type %T", names.DynamicResources, made)
	}
	return p, nil
}

// handle gives a wrapped plugin another manager of claims. profile is the part of the names of the plugin's indexes
// that differs between the plugins of a scheduler.
type handle struct {
	fwk.Handle
	dra     fwk.SharedDRAManager
	profile string
}

func (h handle) SharedDRAManager() fwk.SharedDRAManager { return h.dra }
func (h handle) ProfileName() string                    { return h.profile }
