package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

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

// searchBudget bounds the containers that a search for the nodes of a gang places.
const searchBudget = assign.SchedulerBudget

var (
	errNoPlugin = errors.New("the profile does not have the plugin")
	errApart    = errors.New("its pods do not fit together, whichever nodes they get")
)

// member is a pod of a gang that holds something exclusively.
type member struct {
	*podState
	pod   *v1.Pod
	needs v1.ResourceList
}

// members returns the pods of a gang that hold something exclusively, with the kind of each: all nodes judge pods of
// one kind alike. plain is how many other pods the gang has.
func members(pods []*v1.Pod) (out []member, kinds []string, plain int, err error) {
	for _, pod := range pods {
		s, status := translate(pod)
		if status != nil {
			return nil, nil, 0, fmt.Errorf("pod %s: %s", pod.Name, status.Message())
		}
		if s.pod.Plain() {
			plain++
			continue
		}
		spec := &v1.PodSpec{NodeName: pod.Spec.NodeName, NodeSelector: pod.Spec.NodeSelector, Affinity: pod.Spec.Affinity,
			Tolerations: pod.Spec.Tolerations}
		where, err := json.Marshal(spec)
		if err != nil {
			return nil, nil, 0, fmt.Errorf("pod %s: %w", pod.Name, err)
		}
		out = append(out, member{s, pod, kube.Requests(pod)})
		kinds = append(kinds, fmt.Sprintf("%s %v %s", s.shape, s.demand, where))
	}
	return out, kinds, plain, nil
}

// Unequal reports whether the pods of a gang are of several kinds, or related to each other. Other pods of one kind get
// every place that there is, one by one.
func (w places) Unequal(pods []*v1.Pod) bool {
	gang, kinds, _, err := members(pods)
	return err == nil && len(kinds) > 0 && (slices.ContainsFunc(kinds, func(k string) bool { return k != kinds[0] }) ||
		slices.ContainsFunc(gang, func(m member) bool { return m.demand.Relates() }))
}

// Plan finds nodes for the pods of a gang. Pods that hold nothing exclusively may have any node.
func (w places) Plan(pods []*v1.Pod, nodes []fwk.NodeInfo, least int, barred func(uid, node string) bool) (
	arrange.Plan, error) {
	p := w.plugin()
	if p == nil {
		return arrange.Plan{}, errNoPlugin
	}
	problem, gang, err := p.problem(pods, nodes, least, barred)
	if err != nil {
		return arrange.Plan{}, err
	}
	problem.Room = func(node int, pods []int) bool {
		return hasRoom(nodes[node], gang, pods, nil) && p.leavesKept(nodes[node], gang, pods)
	}
	at, spent := assign.Find(problem)
	p.metrics.GangSearched(at != nil, spent)
	switch {
	case spent:
		return arrange.Plan{}, errors.New("the search for nodes for all its pods took too long")
	case at == nil:
		return arrange.Plan{}, errApart
	}
	out := arrange.Plan{At: map[string]string{}, Out: map[string]bool{}}
	for i, node := range at {
		if node == assign.Left {
			out.Out[gang[i].uid] = true
		} else {
			out.At[gang[i].uid] = nodes[node].Node().Name
		}
	}
	return out, nil
}

// leavesKept reports whether a node has the amounts for members of a gang besides those that are kept for others.
func (p *Plugin) leavesKept(info fwk.NodeInfo, gang []member, pods []int) bool {
	kept := p.promises.Amounts(info.Node().Name, "")
	if len(kept) == 0 {
		return true
	}
	for _, i := range pods {
		request := apipod.Request(gang[i].pod)
		if request != "" && slices.Contains(p.promises.Nodes(request), info.Node().Name) {
			return true // what is kept may be for these pods; Filter compares
		}
		needs, _ := kube.Needs(gang[i].pod)
		kept = kept.Add(needs)
	}
	return hasAmounts(info, kept)
}

// problem returns the problem of placing the pods of a gang, but for Room, and the pods that hold something
// exclusively.
func (p *Plugin) problem(pods []*v1.Pod, nodes []fwk.NodeInfo, least int, barred func(uid, node string) bool) (
	problem assign.Problem, gang []member, err error) {
	gang, kinds, plain, err := members(pods)
	if err != nil {
		return problem, nil, err
	}
	request := ""
	if len(gang) > 0 { // the pods of a gang use up the room of one request
		request = apipod.Request(gang[0].pod)
	}
	problem = assign.Problem{Nodes: make([]*state.Node, len(nodes)), Least: least - plain, Budget: searchBudget}
	for i, info := range nodes {
		if n := p.nodeNow(info.Node().Name); n != nil && p.guard.Distrusts(n) == 0 {
			problem.Nodes[i] = n.WithoutPromisesTo(request)
		}
	}
	at := make([]string, len(gang))
	for i, m := range gang {
		at[i] = p.partnersOf(m.pod, m.demand.Together, nodes)
		problem.Pods = append(problem.Pods, assign.Pod{ID: kube.ID(m.pod), Pod: m.podState.pod, Demand: m.demand,
			Kind: kinds[i]})
	}
	problem.Barred = func(node, i int) bool {
		if at[i] != "" && at[i] != nodes[node].Node().Name {
			return true
		}
		return p.bars(gang, kinds, i, problem.Nodes[node], nodes[node], barred)
	}
	return problem, gang, nil
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
func (p *Plugin) bars(gang []member, kinds []string, i int, n *state.Node, info fwk.NodeInfo,
	refused func(uid, node string) bool) bool {
	m := gang[i]
	for k := range gang {
		if kinds[k] == kinds[i] && refused(gang[k].uid, n.Name) {
			return true
		}
	}
	bars, err := kube.Bars(m.pod, kube.RequiredAffinity(m.pod), info.Node())
	return err != nil || len(bars) > 0 || p.guard.Refuses(n, m.podState.pod, m.demand) != 0
}

// hasRoom reports whether a node has the CPUs, memory and devices that members of a gang request together, without
// regard to NUMA nodes, once the pods in gone have left it. Resources that the node does not announce are not counted,
// as drivers may have them.
func hasRoom(info fwk.NodeInfo, gang []member, pods []int, gone []*v1.Pod) bool {
	all, used := info.GetAllocatable(), info.GetRequested()
	if len(info.GetPods())-len(gone)+len(pods) > all.GetAllowedPodNumber() {
		return false
	}
	cpu, memory, scalars := used.GetMilliCPU(), used.GetMemory(), map[v1.ResourceName]int64{}
	for _, pod := range gone {
		needs := kube.Requests(pod)
		cpu -= needs.Cpu().MilliValue()
		memory -= needs.Memory().Value()
		for name, q := range needs {
			scalars[name] -= q.Value()
		}
	}
	for _, i := range pods {
		needs := gang[i].needs
		cpu += needs.Cpu().MilliValue()
		memory += needs.Memory().Value()
		for name, q := range needs {
			scalars[name] += q.Value()
		}
	}
	if cpu > all.GetMilliCPU() || memory > all.GetMemory() {
		return false
	}
	for name, most := range all.GetScalarResources() {
		if used.GetScalarResources()[name]+scalars[name] > most {
			return false
		}
	}
	return true
}
