package capacity

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/provisioning"
	"github.com/tenon-numa/tenon/cluster/stage"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/printable"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/summary"
	"github.com/tenon-numa/tenon/core/whatif"
	"github.com/tenon-numa/tenon/scheduler/promise"
)

// deciding is one look at all open requests. Places that it keeps count for those that come after.
type deciding struct {
	*Controller
	stage *stage.Stage
	// latest is the plan with the latest places, or nil. It is for pods of the scheduler of this name, whose arguments
	// count. partial: it leaves nodes out.
	latest    *whatif.Plan
	scheduler string
	partial   bool
	beside    []whatif.Node          // see nodes; nil when what is kept has changed
	states    map[string]*state.Node // see stateOf
	reading   time.Duration          // how long this look has waited for templates
	machines  []string               // see machinesOf
	look      Look                   // nil until a request needs devices
	marks     map[string]uint64      // see markOf
	// allocations is how often this look has allocated devices to count.
	allocations int
}

// brief is how long a look waits for templates, and how long it explains why requests have no room, besides the last
// one: meanwhile no request gets room that becomes free.
const brief = 200 * time.Millisecond

// keptPlaces is the name of an amount that bounds the places that are kept on a node.
const keptPlaces = "places kept for requests"

// maxLooks is how often a request is tried if nodes turn out to have less room than the stage has.
const maxLooks = 3

// plan returns the plan for pods of a scheduler, with what is kept and what this look has placed so far.
func (d *deciding) plan(scheduler string, rules whatif.Rules, without []string) *whatif.Plan {
	if d.latest != nil && d.scheduler == scheduler && len(without) == 0 && !d.partial {
		return d.latest
	}
	var nodes []whatif.Node
	if d.latest != nil {
		nodes = slices.Clone(d.latest.Nodes())
	} else {
		nodes = d.nodes()
	}
	for i := range nodes {
		nodes[i].Gone = slices.Contains(without, nodes[i].Name)
	}
	return whatif.New(nodes, rules)
}

// nodes returns the nodes with the places that are kept there.
func (d *deciding) nodes() []whatif.Node {
	if d.beside == nil {
		d.beside = slices.Clone(d.stage.Nodes())
		for i := range d.beside {
			n := &d.beside[i]
			kept := d.keeper.Amounts(n.Name, "")
			n.Used = n.Used.Add(kept).Add(whatif.Amounts{keptPlaces: kept["pods"]})
			n.Allocatable = n.Allocatable.Add(whatif.Amounts{keptPlaces: promise.MaxOnNode})
		}
	}
	return slices.Clone(d.beside)
}

// withPlace returns the amounts of a pod, with its place.
func withPlace(needs whatif.Amounts) whatif.Amounts { return needs.Add(whatif.Amounts{keptPlaces: 1}) }

// keepPlan makes a plan the one on which later requests are tried. partial: it leaves nodes out.
func (d *deciding) keepPlan(scheduler string, p *whatif.Plan, partial bool) {
	d.latest, d.scheduler, d.partial = p, scheduler, partial
}

// prepare reads the pods of a request. It returns false if the request cannot be judged now, and answers that.
func (d *deciding) prepare(ctx context.Context, r *request) bool {
	if r.sets == nil && r.fetched == nil && d.reading > brief {
		d.Kick() // the next round reads more
		return false
	}
	began := d.now()
	err := d.read(ctx, r)
	if d.reading += d.now().Sub(began); err != nil {
		d.refuse(ctx, r, err)
		return false
	}
	if n := d.ofNamespace(r.object.Namespace); n+r.pods() > promise.MaxOfNamespace {
		r.more = more{}
		_ = d.notNow(ctx, r, "Bound", fmt.Sprintf("not now: room is kept for %d pods of this namespace that have not come, "+
			"at most %d", n, promise.MaxOfNamespace))
		return false
	}
	return true
}

// behind reports whether a pod waits that has its turn before a request, and answers that. It looks at requests that
// hold back pods only: what they wait for ends with the hold. Whether the pod is nominated to a node does not matter:
// kube-scheduler takes a nomination back when an attempt fails, such as one between the ends of two pods that make the
// room.
func (d *deciding) behind(ctx context.Context, r *request) bool {
	if !r.held {
		return false
	}
	for _, p := range r.first {
		if d.cluster.Waits(p.Namespace, p.Name, p.UID) {
			r.more = more{}
			_ = d.notNow(ctx, r, provisioning.Behind, "not now: pod "+p.String()+" has its turn first")
			return true
		}
	}
	return false
}

// short reports whether the pods of a request have no room for certain: too few of them fit on all nodes, or no node
// has changed since a search found none.
func (d *deciding) short(r *request) bool {
	if r.searched > 0 && r.searched >= d.rooms.changed {
		return true
	}
	scheduler := r.sets[0].pod.Spec.SchedulerName
	rules, _ := d.cluster.Rules(scheduler)
	for i := range r.sets {
		if d.rooms.short(&r.sets[i], scheduler, rules) {
			return true
		}
	}
	return false
}

// explaining is how long an explanation lasts at least, although nodes have changed.
const explaining = time.Minute

// renewing is how long a look searches reasons anew, besides the last one. That takes a tenth of a CPU at most: an old
// reason is still a hint, and other pods need the time.
const renewing = brief / 4

// A request that is not short for certain is searched room for again after patience times what the last search took.
const patience = 20

// spend records how long a search took that found no room. Where devices take too long to allocate, the next search is
// later each time.
func (r *request) spend(took time.Duration) {
	if r.slow {
		took = min(max(took, 2*r.took), longReread/patience)
	}
	r.took = took
}

// explainSome searches room for requests that have none, since a search finds reasons. Requests without any search come
// first, and then the one whose search is longest ago.
func (d *deciding) explainSome(ctx context.Context, short []*request) {
	began, waited := d.now(), d.waited
	anew := false
	defer func() {
		if now := d.now(); anew {
			d.anew = now.Add(9 * (now.Sub(began) - d.waited + waited))
		}
	}()
	slices.SortStableFunc(short, func(a, b *request) int { return a.explained.Compare(b.explained) })
	for i, r := range short {
		took := d.now().Sub(began)
		switch {
		case d.now().Sub(r.explained) < explaining:
			return
		case !r.explained.IsZero() && (d.now().Before(d.anew) || i > 0 && took > renewing):
			return
		case i == 0 || took < brief:
			anew = !r.explained.IsZero()
			d.decide(ctx, r, true)
		case took > 2*brief:
			d.Kick() // the next round goes on
			return
		case r.explained.IsZero() && meta.FindStatusCondition(r.object.Status.Conditions, provisioning.Provisioned) == nil:
			_ = d.notNow(ctx, r, "CapacityIsNotFound", "not now: too few nodes have room for its pods; the reason follows")
			r.said = time.Time{}
		}
	}
	if slices.ContainsFunc(short, func(r *request) bool { return r.explained.IsZero() }) {
		d.Kick() // the next round goes on
	}
}

// decide answers a request that was prepared. If its pods do not fit, it returns false, unless it is to explain that:
// an explanation waits for the API server, and meanwhile no other request gets room.
func (d *deciding) decide(ctx context.Context, r *request, explain bool) (done bool) {
	r.tried = d.now()
	gang, unjudged, err := d.gang(ctx, r)
	if err != nil {
		d.refuse(ctx, r, err)
		return true
	}
	scheduler := r.sets[0].pod.Spec.SchedulerName
	rules, _ := d.cluster.Rules(scheduler)
	without := d.stillFull(r)
	for range maxLooks {
		p := d.plan(scheduler, rules, without)
		out, p, places, err := d.together(ctx, r, p, rules, gang)
		if err != nil {
			if !errors.Is(err, errUncounted) {
				r.spend(d.now().Sub(r.tried))
			}
			d.notTogether(ctx, r, err)
			return true
		}
		if !out.Fits && len(without) > 0 {
			break // without these nodes it does not fit, and with them it might
		}
		if !out.Fits {
			if r.spend(d.now().Sub(r.tried)); !r.claimed() {
				d.keepPlan(scheduler, p, false)
				r.searched = d.rooms.round
			}
			if !explain {
				return false
			}
			if d.explain(ctx, r, p, out, unjudged, d.grows(ctx, r, rules, gang, out)) == nil {
				r.explained = d.now()
			} else {
				d.Kick() // the next round writes it
			}
			return true
		}
		full, err := d.keep(ctx, r, places, unjudged)
		if err == nil && len(full) == 0 {
			d.keepPlan(scheduler, p, len(without) > 0)
			return true
		}
		d.latest = nil // the plan has places that are not kept
		if err != nil {
			_ = d.notNow(ctx, r, "Bound", "not now: "+err.Error())
			return true
		}
		for _, node := range full {
			r.full[node] = lacking{d.now(), d.stateOf(node)}
		}
		without = append(without, full...)
		d.Kick() // the next round goes on
	}
	if d.now().Sub(r.explained) < explaining {
		return true // its reason is known, and this one passes soon
	}
	why := "not now: node " + without[0] + " has changed since, or room is kept there for so many different pods that " +
		"more cannot be judged"
	if r.claimed() {
		why += ", or devices would not be near the pods in every order in which they may come"
	}
	_ = d.notNow(ctx, r, "Changing", why)
	return true
}

// notTogether answers a request for which no places could be searched, unless the scheduler ends.
func (d *deciding) notTogether(ctx context.Context, r *request, err error) {
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, errDevices):
		if d.notNow(ctx, r, "CapacityIsNotFound", "not now: "+err.Error()) == nil && !errors.Is(err, errUncounted) {
			r.explained = d.now()
		}
	default:
		d.latest = nil // the plan has places that are not kept
		_ = d.notNow(ctx, r, "Bound", "not now: "+err.Error())
	}
}

// A node that lacked room although it was found there is left out for fullFor, or until it has changed. It is left out
// for changedFor in any case: where nodes change all the time, the request gets others.
const (
	fullFor    = 10 * time.Second
	changedFor = 500 * time.Millisecond
)

// lacking is when a node lacked room although it was found there, and its state in the stage of that look.
type lacking struct {
	at    time.Time
	state *state.Node
}

// stillFull returns the nodes that lacked room for a request a moment ago, and forgets the others.
func (d *deciding) stillFull(r *request) []string {
	if r.full == nil {
		r.full = map[string]lacking{}
	}
	maps.DeleteFunc(r.full, func(node string, x lacking) bool {
		since := d.now().Sub(x.at)
		return since > fullFor || since > changedFor && d.stateOf(node) != x.state
	})
	return slices.Sorted(maps.Keys(r.full))
}

// stateOf returns the state of a node in the stage, the same one as long as the node does not change; nil if there is
// none.
func (d *deciding) stateOf(node string) *state.Node {
	if d.states == nil {
		d.states = map[string]*state.Node{}
		for _, n := range d.stage.Nodes() {
			d.states[n.Name] = n.State
		}
	}
	return d.states[node]
}

// gang returns the pods of a request as a gang that needs all of them, and what of their requirements is not judged.
func (d *deciding) gang(ctx context.Context, r *request) (out whatif.Gang, unjudged []string, err error) {
	turn := 0
	for k := range r.sets {
		s := &r.sets[k]
		if err := d.served(ctx, s); err != nil {
			return out, nil, err
		}
		w, err := d.stage.Existing(s.pod)
		if err != nil {
			return out, nil, invalid{err}
		}
		for _, u := range w.Unjudged {
			if !slices.Contains(unjudged, u) && (u != stage.UnjudgedClaims || s.claiming == nil) {
				unjudged = append(unjudged, u)
			}
		}
		want := w.Want
		want.Needs = withPlace(want.Needs)
		if s.want = want; s.claiming != nil {
			want.Needs = want.Needs.Add(whatif.Amounts{r.devicesOf(k): 1})
		}
		for i := range s.count {
			id := state.PodID{UID: fmt.Sprintf("request %s %d", r.name, turn), Namespace: r.object.Namespace,
				Name: fmt.Sprintf("%s-%d", s.pod.Name, i)}
			out.Pods = append(out.Pods, whatif.Member{ID: id, Want: want})
			turn++
		}
	}
	out.Least = len(out.Pods)
	return out, unjudged, nil
}

// ofNamespace returns how many places are kept for a namespace.
func (d *deciding) ofNamespace(namespace string) (n int) {
	for request, left := range d.keeper.Left() {
		if strings.HasPrefix(request, namespace+"/") {
			n += left
		}
	}
	return n
}

// keep keeps the places that were found, and answers the request. If nodes have less room than was found, it keeps
// nothing and returns them.
func (d *deciding) keep(ctx context.Context, r *request, places []promise.Place,
	unjudged []string) (full []string, err error) {
	nodes := map[string]bool{}
	for _, x := range places {
		nodes[x.Node] = true
	}
	written, err := details(r.sets, places)
	if err != nil {
		return nil, err
	}
	d.beside, d.marks = nil, nil
	if full, err = d.keeper.Keep(r.asked(), places); err != nil || len(full) > 0 {
		return full, err
	}
	long, _ := r.object.Booking() // read has found it valid
	until := d.now().Add(long).UTC().Format(time.RFC3339)
	message := fmt.Sprintf("all %d pods fit now, on %d nodes; their room is kept until %s", len(places), len(nodes), until)
	if len(places) == 1 {
		message = "the pod fits now; its room is kept until " + until
	}
	if len(unjudged) > 0 {
		message += "; not looked at: " + strings.Join(unjudged, ", ")
	}
	r.answer = &answer{written, message, false}
	return nil, d.reply(ctx, r)
}

// answer is what is written about places that are kept.
type answer struct {
	details map[string]string
	message string
	// unknown: an attempt to write it may have been stored.
	unknown bool
}

// reply writes that the places of a request are kept. If that certainly failed, they are not kept any more.
func (d *deciding) reply(ctx context.Context, r *request) error {
	all := []metav1.Condition{accepted(), condition(provisioning.Provisioned, true, "CapacityIsFound", r.answer.message)}
	if meta.FindStatusCondition(r.object.Status.Conditions, provisioning.MoreNodes) != nil {
		all = append(all, condition(provisioning.MoreNodes, false, "NotNeeded", "the pods have room"))
	}
	err := d.write(ctx, r, r.answer.details, all...)
	switch {
	case err == nil:
		r.restored, r.answer = true, nil
		d.hold(r) // its pods may come now
		return nil
	case apierrors.IsConflict(err) && r.answer.unknown: // the informer will show what was stored
		return nil
	case apierrors.IsConflict(err), apierrors.IsNotFound(err), apierrors.IsInvalid(err), apierrors.IsForbidden(err):
		d.keeper.Drop(r.name)
		d.beside, d.marks, r.answer = nil, nil, nil
		return errors.New("the answer could not be written")
	}
	r.answer.unknown = true
	return nil
}

// accepted is the condition of a request that is answered.
func accepted() metav1.Condition {
	return condition(provisioning.Accepted, true, "Accepted", "answered by tenon-scheduler")
}

// refuse answers a request that cannot be judged.
func (d *deciding) refuse(ctx context.Context, r *request, why error) {
	if errors.Is(why, errForeign) {
		d.readAgain(r)
		return
	}
	if errors.Is(why, errNotAgain) {
		return
	}
	if bad := (invalid{}); !errors.As(why, &bad) {
		d.readAgain(r)
		_ = d.notNow(ctx, r, provisioning.Unread, "not now: "+why.Error())
		return
	}
	_ = d.write(ctx, r, nil, condition(provisioning.Accepted, false, "Invalid", why.Error()),
		condition(provisioning.Failed, true, "Invalid", why.Error()))
}

// notNow writes why a request has no room yet.
func (d *deciding) notNow(ctx context.Context, r *request, reason, message string, more ...metav1.Condition) error {
	if r.held {
		message = printable.Clip(message, maxMessage/2) + "; " + provisioning.HeldBack
	}
	return d.write(ctx, r, nil, append(more, accepted(), condition(provisioning.Provisioned, false, reason, message))...)
}

// explain writes why the pods of a request do not fit together: never, or not now and whom to wait for.
func (d *deciding) explain(ctx context.Context, r *request, p *whatif.Plan, out whatif.GangOutcome, unjudged []string,
	more metav1.Condition) error {
	at := map[string]int{}
	for i := range p.Nodes() {
		at[p.Nodes()[i].Name] = i
	}
	f := summary.Facts{Namespace: r.object.Namespace, Unjudged: unjudged}
	var later []int
	for _, x := range out.Refusals {
		for _, node := range x.Nodes {
			n := &p.Nodes()[at[node]]
			f.Nodes = append(f.Nodes, summary.Node{Name: node, Reasons: x.Reasons,
				Estimated: n.State != nil && n.State.Quality == state.Estimated,
				Inexact:   n.State != nil && len(n.State.Inexact) > 0})
			if (whatif.Judgement{Reasons: x.Reasons}).When() == place.Later && !slices.ContainsFunc(x.Reasons, lacksPlaces) &&
				!slices.ContainsFunc(x.Reasons, r.lacksDevices) {
				later = append(later, at[node])
			}
		}
	}
	want := r.wantOf(out.First)
	if want == nil {
		return d.notNow(ctx, r, "CapacityIsNotFound", "not now: the pods do not fit together", more)
	}
	f.Soonest = whatif.Rules{}.Soonest(func() *whatif.Node {
		if len(later) == 0 {
			return nil
		}
		n := p.Nodes()[later[0]]
		later = later[1:]
		return &n
	}, want)
	s := summary.Of(&f)
	placed := 0
	for _, x := range out.Placed {
		if x.Node >= 0 {
			placed++
		}
	}
	if s.Kind == summary.Never {
		return d.write(ctx, r, nil, accepted(), condition(provisioning.Failed, true, "NeverFits", s.Text), more)
	}
	return d.notNow(ctx, r, "CapacityIsNotFound", fmt.Sprintf("%d of %d pods fit now; the next one: %s", placed,
		len(out.Placed), s.Text), more)
}

// lacksPlaces reports whether a reason is that too many places are kept on a node: the end of pods does not help.
func lacksPlaces(r place.Reason) bool { return r.Code == place.Lacking && r.Resource == keptPlaces }

// wantOf returns what the i-th pod of a request wants, for a search of pods to wait for; nil if there is no such pod.
func (r *request) wantOf(i int) *whatif.Want {
	for _, s := range r.sets {
		if i >= 0 && i < s.count {
			return &whatif.Want{Pod: s.Pod.Pod, Demand: s.Demand, Needs: s.Needs}
		}
		i -= s.count
	}
	return nil
}
