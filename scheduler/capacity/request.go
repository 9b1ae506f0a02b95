package capacity

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/provisioning"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/manifest"
	"github.com/tenon-numa/tenon/core/printable"
	"github.com/tenon-numa/tenon/core/whatif"
	"github.com/tenon-numa/tenon/scheduler/booking"
	"github.com/tenon-numa/tenon/scheduler/promise"
)

// request is what is known of a request.
type request struct {
	name   string // "namespace/name"
	object *provisioning.Request
	// written is the resource version that object has replaced; see Controller.write.
	written string
	// held: pods of its controller are held back.
	held bool
	// early: the status named places soon after the start. restored: they are kept. until is when they are kept no more; a
	// later status does not put that off.
	early, restored bool
	until           time.Time
	// end is the condition that ends the request; it is written until that succeeds.
	end *metav1.Condition
	// answer has what has to be written of places that are kept already; see deciding.answer.
	answer *answer
	// full has the nodes that lacked room for the request's places although it was found.
	full map[string]lacking
	// again is when the templates are read again, wait after the last time.
	again time.Time
	wait  time.Duration
	// fetched has the pods of PodTemplates that were fetched ahead, by name, and specs the ResourceClaimTemplates that
	// they name.
	fetched map[string]fetched
	specs   claimSpecs
	// sets are the pods, once the templates were read, and weight what these take of the memory.
	sets   []set
	weight int
	// first are the pods that have their turn before it, once the templates were read.
	first []provisioning.First
	// said is when the last message was written.
	said time.Time
	// explained is when was last written why the pods do not fit.
	explained time.Time
	// shown is when was last written which devices are kept.
	shown time.Time
	// tried is when room was searched last. The last search that found none took this long, in this round of rooms.
	tried    time.Time
	took     time.Duration
	searched uint32
	slow     bool // in the last search, an allocation of devices took too long
	// more are the nodes that would give it room, if that is known; grown is when that was searched, and growth what was
	// found.
	more   more
	grown  time.Time
	growth metav1.Condition
}

// set is a number of equal pods.
type set struct {
	pod   *v1.Pod
	count int
	text  string            // equal for pods that the same nodes take
	kind  [sha256.Size]byte // equal for pods that get the same devices on the same nodes
	promise.Pod
	claiming *Claiming    // nil if no devices have to be kept
	weight   int          // of pod
	want     *whatif.Want // in the search of this round
}

// is reports whether a condition is true.
func (r *request) is(condition string) bool { return r.object.Is(condition) }

// over reports whether the request needs no more answers, and keeps nothing.
func (r *request) over() bool { return r.end != nil || r.object.Over() }

// open reports whether the request waits for an answer.
func (r *request) open() bool { return !r.over() && !r.is(provisioning.Provisioned) }

// asked returns the request as its places are kept.
func (r *request) asked() promise.Request {
	return promise.Request{Name: r.name, Owner: r.object.Owner(), Since: r.object.CreationTimestamp.Unix()}
}

// pods returns how many pods a request has whose templates were read.
func (r *request) pods() (n int) {
	for _, s := range r.sets {
		n += s.count
	}
	return n
}

// invalid is why a request fails for good.
type invalid struct{ error }

// errNotAgain is about a request whose templates could not be read a moment ago.
var errNotAgain = errors.New("the templates could not be read a moment ago")

// noTemplate is about a PodTemplate that is missing.
type noTemplate struct{ error }

// errForeign is about a request whose pods are for another scheduler, which may answer it.
var errForeign = errors.New("the pods are for another scheduler")

// read reads the templates of a request. An error of type invalid is for good, and any other one passes.
func (c *Controller) read(ctx context.Context, r *request) error {
	if r.sets != nil {
		return nil
	}
	if c.now().Before(r.again) {
		return errNotAgain
	}
	if _, err := r.object.Booking(); err != nil {
		return invalid{err}
	}
	first, err := r.object.First()
	if err != nil {
		return invalid{err}
	}
	pods := 0
	for _, s := range r.object.Spec.PodSets {
		if pods += int(s.Count); s.Count < 1 || pods > provisioning.MaxPods {
			return invalid{fmt.Errorf("the request has more than %d pods: split it", provisioning.MaxPods)}
		}
	}
	sets, weight, err := c.readSets(ctx, r)
	if err != nil {
		return err
	}
	if err := c.held.room(r.object.Namespace, weight); err != nil {
		return err
	}
	c.held.add(r.object.Namespace, weight)
	r.sets, r.first, r.weight = sets, first, weight
	return nil
}

// readSets reads the templates of a request, each once. weight is what the sets take of the memory.
func (c *Controller) readSets(ctx context.Context, r *request) (sets []set, weight int, err error) {
	specs, foreign, known := r.specs, 0, map[string]*set{}
	defer func() { r.fetched, r.specs = nil, claimSpecs{} }()
	if len(r.object.Spec.PodSets) > maxSets {
		return nil, 0, invalid{fmt.Errorf("the request has more than %d sets of pods: split it", maxSets)}
	}
	for _, s := range r.object.Spec.PodSets {
		name := s.PodTemplateRef.Name
		one, again := known[name]
		if !again {
			if one, err = c.readSet(ctx, r, name, &specs); err != nil {
				return nil, 0, err
			}
			if known[name] = one; one != nil {
				weight += one.weight
			}
		}
		if one == nil {
			foreign++
			continue
		}
		x := *one
		x.count, x.Set = int(s.Count), len(sets)
		sets = append(sets, x)
	}
	switch {
	case foreign > 0 && len(sets) > 0:
		return nil, 0, invalid{errors.New("the PodTemplates name different schedulers, and none can keep room for all pods")}
	case foreign > 0:
		return nil, 0, errForeign
	}
	return sets, weight + claimWeight*specs.bytes, nil
}

// readSet reads a template; nil if its pods are another scheduler's.
func (c *Controller) readSet(ctx context.Context, r *request, name string, specs *claimSpecs) (*set, error) {
	p, err := c.template(ctx, r, name)
	bad, text := invalid{}, printable.Clip(name, 100)
	switch {
	case apierrors.IsNotFound(err):
		return nil, noTemplate{fmt.Errorf("there is no PodTemplate %s", text)}
	case errors.As(err, &bad):
		return nil, invalid{fmt.Errorf("PodTemplate %s: %w", text, bad.error)}
	case err != nil:
		return nil, fmt.Errorf("read PodTemplate %s: %w", text, err)
	}
	manifest.Default(p) // the API server gives templates no defaults
	if _, known := c.cluster.Rules(p.Spec.SchedulerName); !known {
		return nil, nil
	}
	claiming, err := c.claiming(ctx, p, specs)
	if err != nil {
		return nil, fmt.Errorf("PodTemplate %s: %w", text, err)
	}
	x, err := judged(p)
	if err != nil {
		return nil, invalid{fmt.Errorf("PodTemplate %s: %w", text, err)}
	}
	x.Claimed = claiming != nil
	same, err := textOf(p, x)
	if err != nil {
		return nil, invalid{err}
	}
	kind := sha256.Sum256([]byte(p.Spec.SchedulerName + " " + same + x.Claims))
	return &set{pod: p, text: same, kind: kind, Pod: x, claiming: claiming, weight: weight(p)}, nil
}

// Bounds of fetching ahead: the requests of a round, and how many are fetched at the same time.
const (
	maxAhead = 128
	atOnce   = 16
)

// fetch fetches the templates of requests that were not read yet, since one after the other takes long where the API
// server is busy. It returns how long it took.
func (c *Controller) fetch(ctx context.Context, open []*request) time.Duration {
	began := c.now()
	queue := make(chan *request, maxAhead)
	for _, tried := range []bool{false, true} { // new requests first: many that cannot be read must not hold them up
		for _, r := range open {
			if r.sets == nil && r.answer == nil && r.again.IsZero() != tried && !began.Before(r.again) && len(queue) < maxAhead {
				queue <- r
			}
		}
	}
	close(queue)
	var all sync.WaitGroup
	var ahead atomic.Int64
	for range min(atOnce, len(queue)) {
		all.Go(func() {
			for r := range queue {
				c.fetchFor(ctx, r, &ahead)
			}
		})
	}
	all.Wait()
	took := c.now().Sub(began)
	c.waited += took
	return took
}

// judged returns a pod as it is judged.
func judged(p *v1.Pod) (out promise.Pod, err error) {
	r, err := booking.Read(p)
	if err != nil {
		return out, err
	}
	needs, err := kube.Needs(p)
	return promise.Pod{Pod: r.Pod, Demand: r.Demand, Needs: needs, Claims: ClaimsOf(p, needs)}, err
}

// details writes places down, by set.
func details(sets []set, places []promise.Place) (map[string]string, error) {
	out := map[string]string{}
	all := places
	for i, s := range sets {
		var nodes []string
		for _, p := range places[:s.count] {
			nodes = append(nodes, p.Node)
		}
		places = places[s.count:]
		if err := provisioning.SetBooked(out, i, nodes, s.pod); err != nil {
			return nil, err
		}
	}
	return out, provisioning.SetDevices(out, devicesOn(all))
}

// placesOf reads what details has written.
func (r *request) placesOf() (out []promise.Place, err error) {
	for i, s := range r.sets {
		runs, err := r.object.Places(i, s.count)
		if err != nil {
			return nil, err
		}
		for _, x := range runs {
			out = append(out, slices.Repeat([]promise.Place{{Node: x.Node, Pod: s.Pod}}, x.Count)...)
		}
	}
	return out, nil
}

// finish ends the booking of a request.
func (c *Controller) finish(ctx context.Context, r *request, reason, message string) {
	c.keeper.Drop(r.name)
	end := condition(provisioning.BookingExpired, true, reason, message)
	r.end = &end
	c.writeEnd(ctx, r)
}

// writeEnd writes the end of a request, unless it is written.
func (c *Controller) writeEnd(ctx context.Context, r *request) {
	if r.end != nil && c.write(ctx, r, nil, *r.end) == nil {
		r.end = nil
	}
}

// condition returns a condition.
func condition(kind string, is bool, reason, message string) metav1.Condition {
	status := metav1.ConditionFalse
	if is {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: printable.Clip(message, maxMessage)}
}

// maxMessage bounds the message of a condition. The API server allows 32 KiB.
const maxMessage = 1024

// A request whose templates could not be read is read again after rereading, and later each time, up to longReread.
const (
	rereading  = 10 * time.Second
	longReread = 5 * time.Minute
)

// readAgain puts off reading a request that could not be read.
func (c *Controller) readAgain(r *request) {
	r.wait = min(max(rereading, 2*r.wait), longReread)
	r.again = c.now().Add(r.wait)
}

// repeat is how often a message changes that goes with the same answer.
const repeat = 10 * time.Second

// write writes conditions and details, unless the request has them, or only a message has changed a moment ago. It
// returns an error if they could not be written.
func (c *Controller) write(ctx context.Context, r *request, details map[string]string, with ...metav1.Condition) error {
	next, ok := r.object.DeepCopyObject().(*provisioning.Request)
	if !ok {
		return errors.New("a copy of a request is none")
	}
	now, news, texts := c.now(), len(details) > 0, false
	for _, x := range with {
		old := meta.FindStatusCondition(next.Status.Conditions, x.Type)
		x.ObservedGeneration, x.LastTransitionTime = next.Generation, metav1.NewTime(now)
		news = news || old == nil || old.Status != x.Status || old.Reason != x.Reason
		texts = texts || old == nil || old.Message != x.Message
		meta.SetStatusCondition(&next.Status.Conditions, x)
	}
	if !news && (!texts || now.Sub(r.said) < repeat) {
		return nil
	}
	if details != nil {
		next.Status.ProvisioningClassDetails = details
	}
	err := c.requests.SetStatus(ctx, next)
	c.waited += c.now().Sub(now)
	if err != nil {
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			c.logger.Error(err, "The answer to a request is not written, will try again", "request", r.name)
		}
		return err
	}
	r.written, r.object, r.said = r.object.ResourceVersion, next, now
	if r.over() {
		c.hold(r) // its pods need not wait any more
	}
	return nil
}
