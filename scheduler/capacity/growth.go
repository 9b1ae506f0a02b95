package capacity

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/provisioning"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/stage"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
	"github.com/tenon-numa/tenon/scheduler/promise"
)

// This file finds out whether more nodes would help a request that has no room: which of the kinds that the cluster
// has, and how many. Tenon adds no nodes; the answer is for people and programs that do.

const (
	// maxKindsOfNodes bounds the kinds of nodes that are tried.
	maxKindsOfNodes = 16
	// maxMissing bounds the pods that are placed on new nodes, and so these nodes.
	maxMissing = 256
	// namedKinds is how many kinds a message names.
	namedKinds = 3
	// growFor bounds the time of one search, besides one placement of pods: requests wait meanwhile.
	growFor = 100 * time.Millisecond
)

// more is a number of nodes of a kind.
type more struct {
	like  string // the name of a node of the kind
	nodes int
}

// Why new nodes are not tried for a request.
var (
	errTooMany  = fmt.Errorf("more than %d pods have no room", maxMissing)
	errRelated  = errors.New("where the pods may go depends on other pods or volumes")
	errKinds    = fmt.Errorf("the cluster has more than %d kinds of nodes for the pods", maxKindsOfNodes)
	errNoLayout = errors.New("no node with a layout takes such pods")
	errClaims   = errors.New("which devices new nodes have for claims is not known")
	errTime     = errors.New("the search takes too long")
)

// related reports whether other pods or volumes decide where a pod may go, for which new nodes are not tried.
func related(p *v1.PodSpec) bool {
	a := p.Affinity
	return a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil) || len(p.TopologySpreadConstraints) > 0 ||
		slices.ContainsFunc(p.Volumes, func(v v1.Volume) bool {
			return v.PersistentVolumeClaim != nil || v.Ephemeral != nil
		}) ||
		slices.ContainsFunc(p.Containers, func(c v1.Container) bool {
			return slices.ContainsFunc(c.Ports, func(x v1.ContainerPort) bool { return x.HostPort > 0 })
		})
}

// machinesOf returns, for each node that is known exactly, a text that is equal for nodes that take the same pods when
// they are empty, apart from labels and taints; "" for the other nodes.
func (d *deciding) machinesOf() []string {
	if d.machines == nil {
		for i := range d.stage.Nodes() {
			text, n := "", &d.stage.Nodes()[i]
			if n.State != nil && n.State.Quality == state.Exact && n.State.Machine != nil {
				text = machineOf(n)
			}
			d.machines = append(d.machines, text)
		}
	}
	return d.machines
}

// machineOf returns the text of a node. Amounts of bytes differ a little from one machine to the next of the same kind.
func machineOf(n *whatif.Node) string {
	const round = 1 << 30
	var b strings.Builder
	m := n.State.Machine
	fmt.Fprintf(&b, "%+v", n.State.Rules)
	for _, x := range m.NUMAs() {
		fmt.Fprintf(&b, "|%d %d %d", x.ID, x.CPUs.Len(), x.Bytes/round)
	}
	for _, r := range m.Resources() {
		fmt.Fprintf(&b, "|%s %d", r.Name, len(r.Devices))
	}
	for _, name := range slices.Sorted(maps.Keys(n.Allocatable)) {
		amount := n.Allocatable[name]
		if amount > round {
			amount /= round
		}
		fmt.Fprintf(&b, "|%s=%d", name, amount)
	}
	return b.String()
}

// freshNode is an empty node like one of the cluster.
type freshNode struct {
	like string
	node whatif.Node
	bars map[*whatif.Want][]place.Reason // why pods may not go there
}

// kindsFor returns an empty node of each kind that takes some of the pods of a request, which are those that may go to
// the same nodes and machines.
func (d *deciding) kindsFor(r *request, wants map[*whatif.Want]bool) (out []freshNode, err error) {
	machines, objects, seen := d.machinesOf(), d.stage.Objects(), map[string]bool{}
	for i, machine := range machines {
		if machine == "" {
			continue
		}
		var like *v1.Node
		if objects != nil {
			like = objects[i]
		}
		object := stage.NewObject("more", like)
		bars, barred := map[*whatif.Want][]place.Reason{}, ""
		for k := range r.sets {
			s := &r.sets[k]
			if !wants[s.want] {
				continue
			}
			why, err := kube.Bars(s.pod, kube.RequiredAffinity(s.pod), object)
			if err != nil {
				return nil, fmt.Errorf("read the affinity: %w", err)
			}
			if len(why) > 0 {
				bars[s.want] = why
				barred += fmt.Sprint(" ", k)
			}
		}
		if len(bars) == len(wants) || seen[machine+barred] {
			continue
		}
		if seen[machine+barred] = true; len(seen) > maxKindsOfNodes {
			return nil, errKinds
		}
		n, _ := d.stage.Fresh(i, "more")
		n.Allocatable = n.Allocatable.Add(whatif.Amounts{keptPlaces: promise.MaxOnNode})
		out = append(out, freshNode{d.stage.Nodes()[i].Name, n, bars})
	}
	if len(out) == 0 {
		return nil, errNoLayout
	}
	return out, nil
}

// search returns how many more nodes of each kind would take the pods that have no place, the fewest first. Kinds that
// do not take all of them are left out.
func (d *deciding) search(ctx context.Context, r *request, rules whatif.Rules, gang whatif.Gang,
	found whatif.GangOutcome) (out []more, err error) {
	if slices.ContainsFunc(r.sets, func(s set) bool { return related(&s.pod.Spec) }) {
		return nil, errRelated
	}
	if r.claimed() {
		return nil, errClaims
	}
	var missing []whatif.Member
	wants := map[*whatif.Want]bool{}
	for i, x := range found.Placed {
		if x.Node < 0 {
			missing = append(missing, gang.Pods[i])
			wants[gang.Pods[i].Want] = true
		}
	}
	if len(missing) > maxMissing {
		return nil, errTooMany
	}
	kinds, err := d.kindsFor(r, wants)
	if err != nil {
		return nil, err
	}
	began := d.now()
	step := func() error {
		if d.now().Sub(began) > growFor {
			return errTime
		}
		return ctx.Err()
	}
	for _, k := range kinds {
		nodes, err := fewest(len(missing), func(nodes int) (bool, error) {
			result, err := whatif.New(slices.Repeat([]whatif.Node{k.node}, nodes), rules).Together(k.gang(missing, nodes), step)
			return result.Fits, err
		})
		if err != nil {
			return nil, err
		}
		if nodes > 0 {
			out = append(out, more{k.like, nodes})
		}
	}
	slices.SortStableFunc(out, func(a, b more) int { return a.nodes - b.nodes })
	return out, nil
}

// gang returns pods as a gang for equal new nodes.
func (k *freshNode) gang(pods []whatif.Member, nodes int) whatif.Gang {
	out, wants := whatif.Gang{Least: len(pods)}, map[*whatif.Want]*whatif.Want{}
	for _, m := range pods {
		w := wants[m.Want]
		if w == nil {
			fresh := *m.Want
			fresh.Bars, fresh.Peers = nil, nil
			w = &fresh
			wants[m.Want] = w
			if bars := k.bars[m.Want]; len(bars) > 0 {
				w.Bars = &whatif.Bars{Why: slices.Repeat([][]place.Reason{bars}, nodes)}
			}
		}
		out.Pods = append(out.Pods, whatif.Member{ID: m.ID, Want: w})
	}
	return out
}

// fewest returns the smallest number from 1 to most that is enough, or 0.
func fewest(most int, enough func(int) (bool, error)) (int, error) {
	if ok, err := enough(most); err != nil || !ok {
		return 0, err
	}
	low, high := 0, most // low is not enough, and high is
	for high > low+1 {
		mid := (low + high) / 2
		ok, err := enough(mid)
		if err != nil {
			return 0, err
		}
		if ok {
			high = mid
		} else {
			low = mid
		}
	}
	return high, nil
}

// grows returns the condition that tells whether more nodes would help a request, and records it for the metric. It is
// searched once in a while only.
func (d *deciding) grows(ctx context.Context, r *request, rules whatif.Rules, gang whatif.Gang,
	found whatif.GangOutcome) metav1.Condition {
	if !r.grown.IsZero() && d.now().Sub(r.grown) < explaining {
		return r.growth
	}
	all, err := d.search(ctx, r, rules, gang, found)
	r.more, r.grown = more{}, d.now()
	switch {
	case err != nil:
		r.growth = condition(provisioning.MoreNodes, false, "NotSearched", "not searched: "+err.Error())
		return r.growth
	case len(all) == 0:
		r.growth = condition(provisioning.MoreNodes, false, "WouldNotHelp",
			"more nodes of no single kind that the cluster has would take the pods without room")
		return r.growth
	}
	r.more = all[0]
	var texts []string
	for _, m := range all[:min(len(all), namedKinds)] {
		texts = append(texts, fmt.Sprintf("%d more like %s", m.nodes, m.like))
	}
	r.growth = condition(provisioning.MoreNodes, true, "WouldHelp",
		"all pods would fit with "+strings.Join(texts, ", or "))
	return r.growth
}

// Wanted returns how many more nodes would give the open requests room, by a node that they would be like: of each
// request the kind with the fewest nodes. It may be called from any goroutine; a nil controller wants none.
func (c *Controller) Wanted() map[string]int {
	if c == nil {
		return nil
	}
	if w := c.wanted.Load(); w != nil {
		return *w
	}
	return nil
}

// addUp sets what Wanted returns.
func (c *Controller) addUp(open []*request) {
	sum := map[string]int{}
	for _, r := range open {
		if r.open() && r.more.nodes > 0 {
			sum[r.more.like] += r.more.nodes
		}
	}
	c.wanted.Store(&sum)
}
