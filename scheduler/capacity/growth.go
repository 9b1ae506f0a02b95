package capacity

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/provisioning"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
	"github.com/tenon-numa/tenon/scheduler/promise"
)

// This file finds out whether more nodes would help a request that has no room: which of the kinds that the cluster
// has, and how many. Tenon adds no nodes; the answer is for people and programs that do.

const (
	// maxKindsOfNodes bounds the kinds of nodes that are tried, the most frequent first.
	maxKindsOfNodes = 16
	// maxMore bounds the nodes that are added, and maxMissing the pods that are placed on them.
	maxMore    = 256
	maxMissing = 256
	// namedKinds is how many kinds a message names.
	namedKinds = 3
)

// nodeKind is nodes that take the same pods when they are empty.
type nodeKind struct {
	like  int // the position of the first one, by name
	count int
}

// more is a number of nodes of a kind.
type more struct {
	like  string // the name of a node of the kind
	nodes int
}

// kindsOfNodes returns the kinds of nodes that are known exactly, the most frequent first.
func (d *deciding) kindsOfNodes() []nodeKind {
	if d.grown {
		return d.nodeKinds
	}
	d.grown = true
	nodes, objects := d.stage.Nodes(), d.stage.Objects()
	at := map[string]int{}
	for i := range nodes {
		if nodes[i].State == nil || nodes[i].State.Quality != state.Exact || nodes[i].State.Machine == nil {
			continue
		}
		text := kindOf(&nodes[i])
		if objects != nil {
			text += marksOf(objects[i])
		}
		k, known := at[text]
		if !known {
			k = len(d.nodeKinds)
			at[text] = k
			d.nodeKinds = append(d.nodeKinds, nodeKind{like: i})
		}
		d.nodeKinds[k].count++
	}
	slices.SortStableFunc(d.nodeKinds, func(a, b nodeKind) int { return b.count - a.count })
	d.nodeKinds = d.nodeKinds[:min(len(d.nodeKinds), maxKindsOfNodes)]
	return d.nodeKinds
}

// kindOf returns a text that differs for nodes that take different pods when they are empty.
func kindOf(n *whatif.Node) string {
	var b strings.Builder
	m := n.State.Machine
	fmt.Fprintf(&b, "%+v", n.State.Rules)
	for _, x := range m.NUMAs() {
		fmt.Fprintf(&b, "|%d %d %d", x.ID, x.CPUs.Len(), x.Bytes)
	}
	for _, r := range m.Resources() {
		fmt.Fprintf(&b, "|%s %d", r.Name, len(r.Devices))
	}
	for _, name := range slices.Sorted(maps.Keys(n.Allocatable)) {
		fmt.Fprintf(&b, "|%s=%d", name, n.Allocatable[name])
	}
	return b.String()
}

// marksOf returns the labels and taints of a node that a new one would have.
func marksOf(o *v1.Node) string {
	var b strings.Builder
	marks := maps.Clone(o.Labels)
	delete(marks, v1.LabelHostname)
	fmt.Fprint(&b, marks) // in order of the keys
	for _, t := range o.Spec.Taints {
		if !strings.HasPrefix(t.Key, "node.kubernetes.io/") {
			fmt.Fprintf(&b, "|%s=%s:%s", t.Key, t.Value, t.Effect)
		}
	}
	return b.String()
}

// Why new nodes are not tried for a request.
var (
	errTooMany = fmt.Errorf("more than %d pods have no place", maxMissing)
	errRelated = errors.New("where the pods may go depends on other pods or volumes")
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

// growth returns how many more nodes of each kind would take the pods that have no place, the fewest first. Kinds that
// do not help are left out.
func (d *deciding) growth(ctx context.Context, r *request, rules whatif.Rules, gang whatif.Gang,
	found whatif.GangOutcome) (out []more, err error) {
	if slices.ContainsFunc(r.sets, func(s set) bool { return related(&s.pod.Spec) }) {
		return nil, errRelated
	}
	var missing whatif.Gang
	for i, x := range found.Placed {
		if x.Node < 0 {
			missing.Pods = append(missing.Pods, gang.Pods[i])
		}
	}
	if missing.Least = len(missing.Pods); missing.Least > maxMissing {
		return nil, errTooMany
	}
	for _, k := range d.kindsOfNodes() {
		n, object := d.stage.Fresh(k.like, "more")
		n.Allocatable = n.Allocatable.Add(whatif.Amounts{keptPlaces: promise.MaxOnNode})
		enough := func(nodes int) (bool, error) {
			p := whatif.New(slices.Repeat([]whatif.Node{n}, nodes), rules)
			result, err := p.Together(r.onFresh(missing, object, nodes), ctx.Err)
			return result.Fits, err
		}
		nodes, err := fewest(min(maxMore, missing.Least), enough)
		if err != nil {
			return nil, err
		}
		if nodes > 0 {
			out = append(out, more{d.stage.Nodes()[k.like].Name, nodes})
		}
	}
	slices.SortStableFunc(out, func(a, b more) int { return a.nodes - b.nodes })
	return out, nil
}

// onFresh returns a gang for equal new nodes in place of the nodes of the cluster.
func (r *request) onFresh(g whatif.Gang, object *v1.Node, nodes int) whatif.Gang {
	out, wants := whatif.Gang{Least: g.Least}, map[*whatif.Want]*whatif.Want{}
	for _, m := range g.Pods {
		w := wants[m.Want]
		if w == nil {
			fresh := *m.Want
			fresh.Bars, fresh.Peers = nil, nil
			w = &fresh
			wants[m.Want] = w
			if bars := r.barsOf(m.Want, object); len(bars) > 0 {
				w.Bars = &whatif.Bars{Why: slices.Repeat([][]place.Reason{bars}, nodes)}
			}
		}
		out.Pods = append(out.Pods, whatif.Member{ID: m.ID, Want: w})
	}
	return out
}

// barsOf returns why the pods of a want may not go to a new node.
func (r *request) barsOf(w *whatif.Want, object *v1.Node) []place.Reason {
	for i := range r.sets {
		if s := &r.sets[i]; object != nil && s.Pod.Pod.Shape() == w.Pod.Shape() {
			if bars, err := kube.Bars(s.pod, kube.RequiredAffinity(s.pod), object); err == nil && len(bars) > 0 {
				return bars
			}
		}
	}
	return nil
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

// grows returns the condition that tells whether more nodes would help a request, and records it for the metric.
func (d *deciding) grows(ctx context.Context, r *request, rules whatif.Rules, gang whatif.Gang,
	found whatif.GangOutcome) metav1.Condition {
	all, err := d.growth(ctx, r, rules, gang, found)
	r.more = more{}
	switch {
	case err != nil:
		return condition(provisioning.MoreNodes, false, "NotSearched", "not searched: "+err.Error())
	case len(all) == 0:
		return condition(provisioning.MoreNodes, false, "WouldNotHelp", "more nodes of the kinds that the cluster has would "+
			"not take all pods")
	}
	r.more = all[0]
	var texts []string
	for _, m := range all[:min(len(all), namedKinds)] {
		texts = append(texts, fmt.Sprintf("%d more like %s", m.nodes, m.like))
	}
	return condition(provisioning.MoreNodes, true, "WouldHelp", "all pods would fit with "+strings.Join(texts, ", or "))
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
