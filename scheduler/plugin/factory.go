package plugin

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"

	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// New makes the plugin for a profile of any kube-scheduler:
//
//	app.NewSchedulerCommand(app.WithPlugin(plugin.Name, plugin.New))
//
// The first profile starts what all profiles of the scheduler share: informers of NodeLayouts, informers of
// NodeResourceTopologies if the API server serves them, and handlers of kube-scheduler's own pod informer. They end
// with ctx. The scheduler's account needs the access rules of deploy/scheduler. New returns an error if the API server
// does not serve NodeLayouts, or if the arguments ask for what only tenon-scheduler does.
//
// A profile enables the plugin by multiPoint. Package waiting retries refused pods, and DefaultPreemption preempts.
func New(ctx context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	return schedulers.of(ctx, h.SharedInformerFactory()).Factory(Name)(ctx, obj, h)
}

// schedulers has what the profiles of each scheduler in this process share. It is the only state of the package:
// kube-scheduler calls a plugin's factory once for each profile, and offers no other place for shared state.
var schedulers registry

// registry finds the shared state of a scheduler by its informer factory. All profiles of one scheduler have the same
// factory, and no two schedulers share one. The zero registry is empty.
type registry struct {
	mu  sync.Mutex
	all map[informers.SharedInformerFactory]*Shared
}

// of returns the shared state of a scheduler, which the first call makes. The registry drops it when ctx ends.
func (r *registry) of(ctx context.Context, f informers.SharedInformerFactory) *Shared {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.all[f]; s != nil {
		return s
	}
	if r.all == nil {
		r.all = map[informers.SharedInformerFactory]*Shared{}
	}
	s := NewShared(Logger(ctx), Options{})
	r.all[f] = s
	context.AfterFunc(ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.all, f)
	})
	return s
}
