package library_test

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
)

// probe is a plugin that accepts everything, and remembers which of its extension points ran.
type probe struct {
	mu  sync.Mutex
	ran map[string]bool
}

func (p *probe) note(point string) *fwk.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ran == nil {
		p.ran = map[string]bool{}
	}
	p.ran[point] = true
	return nil
}

// These implement the interfaces of the framework.
var (
	_ fwk.PreFilterPlugin     = (*probe)(nil)
	_ fwk.PreFilterExtensions = (*probe)(nil)
	_ fwk.FilterPlugin        = (*probe)(nil)
	_ fwk.PostFilterPlugin    = (*probe)(nil)
	_ fwk.ScorePlugin         = (*probe)(nil)
	_ fwk.PreScorePlugin      = (*probe)(nil)
	_ fwk.ReservePlugin       = (*probe)(nil)
	_ fwk.PermitPlugin        = (*probe)(nil)
	_ fwk.PreBindPlugin       = (*probe)(nil)
	_ fwk.PostBindPlugin      = (*probe)(nil)
)

// probeName is the name of the plugin in a profile.
const probeName = "Probe"

func (p *probe) make(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return p, nil }

// Name implements the framework's interface, as the other methods do.
func (*probe) Name() string { return probeName }

func (p *probe) PreFilter(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo) (*fwk.PreFilterResult,
	*fwk.Status) {
	return nil, p.note("PreFilter")
}

func (p *probe) PreFilterExtensions() fwk.PreFilterExtensions { return p }

func (p *probe) AddPod(context.Context, fwk.CycleState, *v1.Pod, fwk.PodInfo, fwk.NodeInfo) *fwk.Status {
	return p.note("AddPod")
}

func (p *probe) RemovePod(context.Context, fwk.CycleState, *v1.Pod, fwk.PodInfo, fwk.NodeInfo) *fwk.Status {
	return p.note("RemovePod")
}

func (p *probe) Filter(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeInfo) *fwk.Status {
	return p.note("Filter")
}

func (p *probe) PostFilter(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeToStatusReader) (*fwk.PostFilterResult,
	*fwk.Status) {
	p.note("PostFilter")
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

func (p *probe) PreScore(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo) *fwk.Status {
	return p.note("PreScore")
}

func (p *probe) Score(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeInfo) (int64, *fwk.Status) {
	return 0, p.note("Score")
}

func (*probe) ScoreExtensions() fwk.ScoreExtensions { return nil }

func (p *probe) Reserve(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status {
	return p.note("Reserve")
}

func (p *probe) Unreserve(context.Context, fwk.CycleState, *v1.Pod, string) { p.note("Unreserve") }

func (p *probe) Permit(context.Context, fwk.CycleState, *v1.Pod, string) (*fwk.Status, time.Duration) {
	return p.note("Permit"), 0
}

func (p *probe) PreBindPreFlight(context.Context, fwk.CycleState, *v1.Pod, string) (*fwk.PreBindPreFlightResult,
	*fwk.Status) {
	return nil, p.note("PreBindPreFlight")
}

func (p *probe) PreBind(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status {
	return p.note("PreBind")
}

func (p *probe) PostBind(context.Context, fwk.CycleState, *v1.Pod, string) { p.note("PostBind") }
