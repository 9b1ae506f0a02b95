package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/assign"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/scheduler/arrange"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// NewGroups makes the plugin TenonGroups for a profile of any kube-scheduler of 1.37 or later. The profile disables
// TopologyPlacementGenerator by multiPoint, and enables TenonGroups before all others.
func NewGroups(ctx context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	return schedulers.of(ctx, h.SharedInformerFactory()).Groups()(ctx, obj, h)
}

// Groups is the name of the plugin that NewGroups makes.
const Groups = arrange.Name

// Groups returns the factory of the plugin TenonGroups.
func (s *Shared) Groups() Factory {
	return func(ctx context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		return arrange.New(ctx, obj, h, places{s, profileOf(h)})
	}
}

var (
	errNoPlugin = errors.New("the profile does not have the plugin")
	errApart    = errors.New("its pods do not fit together, whichever nodes they get")
)

// gang is the pods of a gang that hold something exclusively.
type gang struct {
	members []member
	plain   int // how many other pods the gang has
}

// member is a pod of a gang that holds something exclusively. All nodes judge pods of one kind alike.
type member struct {
	*podState
	pod      *v1.Pod
	needs    v1.ResourceList
	affinity nodeaffinity.RequiredNodeAffinity
	kind     string
	effort   int // as in assign.Pod
}

// perEffort is how many bytes of what a pod asks of a node are compared in the time that placing a container takes.
const perEffort = 8 << 10

// traits are what nodes judge a pod by, beside its shape and its demand.
type traits struct {
	Spec  v1.PodSpec
	Needs v1.ResourceList
}

// newGang returns the pods of a gang. What they ask of nodes is read once for each kind: the affinity of a pod may have
// thousands of terms.
func newGang(pods []*v1.Pod) (g *gang, err error) {
	g = &gang{}
	first := map[string]member{} // by the text of their traits
	for _, pod := range pods {
		s, status := translate(pod)
		if status != nil {
			return nil, fmt.Errorf("pod %s: %s", pod.Name, status.Message())
		}
		if s.pod.Plain() {
			g.plain++
			continue
		}
		m := member{podState: s, pod: pod, needs: kube.Requests(pod)}
		text, err := json.Marshal(traits{v1.PodSpec{NodeName: pod.Spec.NodeName, NodeSelector: pod.Spec.NodeSelector,
			Affinity: pod.Spec.Affinity, Tolerations: pod.Spec.Tolerations, ResourceClaims: pod.Spec.ResourceClaims}, m.needs})
		if err != nil {
			return nil, fmt.Errorf("pod %s: %w", pod.Name, err)
		}
		key := fmt.Sprintf("%s %v %s", s.shape, s.demand, text)
		like, known := first[key]
		if !known {
			like.affinity, like.kind = kube.RequiredAffinity(pod), strconv.Itoa(len(first))
			first[key] = like
		}
		m.affinity, m.kind, m.effort = like.affinity, like.kind, 1+len(text)/perEffort
		g.members = append(g.members, m)
	}
	return g, nil
}

// unequal reports whether the pods of a gang are of several kinds, or related to each other. Other pods of one kind get
// every place that there is, one by one.
func (g *gang) unequal() bool {
	return slices.ContainsFunc(g.members, func(m member) bool { return m.kind != g.members[0].kind || m.demand.Relates() })
}

// planner plans the nodes of a gang's pods. Pods that hold nothing exclusively may have any node.
type planner struct {
	at places
	*gang
}

// Gang implements arrange.Planner.
func (w places) Gang(pods []*v1.Pod) arrange.Gang {
	if surelyEqual(pods) {
		return nil
	}
	if g, err := newGang(pods); err == nil && g.unequal() {
		return planner{w, g}
	}
	return nil
}

// Plan implements arrange.Gang.
func (g planner) Plan(nodes []fwk.NodeInfo, least, budget int, barred func(uid, node string) bool) (arrange.Plan, int,
	error) {
	p := g.at.plugin()
	if p == nil {
		return arrange.Plan{}, budget, errNoPlugin
	}
	problem := p.problem(g.gang, nodes, least, barred)
	problem.Budget = budget
	problem.Room = func(node int, pods []int) bool {
		return hasRoom(nodes[node], g.members, pods, nil) && p.leavesKept(nodes[node], g.members, pods)
	}
	at, left := assign.FindLeft(problem)
	spent := at == nil && left < 0
	p.metrics.GangSearched(at != nil, spent)
	switch {
	case spent:
		return arrange.Plan{}, left, errors.New("the search for nodes for all its pods took too long")
	case at == nil:
		return arrange.Plan{}, left, errApart
	}
	out := arrange.Plan{At: map[string]string{}, Out: map[string]bool{}}
	for i, node := range at {
		if node == assign.Left {
			out.Out[g.members[i].uid] = true
		} else {
			out.At[g.members[i].uid] = nodes[node].Node().Name
		}
	}
	return out, left, nil
}

// leavesKept reports whether a node has the amounts for members of a gang besides those that are kept for others.
func (p *Plugin) leavesKept(info fwk.NodeInfo, members []member, pods []int) bool {
	kept := p.promises.Amounts(info.Node().Name, "")
	if len(kept) == 0 {
		return true
	}
	for _, i := range pods {
		request := apipod.Request(members[i].pod)
		if request != "" && slices.Contains(p.promises.Nodes(request), info.Node().Name) {
			return true // what is kept may be for these pods; Filter compares
		}
		needs, _ := kube.Needs(members[i].pod)
		kept = kept.Add(needs)
	}
	return hasAmounts(info, kept)
}

// problem returns the problem of placing the pods of a gang, but for Room and Budget.
func (p *Plugin) problem(g *gang, nodes []fwk.NodeInfo, least int, barred func(uid, node string) bool) assign.Problem {
	request := ""
	if len(g.members) > 0 { // the pods of a gang use up the room of one request
		request = apipod.Request(g.members[0].pod)
	}
	problem := assign.Problem{Nodes: make([]*state.Node, len(nodes)), Least: least - g.plain}
	for i, info := range nodes {
		if n := p.nodeNow(info.Node().Name); n != nil && p.guard.Distrusts(n) == 0 {
			problem.Nodes[i] = n.WithoutPromisesTo(request)
		}
	}
	at := make([]string, len(g.members))
	for i, m := range g.members {
		at[i] = p.partnersOf(m.pod, m.demand.Together, nodes)
		problem.Pods = append(problem.Pods, assign.Pod{ID: kube.ID(m.pod), Pod: m.podState.pod, Demand: m.demand,
			Kind: m.kind, Effort: m.effort})
	}
	problem.Barred = func(node, i int) bool {
		if at[i] != "" && at[i] != nodes[node].Node().Name {
			return true
		}
		return p.bars(g, &g.members[i], problem.Nodes[node], nodes[node], barred)
	}
	return problem
}

// Rank returns the score of each placement of a group, of 0 to 100, by the strategy of the profile.
func (w places) Rank(costs [][]int64) []int64 {
	if p := w.plugin(); p != nil {
		return p.strategy.ScoresTogether(costs)
	}
	return make([]int64, len(costs))
}

// bars reports whether something else than NUMA nodes keeps a member of a gang from a node: the node's name, taints and
// labels, the guard, or a refusal of this member or one of its kind.
func (p *Plugin) bars(g *gang, m *member, n *state.Node, info fwk.NodeInfo, refused func(uid, node string) bool) bool {
	for i := range g.members {
		if o := &g.members[i]; o.kind == m.kind && refused(o.uid, n.Name) {
			return true
		}
	}
	bars, err := kube.Bars(m.pod, m.affinity, info.Node())
	return err != nil || len(bars) > 0 || p.guard.Refuses(n, m.podState.pod, m.demand) != 0
}

// hasRoom reports whether a node has the CPUs, memory, storage and devices that members of a gang request together,
// without regard to NUMA nodes, once the pods in gone have left it. Resources that the node does not announce are not
// counted, as drivers may have them.
func hasRoom(info fwk.NodeInfo, members []member, pods []int, gone []*v1.Pod) bool {
	all, used := info.GetAllocatable(), info.GetRequested()
	if len(info.GetPods())-len(gone)+len(pods) > all.GetAllowedPodNumber() {
		return false
	}
	needs, freed := amounts{}, amounts{}
	for _, i := range pods {
		needs.add(members[i].needs)
	}
	for _, pod := range gone {
		freed.add(kube.Requests(pod))
	}
	if needs.cpu > 0 && needs.cpu > all.GetMilliCPU()-used.GetMilliCPU()+freed.cpu {
		return false
	}
	const memory, disk = v1.ResourceMemory, v1.ResourceEphemeralStorage
	if n := needs.of[memory]; n > 0 && n > all.GetMemory()-used.GetMemory()+freed.of[memory] {
		return false
	}
	if n := needs.of[disk]; n > 0 && n > all.GetEphemeralStorage()-used.GetEphemeralStorage()+freed.of[disk] {
		return false
	}
	for name, n := range needs.of {
		if most, has := all.GetScalarResources()[name]; has && n > 0 &&
			n > most-used.GetScalarResources()[name]+freed.of[name] {
			return false
		}
	}
	return true
}

// amounts are sums of requests: CPUs in thousandths, and everything else by its name.
type amounts struct {
	cpu int64
	of  map[v1.ResourceName]int64
}

func (a *amounts) add(list v1.ResourceList) {
	if a.of == nil {
		a.of = map[v1.ResourceName]int64{}
	}
	a.cpu += list.Cpu().MilliValue()
	for name, q := range list {
		a.of[name] += q.Value()
	}
}
