// Package capacity answers ProvisioningRequests of the class check-capacity.tenon.sh: whether the pods of a request fit
// now, all of them together, not now, or never on these machines. Queues such as Kueue make such requests for the jobs
// that they hold back.
//
// Invariant: a request is answered with Provisioned only after [promise.Keeper] has kept a place for each of its pods,
// and the places are kept until the pods come, the booking expires or the request is deleted. What is kept is in the
// status of the request, so a scheduler that starts keeps the same. Requests are tried in the order of their creation;
// one that does not fit holds up no later one. The package refuses requests beyond its bounds with a reason, before it
// places their pods, and writes nothing but the status of requests of its class.
package capacity

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/provisioning"
	"github.com/tenon-numa/tenon/cluster/stage"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/whatif"
	"github.com/tenon-numa/tenon/scheduler/promise"
)

// Keeper keeps places. [promise.Keeper] implements it.
type Keeper interface {
	Open()
	Keep(request string, places []promise.Place) (full []string, err error)
	Restore(request string, places []promise.Place)
	Spend(uid, request, node string, pod *place.Pod, d place.Demand)
	Drop(request string)
	Left() map[string]int
	Places() map[string][]string
	Amounts(node, request string) whatif.Amounts
}

// Cluster is what the scheduler knows of the cluster.
type Cluster interface {
	// Stage returns nodes and pods as they are now.
	Stage() (*stage.Stage, error)
	// Using returns the bound pods that use up the room of a request.
	Using(request string) []*v1.Pod
	// Broken reports whether a node does not keep what it has promised, and no report of it may show otherwise soon.
	Broken(node string) bool
	// Rules returns the rules of the profile with this schedulerName; false if the scheduler has no such profile.
	Rules(scheduler string) (whatif.Rules, bool)
	// Template returns a PodTemplate.
	Template(ctx context.Context, namespace, name string) (*v1.PodTemplate, error)
}

// Requests reads and writes requests. [provisioning.Client] implements it.
type Requests interface {
	List(ctx context.Context, o metav1.ListOptions) (*provisioning.RequestList, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
	SetStatus(ctx context.Context, r *provisioning.Request) error
}

// Controller answers requests. Run must be called once.
type Controller struct {
	requests Requests
	cluster  Cluster
	keeper   Keeper
	leads    func() bool
	now      func() time.Time
	logger   klog.Logger

	store cache.Store
	ready func() bool
	kick  chan struct{}
	// restored is closed when what requests have been promised is kept.
	restored chan struct{}

	mu sync.Mutex // guards known; held during a round
	// known is what is known of requests, by name.
	known map[string]*request
	// broken has when a node was first seen not to keep what it has promised.
	broken map[string]time.Time
}

// pause is the least time between two rounds: a burst of changes is looked at once. After a long round the pause is
// longer, so that rounds take a third of a CPU at most.
const pause = 100 * time.Millisecond

// tick is the longest time between two rounds while there are requests, so that bookings expire.
const tick = 5 * time.Second

// New returns a controller. It answers while leads returns true.
func New(r Requests, c Cluster, k Keeper, leads func() bool, now func() time.Time, logger klog.Logger) *Controller {
	return &Controller{requests: r, cluster: c, keeper: k, leads: leads, now: now, logger: logger.WithName("capacity"),
		kick: make(chan struct{}, 1), restored: make(chan struct{}), known: map[string]*request{},
		broken: map[string]time.Time{}}
}

// Kick has the requests looked at again soon, because something has changed. It returns at once. A nil controller does
// nothing.
func (c *Controller) Kick() {
	if c == nil {
		return
	}
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// Restored returns a channel that is closed once everything is kept that requests have been promised.
func (c *Controller) Restored() <-chan struct{} { return c.restored }

// Run answers requests until the context ends.
func (c *Controller) Run(ctx context.Context) {
	c.keeper.Open()
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return c.requests.List(ctx, o)
		},
		WatchFuncWithContext: c.requests.Watch,
	}
	store, informer := cache.NewInformerWithOptions(cache.InformerOptions{ListerWatcher: lw,
		ObjectType: &provisioning.Request{}, Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { c.Kick() }, UpdateFunc: func(any, any) { c.Kick() }, DeleteFunc: func(any) { c.Kick() }}})
	c.store, c.ready = store, informer.HasSynced
	go informer.RunWithContext(ctx)
	for {
		began := c.now()
		if c.ready() && c.leads() {
			c.round(ctx)
		}
		rest := time.NewTimer(max(pause, 2*c.now().Sub(began)))
		select {
		case <-ctx.Done():
			rest.Stop()
			return
		case <-rest.C:
		}
		idle := time.NewTimer(tick)
		select {
		case <-ctx.Done():
			idle.Stop()
			return
		case <-c.kick:
		case <-idle.C:
		}
		idle.Stop()
	}
}

// round looks at all requests once.
func (c *Controller) round(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.list()
	c.forget(list)
	var open []*request
	for _, r := range list {
		c.settle(ctx, r)
		if r.open() {
			open = append(open, r)
		}
	}
	select {
	case <-c.restored:
	default:
		close(c.restored)
	}
	c.revoke(ctx, list)
	if len(open) == 0 {
		return
	}
	s, err := c.cluster.Stage()
	if err != nil {
		c.logger.Error(err, "Requests are not answered")
		return
	}
	d := &deciding{Controller: c, stage: s, plans: map[string]*whatif.Plan{}}
	for _, r := range open {
		if ctx.Err() != nil {
			return
		}
		d.decide(ctx, r)
	}
}

// list returns the requests of this class, the oldest first.
func (c *Controller) list() (out []*request) {
	for _, o := range c.store.List() {
		r, ok := o.(*provisioning.Request)
		if !ok || r.Spec.ProvisioningClassName != pod.Class || r.DeletionTimestamp != nil {
			continue
		}
		name := r.Namespace + "/" + r.Name
		x := c.known[name]
		if x == nil || x.object.UID != r.UID {
			if x != nil {
				c.keeper.Drop(name)
			}
			x = &request{name: name}
			c.known[name] = x
		}
		if x.object == nil || x.written != r.ResourceVersion {
			x.object = r
		}
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b *request) int {
		return cmp.Or(a.object.CreationTimestamp.Compare(b.object.CreationTimestamp.Time), cmp.Compare(a.name, b.name))
	})
	return out
}

// forget drops what is known and kept of requests that are gone.
func (c *Controller) forget(list []*request) {
	there := map[string]bool{}
	for _, r := range list {
		there[r.name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(c.keeper.Left())) {
		if !there[name] {
			c.keeper.Drop(name)
		}
	}
	maps.DeleteFunc(c.known, func(name string, _ *request) bool { return !there[name] })
}

// settle does what follows from the status of a request: it keeps the places that the status names, as long as the
// booking lasts, and has the pods that have come use them up.
func (c *Controller) settle(ctx context.Context, r *request) {
	if !r.is(provisioning.Provisioned) || r.over() {
		if r.over() {
			c.keeper.Drop(r.name)
		}
		return
	}
	until := r.until()
	if !c.now().Before(until) {
		left := c.keeper.Left()[r.name]
		c.keeper.Drop(r.name)
		_ = c.write(ctx, r, nil, condition(provisioning.BookingExpired, true, "BookingExpired",
			fmt.Sprintf("the room of %d pods that have not come is not kept any more", left)))
		return
	}
	if !r.restored {
		if _, kept := c.keeper.Left()[r.name]; !kept {
			c.restore(ctx, r)
		}
		r.restored = true
	}
	for _, p := range c.cluster.Using(r.name) {
		if x, err := judged(p); err == nil {
			c.keeper.Spend(string(p.UID), r.name, p.Spec.NodeName, x.Pod, x.Demand)
		}
	}
}

// grace is how long a node may fail to keep what it has promised before the booking ends: a report of the node may show
// that there is room.
const grace = 30 * time.Second

// revoke ends the bookings that have places on nodes that lost the room. It does not set CapacityRevoked, for which
// Kueue stops a job for good, also one that runs.
func (c *Controller) revoke(ctx context.Context, list []*request) {
	places, now := c.keeper.Places(), c.now()
	lost := map[string]string{}
	for _, node := range slices.Sorted(maps.Keys(places)) {
		if !c.cluster.Broken(node) {
			delete(c.broken, node)
			continue
		}
		if c.broken[node].IsZero() {
			c.broken[node] = now
		}
		if now.Sub(c.broken[node]) < grace {
			continue
		}
		for _, request := range places[node] {
			lost[request] = node
		}
	}
	for _, r := range list {
		node, is := lost[r.name]
		if !is {
			continue
		}
		c.keeper.Drop(r.name)
		_ = c.write(ctx, r, nil, condition(provisioning.BookingExpired, true, "RoomLost",
			"node "+node+" has no room for the pods any more: it is gone, or pods of other schedulers took the room"))
	}
}
