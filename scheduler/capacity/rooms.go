package capacity

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/whatif"
	"github.com/tenon-numa/tenon/scheduler/promise"
)

// This file finds out cheaply that a request still has no room. For each kind of pods it has how many of them fit on
// each node, and counts again only on nodes that have changed. What it counts is a bound: a request whose pods are
// equal has no room if fewer fit on all nodes together. Pods that keep each other from nodes are not regarded, so only
// the search of package whatif finds room.

// rooms is what fits on nodes, from round to round.
type rooms struct {
	nodes []known
	// changes has, by node, how often it has changed, plus one, and left what it has left of the amounts that most pods
	// request. Every kind reads these of every node.
	changes []uint32
	left    []basic
	at      map[string]int // the position of each node in nodes
	kinds   map[string]*kind
	round   uint32
	changed uint32 // the latest round in which a node had changed
}

// known is a node as it was when it changed last.
type known struct {
	node   whatif.Node
	object *v1.Node // nil if labels and taints are unknown
	round  uint32   // when it was there last
}

// basic are amounts that no driver serves.
type basic struct{ cpu, memory, pods int64 }

// lacks reports whether one of the amounts is less than another one.
func (b basic) lacks(needs basic) bool {
	return b.cpu < needs.cpu || b.memory < needs.memory || b.pods < needs.pods
}

// basicOf returns the amounts that a function returns by name.
func basicOf(amount func(name string) int64) basic {
	return basic{amount("cpu"), amount("memory"), amount("pods")}
}

// leftOn returns what a node has left at most: kept room counts as left.
func leftOn(n *whatif.Node) basic {
	return basicOf(func(name string) int64 {
		if n.Uncounted[name] {
			return math.MaxInt64
		}
		return n.Left(name)
	})
}

// kind is a number of equal pods.
type kind struct {
	want     whatif.Want
	pod      *v1.Pod
	affinity nodeaffinity.RequiredNodeAffinity
	rules    whatif.Rules
	needs    basic // of one pod
	most     int
	// room has, by node, how many of the pods fit there, and at the change of the node when that was counted, or 0.
	room  []uint8
	at    []uint32
	sum   int
	round uint32 // when it was asked for last
}

// maxKinds bounds the kinds. Each takes 5 bytes for each node. Pods of further kinds are searched for.
const maxKinds = 2_000

// keptFor is for how many rounds a kind is kept that no request asks for.
const keptFor = 1_000

// update compares the nodes of a round with those before.
func (r *rooms) update(nodes []whatif.Node, objects []*v1.Node) {
	if len(r.nodes) > 2*len(nodes)+100 { // most are gone
		*r = rooms{round: r.round}
	}
	if r.at == nil {
		r.at, r.kinds = map[string]int{}, map[string]*kind{}
	}
	maps.DeleteFunc(r.kinds, func(_ string, k *kind) bool { return k.round+keptFor < r.round })
	r.round++
	for i := range nodes {
		at, there := r.at[nodes[i].Name]
		if !there {
			at = len(r.nodes)
			r.at[nodes[i].Name] = at
			r.nodes, r.changes, r.left = append(r.nodes, known{}), append(r.changes, 0), append(r.left, basic{})
		}
		var object *v1.Node
		if objects != nil {
			object = objects[i]
		}
		x := &r.nodes[at]
		if r.changes[at] == 0 || x.node.Gone || !alike(&x.node, &nodes[i]) || !takesAlike(x.object, object) {
			x.node, x.object = nodes[i], object
			r.change(at, leftOn(&x.node))
		}
		x.round = r.round
	}
	for i := range r.nodes {
		if x := &r.nodes[i]; x.round != r.round && !x.node.Gone {
			x.node = whatif.Node{Name: x.node.Name, Gone: true}
			r.change(i, basic{})
		}
	}
}

// change records that a node has changed.
func (r *rooms) change(at int, left basic) {
	r.changes[at]++
	r.left[at], r.changed = left, r.round
}

// alike reports whether the same pods fit on two forms of a node, as far as amounts and NUMA nodes go.
func alike(a, b *whatif.Node) bool {
	return a.State == b.State && maps.Equal(a.Allocatable, b.Allocatable) && maps.Equal(a.Used, b.Used) &&
		maps.Equal(a.Served, b.Served)
}

// takesAlike reports whether two forms of a node have the same labels and taints.
func takesAlike(a, b *v1.Node) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Spec.Unschedulable == b.Spec.Unschedulable && maps.Equal(a.Labels, b.Labels) &&
		slices.EqualFunc(a.Spec.Taints, b.Spec.Taints, func(x, y v1.Taint) bool {
			return x.MatchTaint(&y) && x.Value == y.Value
		})
}

// short reports whether too few nodes have room for the pods of a set: they do not fit.
func (r *rooms) short(s *set, scheduler string, rules whatif.Rules) bool {
	name := fmt.Sprintf("%s %d %s", scheduler, s.count, s.text)
	k := r.kinds[name]
	switch {
	case k == nil && len(r.kinds) >= maxKinds:
		return false
	case k == nil:
		k = &kind{want: whatif.Want{Pod: s.Pod.Pod, Demand: s.Demand, Needs: withPlace(s.Needs)}, pod: s.pod,
			affinity: kube.RequiredAffinity(s.pod), rules: rules, most: s.count,
			needs: basicOf(func(name string) int64 { return s.Needs[name] })}
		r.kinds[name] = k
	}
	k.round = r.round
	if more := len(r.nodes) - len(k.room); more > 0 {
		k.room, k.at = append(k.room, make([]uint8, more)...), append(k.at, make([]uint32, more)...)
	}
	for i, change := range r.changes {
		if k.at[i] != change { // what was counted does not count any more
			k.sum -= int(k.room[i])
			k.room[i], k.at[i] = 0, 0
		}
	}
	for i, change := range r.changes {
		if k.sum >= k.most {
			return false
		}
		if k.at[i] != 0 {
			continue
		}
		n := 0
		if !r.left[i].lacks(k.needs) {
			n = k.on(&r.nodes[i])
		}
		k.sum += n
		k.room[i], k.at[i] = uint8(n), change
	}
	return k.sum < k.most
}

// on counts the pods that fit on a node.
func (k *kind) on(x *known) int {
	if x.object != nil {
		if bars, err := kube.Bars(k.pod, k.affinity, x.object); err == nil && len(bars) > 0 {
			return 0
		}
	}
	return k.rules.Room(x.node, &k.want, min(k.most, promise.MaxOnNode))
}

// maxWishes bounds what a pod may say about its nodes, since it is read for each node.
const maxWishes = 64 << 10

// textOf returns a text that is equal for pods that the same nodes take.
func textOf(p *v1.Pod, x promise.Pod) (string, error) {
	data, err := json.Marshal([]any{x.Demand, x.Needs, p.Spec.NodeName, p.Spec.NodeSelector, p.Spec.Affinity,
		p.Spec.Tolerations})
	if err != nil {
		return "", fmt.Errorf("compare pods: %w", err)
	}
	if len(data) > maxWishes {
		return "", fmt.Errorf("selectors, affinity and tolerations of a pod have %d bytes, at most %d", len(data), maxWishes)
	}
	sum := sha256.Sum256(append(data, x.Pod.Shape()...))
	return string(sum[:]), nil
}
