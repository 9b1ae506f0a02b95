package capacity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/cluster/claims"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/printable"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
	"github.com/tenon-numa/tenon/scheduler/promise"
)

// This file makes the claims (DRA) of pods that have not come, from the templates that they name.

// Claims knows the devices of the cluster, and who has claims.
type Claims interface {
	// Look returns what there is of devices now.
	Look() (Look, error)
	// Serves reports whether DRA may serve some of the resources that a pod requests. It returns an error if the
	// scheduler keeps no devices for such pods, and for pods with claims.
	Serves(pod *v1.Pod) (bool, error)
	// Template returns a ResourceClaimTemplate.
	Template(ctx context.Context, namespace, name string) (*resourcev1.ResourceClaimTemplate, error)
	// Node returns a node as it is now, or nil.
	Node(name string) *state.Node
}

// Look is what the cluster has of devices at one moment.
type Look interface {
	// Publishes reports whether a node may use devices.
	Publishes(node string) bool
	// Mark returns a number that changes when the devices of a node change, or who has them.
	Mark(node string, kept func(claims.ID) bool) uint64
	// Lost reports whether a device is not published any more, or a claim has it.
	Lost(device claims.ID) bool
	// Allocate returns the devices that a pod would get on a node, without those that are kept. n is the node before it,
	// and holdings is what it gets there. why is not empty if it gets none.
	Allocate(ctx context.Context, p *Claiming, n *state.Node, holdings []place.Holding,
		kept func(claims.ID) bool) (out promise.Devices, why string)
}

// Claiming is a pod with the claims that it would have.
type Claiming struct {
	Pod    *v1.Pod // it names the claims
	Claims []*resourcev1.ResourceClaim
}

// WithClaims has the controller keep room for pods with claims. Without it, requests for such pods fail. It must be
// called before Run.
func (c *Controller) WithClaims(of Claims) { c.claims = of }

// errOff is why no devices are kept without Claims.
var errOff = errors.New("dynamic resource allocation (DRA) is off in this scheduler")

// maxClaims bounds the claims of a pod.
const maxClaims = 32

// ClaimsOf returns a text that is equal for pods whose claims and extended resources are alike, and which demand the
// same devices near their CPUs in the same profile; "" for pods without claims and such resources. needs are the plain
// amounts of the pod.
func ClaimsOf(p *v1.Pod, needs whatif.Amounts) string {
	var parts []string
	for i := range p.Spec.ResourceClaims {
		c := &p.Spec.ResourceClaims[i]
		switch {
		case c.ResourceClaimTemplateName != nil:
			parts = append(parts, c.Name+" of template "+*c.ResourceClaimTemplateName)
		case c.ResourceClaimName != nil:
			parts = append(parts, c.Name+" is claim "+*c.ResourceClaimName)
		}
	}
	for name, n := range needs {
		if strings.Contains(name, "/") {
			parts = append(parts, fmt.Sprint("resource ", name, " ", n))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	near := pod.NearDevices(p)
	for _, x := range near.Drivers {
		parts = append(parts, "near driver "+x)
	}
	for _, x := range near.Classes {
		parts = append(parts, "near class "+x)
	}
	for _, x := range near.Requests {
		parts = append(parts, "near "+x.String())
	}
	slices.Sort(parts)
	return p.Namespace + " " + p.Spec.SchedulerName + ": " + strings.Join(parts, ", ")
}

// claiming reads the claims of a pod. The result is nil for a pod without.
func (c *Controller) claiming(ctx context.Context, p *v1.Pod, specs *claimSpecs) (*Claiming, error) {
	serves, err := false, errOff
	if c.claims != nil {
		serves, err = c.claims.Serves(p)
	}
	switch {
	case len(p.Spec.ResourceClaims) == 0 && !serves:
		return nil, nil
	case err != nil:
		return nil, invalid{fmt.Errorf("the pods have claims of devices: %w", err)}
	case len(p.Spec.ResourceClaims) > maxClaims:
		return nil, invalid{fmt.Errorf("a pod has %d claims of devices, at most %d", len(p.Spec.ResourceClaims), maxClaims)}
	}
	with := *p // it shares all but its claims
	with.Spec.ResourceClaims = slices.Clone(p.Spec.ResourceClaims)
	out := &Claiming{Pod: &with}
	out.Pod.UID = types.UID("kept " + p.Namespace + "/" + p.Name)
	for i := range out.Pod.Spec.ResourceClaims {
		x := &out.Pod.Spec.ResourceClaims[i]
		if x.ResourceClaimTemplateName == nil {
			return nil, invalid{fmt.Errorf("the pods share the claim %s (resourceClaimName), for which no room can be kept: "+
				"name a template (resourceClaimTemplateName), or leave the admission check out for such jobs",
				printable.Clip(x.Name, 100))}
		}
		began := c.now()
		spec, err := specs.get(ctx, c.claims, p.Namespace, *x.ResourceClaimTemplateName)
		c.waited += c.now().Sub(began)
		if err != nil {
			return nil, err
		}
		claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace,
			Name: fmt.Sprintf("kept-%d", i), UID: types.UID(fmt.Sprintf("%s %d", out.Pod.UID, i)),
			Labels: spec.Labels, Annotations: spec.Annotations}, Spec: spec.Spec}
		x.ResourceClaimTemplateName, x.ResourceClaimName = nil, &claim.Name
		out.Claims = append(out.Claims, claim)
	}
	return out, nil
}

// Bounds of the ResourceClaimTemplates of a request: how many it may name, and their bytes, which are kept while it is
// open.
const (
	maxTemplates     = 64
	maxTemplateBytes = 512 << 10
)

// claimSpecs has the ResourceClaimTemplates of a request. Each is read once, and the claims of all pods share it, so
// nothing may change it. The zero value has none.
type claimSpecs struct {
	of    map[string]claimSpec
	bytes int
}

// claimSpec is what a template has, or why it cannot be used.
type claimSpec struct {
	spec *resourcev1.ResourceClaimTemplateSpec
	err  error
}

// get returns what a template has. It reads no more templates once the bounds are exceeded.
func (s *claimSpecs) get(ctx context.Context, from Claims,
	namespace, name string) (*resourcev1.ResourceClaimTemplateSpec, error) {
	if x, known := s.of[name]; known {
		return x.spec, x.err
	}
	if len(s.of) >= maxTemplates {
		return nil, invalid{fmt.Errorf("the pods name more than %d ResourceClaimTemplates", maxTemplates)}
	}
	if s.of == nil {
		s.of = map[string]claimSpec{}
	}
	var x claimSpec
	if x.err = s.full(); x.err == nil {
		if x.spec, x.err = readSpec(ctx, from, namespace, name); x.err == nil {
			s.bytes += x.spec.Size()
			x.err = s.full()
		}
	}
	if x.err != nil {
		x.spec = nil
	}
	s.of[name] = x
	return x.spec, x.err
}

// full returns an error if the templates have too many bytes.
func (s *claimSpecs) full() error {
	if s.bytes > maxTemplateBytes {
		return invalid{fmt.Errorf("the ResourceClaimTemplates of the pods have more than %d bytes", maxTemplateBytes)}
	}
	return nil
}

// readSpec reads a template from the API server.
func readSpec(ctx context.Context, from Claims,
	namespace, name string) (*resourcev1.ResourceClaimTemplateSpec, error) {
	t, err := from.Template(ctx, namespace, name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, noTemplate{fmt.Errorf("there is no ResourceClaimTemplate %s", printable.Clip(name, 100))}
	case err != nil:
		return nil, fmt.Errorf("read ResourceClaimTemplate %s: %w", printable.Clip(name, 100), err)
	}
	if why := unkept(&t.Spec.Spec); why != "" {
		return nil, invalid{fmt.Errorf("ResourceClaimTemplate %s asks for %s, for which no room can be kept: leave the "+
			"admission check out for such jobs", printable.Clip(name, 100), why)}
	}
	spec := t.Spec // without the rest of the object
	return &spec, nil
}

// unkept returns what a claim asks for that cannot be kept, or "".
func unkept(spec *resourcev1.ResourceClaimSpec) string {
	for i := range spec.Devices.Requests {
		if what := claims.BeyondDevices(&spec.Devices.Requests[i]); what != "" {
			return what
		}
	}
	return ""
}

// repairs is what is known of the devices of places that are kept. Rounds alone use it.
type repairs struct {
	// lost has the requests whose devices are not there and not replaced, each with a text that begins with a node.
	lost  map[string]string
	tried map[string]int64 // when other devices were looked for last, by node, in nanoseconds of Unix time
	kept  map[string]judgedNode
}

// judgedNode is whether a node kept what it has promised, and what it was like then.
type judgedNode struct {
	broken bool
	state  *state.Node
	at     time.Time
}

// brokenNow returns whether a node keeps what it has promised. A node that has not changed is judged once in a tick.
func (c *Controller) brokenNow(node string, before judgedNode) judgedNode {
	now := judgedNode{state: c.claims.Node(node), at: c.now()}
	if before.state == now.state && now.at.Sub(before.at) < tick {
		return before
	}
	now.broken = c.cluster.Broken(node)
	return now
}

// repair keeps other devices for places that have none, as after a restart, or whose devices are not there or not near
// any more. It returns false if it could not keep devices for places that had none.
func (c *Controller) repair(ctx context.Context) bool {
	nodes := c.keeper.Claimed()
	if len(nodes) == 0 || c.claims == nil {
		c.repairs = repairs{}
		return true
	}
	look, err := c.claims.Look()
	if err != nil {
		c.logger.Error(err, "Kept devices are not examined")
		return false
	}
	before, now, all := c.repairs, c.now(), true
	c.repairs = repairs{map[string]string{}, map[string]int64{}, map[string]judgedNode{}}
	limit := clock{now: c.now, left: allotFor}
	limit.start(ctx)
	defer limit.stop()
	// Where the time is over, the next round goes on with the nodes that were looked at least recently.
	slices.SortStableFunc(nodes, func(a, b string) int { return cmp.Compare(before.tried[a], before.tried[b]) })
	for _, node := range nodes {
		list := c.keeper.On(node)
		lost := lostOn(look, list)
		bare := slices.ContainsFunc(list, withoutDevices)
		c.repairs.kept[node] = c.brokenNow(node, before.kept[node])
		if len(lost) == 0 && !c.repairs.kept[node].broken {
			continue
		}
		c.repairs.tried[node] = before.tried[node]
		if now.UnixNano()-before.tried[node] >= int64(again) && !limit.over() {
			c.repairs.tried[node] = now.UnixNano()
			if c.reassign(limit.ctx, look, node, list) {
				continue
			}
		}
		for request, why := range lost {
			c.repairs.lost[request] = node + " has no room for all pods that it was kept for: " + why
		}
		all = all && !bare
	}
	return all
}

// withoutDevices reports whether devices have to be kept for a place, and none are.
func withoutDevices(x promise.Kept) bool { return x.Claimed && x.IDs == nil }

// lostOn returns, for each request with places whose devices are not there, why.
func lostOn(look Look, list []promise.Kept) map[string]string {
	out := map[string]string{}
	for _, x := range list {
		if withoutDevices(x) && out[x.Request] == "" {
			out[x.Request] = "its devices could not be kept again, and no others are free"
		}
		for _, id := range x.IDs {
			if look.Lost(id) {
				out[x.Request] = "device " + printable.Clip(id.String(), 300) + " is gone, or another scheduler has allocated " +
					"it, and no other one is free"
				break
			}
		}
	}
	return out
}

// reassign looks for other devices for the places on a node, and keeps these.
func (c *Controller) reassign(ctx context.Context, look Look, node string, list []promise.Kept) bool {
	pods, ok := c.claimingOf(list)
	if !ok {
		return false
	}
	own := map[claims.ID]bool{}
	for _, x := range list {
		for _, id := range x.IDs {
			own[id] = true
		}
	}
	hidden := c.keeper.Hidden()
	kept := func(id claims.ID) bool { return hidden[id] && !own[id] }
	tried := [][]int{}
	for _, order := range orders(list, pods) {
		if slices.ContainsFunc(tried, func(other []int) bool { return slices.Equal(order, other) }) {
			continue
		}
		tried = append(tried, order)
		s := newSequence(ctx, look, bareNode(c.claims.Node(node), node), kept, map[claims.ID]bool{})
		if next := s.all(list, pods, order); next != nil && c.keeper.Assign(node, next) {
			return true
		}
	}
	return false
}

// claimingOf returns the pods of places with their claims; nil for places for which no devices are kept. ok is false if
// some of them are not known.
func (c *Controller) claimingOf(list []promise.Kept) (out []*Claiming, ok bool) {
	out = make([]*Claiming, len(list))
	for i, x := range list {
		if !x.Claimed {
			continue
		}
		r := c.known[x.Request]
		if r == nil || x.Set >= len(r.sets) || r.sets[x.Set].claiming == nil {
			return nil, false
		}
		out[i] = r.sets[x.Set].claiming
	}
	return out, true
}

// orders returns the orders in which devices are looked for again for places: as in the list; those first that need
// devices near; and the same with the last request first.
func orders(list []promise.Kept, pods []*Claiming) [][]int {
	first, last := make([]int, len(list)), make([]int, len(list))
	for i := range list {
		first[i], last[i] = i, i
	}
	needs := func(i int) int {
		if list[i].On != 0 || pods[i] != nil && pod.NearDevices(pods[i].Pod).Any() {
			return 0
		}
		return 1
	}
	near := slices.Clone(first)
	slices.SortStableFunc(near, func(i, j int) int { return cmp.Compare(needs(i), needs(j)) })
	slices.SortStableFunc(last, func(i, j int) int {
		return cmp.Or(cmp.Compare(needs(i), needs(j)), cmp.Compare(list[j].Request, list[i].Request))
	})
	return [][]int{first, near, last}
}

// sequence allocates devices for pods that come to a node one after the other.
type sequence struct {
	ctx  context.Context
	look Look
	node *state.Node
	kept func(claims.ID) bool // for others, or for the pods before
	mine map[claims.ID]bool
}

// newSequence returns a sequence for a node. mine gets the devices that its pods get.
func newSequence(ctx context.Context, look Look, n *state.Node, kept func(claims.ID) bool,
	mine map[claims.ID]bool) *sequence {
	s := &sequence{ctx: ctx, look: look, node: n, mine: mine}
	s.kept = func(id claims.ID) bool { return s.mine[id] || kept(id) }
	return s
}

// bareNode returns a node without its promises. n is nil for a node that the ledger does not know.
func bareNode(n *state.Node, name string) *state.Node {
	if n == nil {
		return &state.Node{Name: name}
	}
	out := *n
	out.Promised = nil
	return &out
}

// all has the pods of places come in an order. It returns the places with their devices, or nil if a pod gets none.
func (s *sequence) all(list []promise.Kept, pods []*Claiming, order []int) []promise.Kept {
	out := slices.Clone(list)
	for _, i := range order {
		devices, why := s.next(&out[i].Pod, pods[i])
		if why != "" {
			return nil
		}
		out[i].Devices = devices
	}
	return out
}

// next has a pod come. claiming is nil for a pod for which no devices are kept. why is not empty if it does not fit, or
// gets no devices.
func (s *sequence) next(p *promise.Pod, claiming *Claiming) (out promise.Devices, why string) {
	after, holdings := s.node, []place.Holding(nil)
	if !p.Pod.Plain() {
		if s.node.Machine == nil || !s.node.Meets(p.Pod, p.Demand) {
			return out, "its CPUs and memory have no room"
		}
		next, ok := s.node.Join(state.PodID{UID: fmt.Sprint("kept ", len(s.node.Entries))}, p.Pod, p.Demand)
		if !ok {
			return out, "its CPUs and memory have no room"
		}
		after, holdings = next, next.Entries[len(next.Entries)-1].Holdings
	}
	if claiming != nil {
		if out, why = s.look.Allocate(s.ctx, claiming, s.node, holdings, s.kept); why != "" {
			return promise.Devices{}, why
		}
		for _, id := range out.IDs {
			s.mine[id] = true
		}
	}
	s.node = after
	return out, ""
}
