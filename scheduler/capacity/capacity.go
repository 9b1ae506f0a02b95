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
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/provisioning"
	"github.com/tenon-numa/tenon/cluster/claims"
	"github.com/tenon-numa/tenon/cluster/stage"
	"github.com/tenon-numa/tenon/core/whatif"
	"github.com/tenon-numa/tenon/scheduler/promise"
)

// Keeper keeps places. [promise.Keeper] implements it.
type Keeper interface {
	Keep(r promise.Request, places []promise.Place) (full []string, err error)
	Restore(r promise.Request, places []promise.Place) error
	Spend(c promise.Coming)
	Drop(request string)
	Hold(r promise.Request, until time.Time) bool
	Release(request string)
	Holding() []string
	Left() map[string]int
	Places() map[string][]string
	Amounts(node, request string) whatif.Amounts
	Hidden() map[claims.ID]bool
	Claimed() []string
	On(node string) []promise.Kept
	Assign(node string, list []promise.Kept) bool
}

// Cluster is what the scheduler knows of the cluster.
type Cluster interface {
	// Stage returns nodes and pods as they are now. The argument is kept from call to call.
	Stage(of *stage.Requests) (*stage.Stage, error)
	// Using returns the bound pods that name a request, and Owned the bound pods of a namespace and an owner that were
	// created at since, in seconds, or later; see [promise.Request].
	Using(request string) []*v1.Pod
	Owned(namespace, owner string, since int64) []*v1.Pod
	// Broken reports whether a node does not keep what it has promised, and no report of it may show otherwise soon.
	Broken(node string) bool
	// Waits reports whether a pod of this UID waits for a node, and is not being deleted.
	Waits(namespace, name string, uid types.UID) bool
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
	claims   Claims // nil if no devices can be kept
	leads    func() bool
	now      func() time.Time
	logger   klog.Logger

	store cache.Store
	ready func() bool
	kick  chan struct{}
	// restored is closed when what requests have been promised is kept.
	restored chan struct{}
	once     sync.Once // for closing restored

	// Rounds alone use what follows. known is what is known of requests, by name.
	known map[string]*request
	held  held
	begun time.Time // when the first round was
	next  string    // the request at which the next round begins; "" is the first
	// revoked is when revoke looked last, and broken has when a node was first seen not to keep what it has promised, or
	// a request to have lost devices.
	revoked time.Time
	broken  map[string]time.Time
	repairs repairs
	counts  counts
	recount atomic.Bool // see Recount
	// rooms and requested are kept from round to round while requests are open.
	rooms     rooms
	requested stage.Requests
	wanted    atomic.Pointer[map[string]int] // see Wanted
	// waited is how long the present round has waited for the API server.
	waited time.Duration
	// anew is when reasons that are known are searched again.
	anew time.Time
}

// pause is the least time between two rounds: a burst of changes is looked at once. spare is the time up to which the
// pause is made longer so that rounds take a tenth of a CPU: an answer must not take much longer than a second.
const (
	pause = 100 * time.Millisecond
	spare = 400 * time.Millisecond
)

// rest returns how long to pause after a round that took a time. After much work it is longer, so that rounds take a
// third of a CPU at most, and little from pods that are scheduled meanwhile. Waiting for the API server takes no CPU,
// and a slow one must not hold up answers twice.
func (c *Controller) rest(took time.Duration) time.Duration {
	worked := took - c.waited
	return max(pause, 2*worked, min(9*worked, spare))
}

// Restoring bounds how long nothing is decided, and no pod scheduled, because room that was promised before is not kept
// again yet.
const Restoring = time.Minute

// bareFor bounds how long of that is because devices that were kept cannot be kept again.
const bareFor = 10 * time.Second

// longest is how long a round may take to decide, besides the last decision. Bookings expire between rounds.
const longest = time.Second

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

// Recount has devices counted again soon, because the classes of devices have changed. It returns at once.
func (c *Controller) Recount() {
	c.recount.Store(true)
	c.Kick()
}

// Restored returns a channel that is closed once everything is kept that requests have been promised.
func (c *Controller) Restored() <-chan struct{} { return c.restored }

// Run answers requests until the context ends.
func (c *Controller) Run(ctx context.Context) {
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return c.requests.List(ctx, o)
		},
		WatchFuncWithContext: c.requests.Watch,
	}
	store, informer := cache.NewInformerWithOptions(cache.InformerOptions{ListerWatcher: lw,
		ObjectType: &provisioning.Request{}, Transform: without, Handler: cache.ResourceEventHandlerFuncs{
			// Updates are nearly always this controller's own.
			AddFunc: func(any) { c.Kick() }, DeleteFunc: func(any) { c.Kick() }}})
	c.store, c.ready = store, informer.HasSynced
	go informer.RunWithContext(ctx)
	for {
		began := c.now()
		c.waited = 0
		if c.ready() && c.leads() {
			c.round(ctx)
		}
		rest := time.NewTimer(c.rest(c.now().Sub(began)))
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

// Round looks once at the requests of a store, as Run does again and again. It must not be called beside Run.
func (c *Controller) Round(ctx context.Context, requests cache.Store) {
	c.store = requests
	c.round(ctx)
}

// round looks at all requests once, or at as many as the time allows.
func (c *Controller) round(ctx context.Context) {
	list := c.list()
	left := c.keeper.Left()
	c.forget(list, left)
	c.weigh(list)
	var open []*request
	all := true
	for _, r := range list {
		c.hold(r)
	}
	turns := inTurn(list)
	for i, r := range turns {
		all = c.settle(ctx, r, left, turns[i:]) && all
	}
	for _, r := range list {
		if r.open() {
			open = append(open, r)
		}
	}
	if c.begun.IsZero() {
		c.begun = c.now()
	}
	if repaired := c.repair(ctx); c.now().Sub(c.begun) < bareFor {
		all = all && repaired
	}
	if all {
		c.once.Do(func() { close(c.restored) })
	} else if c.now().Sub(c.begun) < Restoring {
		c.Kick()
		return // or the room of those that are not restored yet might be promised once more
	}
	c.revoke(ctx, list)
	c.showDevices(ctx, list)
	if len(open) == 0 {
		c.rooms, c.requested, c.counts = rooms{}, stage.Requests{}, nil
		c.addUp(nil)
		return
	}
	s, err := c.cluster.Stage(&c.requested)
	if err != nil {
		c.logger.Error(err, "Requests are not answered")
		return
	}
	d := &deciding{Controller: c, stage: s}
	c.rooms.update(d.nodes(), s.Objects())
	d.answer(ctx, open)
	c.addUp(open)
}

// answer decides about open requests, as many as the time allows. The next round begins where this one ends, or behind
// the request that has used up the allocations of this one, so that each request has its turn.
func (d *deciding) answer(ctx context.Context, open []*request) {
	from := max(0, slices.IndexFunc(open, func(r *request) bool { return r.name == d.next }))
	d.next = ""
	d.reading = d.fetch(ctx, slices.Concat(open[from:], open[:from]))
	began := d.now()
	var short []*request
	for i := range open {
		r := open[(from+i)%len(open)]
		if ctx.Err() != nil {
			return
		}
		if d.now().Sub(began) > longest {
			d.next = cmp.Or(d.next, r.name)
			d.Kick()
			break
		}
		switch {
		case r.answer != nil: // its places are kept, and it is not known whether that was written
			_ = d.reply(ctx, r) // the next round does it again if this fails
		case !d.prepare(ctx, r), d.behind(ctx, r):
		case r.slow && d.now().Sub(r.tried) < patience*r.took: // it has its answer
		case d.short(r), d.now().Sub(r.tried) < patience*r.took, !d.decide(ctx, r, false):
			short = append(short, r)
		}
		if d.next == "" && d.allocations >= maxAllocations {
			d.next = open[(from+i+1)%len(open)].name
		}
	}
	d.explainSome(ctx, short)
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

// forget drops what is known and kept of requests that are gone. left has the requests with places.
func (c *Controller) forget(list []*request, left map[string]int) {
	there := map[string]bool{}
	for _, r := range list {
		there[r.name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		if !there[name] {
			c.keeper.Drop(name)
		}
	}
	for _, name := range c.keeper.Holding() {
		if !there[name] {
			c.keeper.Release(name)
		}
	}
	maps.DeleteFunc(c.known, func(name string, _ *request) bool { return !there[name] })
}

// hold has the pods of a request's controller wait while the request has no room, if it asks for that.
func (c *Controller) hold(r *request) {
	if until := r.object.HeldUntil(); r.open() && r.answer == nil && c.now().Before(until) {
		r.held = c.keeper.Hold(r.asked(), until)
		return
	}
	r.held = false
	c.keeper.Release(r.name)
}

// until returns when the booking of a request expires that has its room.
func (c *Controller) until(r *request) time.Time {
	if r.until.IsZero() {
		r.until = r.object.Until(c.now())
	}
	return r.until
}

// settle does what follows from the status of a request: it keeps the places that the status names, as long as the
// booking lasts, and has the pods that have come use them up. It returns false if places are still to be kept. Places
// that a status names for the first time later than Restoring after the start were not given by this scheduler: they
// are another scheduler's, or forged. later are the requests from this one on.
func (c *Controller) settle(ctx context.Context, r *request, left map[string]int, later []*request) bool {
	_, kept := left[r.name]
	switch {
	case r.over():
		if kept {
			c.keeper.Drop(r.name)
		}
		c.writeEnd(ctx, r)
		return true
	case !r.is(provisioning.Provisioned):
		return true
	case !c.now().Before(c.until(r)):
		c.finish(ctx, r, "BookingExpired",
			fmt.Sprintf("the room of %d pods that have not come is not kept any more", left[r.name]))
		return true
	}
	came := c.cluster.Using(r.name)
	r.early = r.early || c.begun.IsZero() || c.now().Sub(c.begun) < Restoring
	if r.early && !r.restored && !kept {
		if r.restored = c.restore(ctx, r, later); !r.restored {
			return false
		}
		if owner := r.object.Owner(); owner != "" { // later ones use up their places when they are reserved
			came = append(came, c.cluster.Owned(r.object.Namespace, owner, r.asked().Since)...)
		}
	}
	for _, p := range came {
		if x, err := judged(p); err == nil {
			c.keeper.Spend(promise.Coming{UID: string(p.UID), Request: r.name, Node: p.Spec.NodeName, Pod: x.Pod,
				Demand: x.Demand, Claims: x.Claims})
		}
	}
	return true
}

// grace is how long a node may fail to keep what it has promised before the booking ends: a report of the node may show
// that there is room.
const grace = 30 * time.Second

// revoke ends the bookings that have places on nodes that lost the room, or whose devices are lost. It does not set
// CapacityRevoked, for which Kueue stops a job for good, also one that runs.
func (c *Controller) revoke(ctx context.Context, list []*request) {
	now := c.now()
	if now.Sub(c.revoked) < tick {
		return
	}
	c.revoked = now
	before, places, ends := c.broken, c.keeper.Places(), map[string]string{}
	c.broken = map[string]time.Time{}
	long := func(what string) bool {
		since, known := before[what]
		if !known {
			since = now
		}
		c.broken[what] = since
		return now.Sub(since) >= grace
	}
	for _, node := range slices.Sorted(maps.Keys(places)) {
		if c.cluster.Broken(node) && long(node) {
			for _, request := range places[node] {
				ends[request] = node + " has no room for all pods that it was kept for: it is gone, pods of other schedulers " +
					"took the room, or pods have ended and the rest gets other CPUs than before"
			}
		}
	}
	for request, why := range c.repairs.lost {
		if long("request "+request) && ends[request] == "" {
			ends[request] = why
		}
	}
	for _, r := range list {
		if why, is := ends[r.name]; is {
			c.finish(ctx, r, "RoomLost", "node "+why)
		}
	}
}
