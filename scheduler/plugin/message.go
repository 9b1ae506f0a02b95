package plugin

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/api/config"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/guard"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/summary"
	"github.com/tenon-numa/tenon/core/whatif"
	"github.com/tenon-numa/tenon/scheduler/fwk"
	"github.com/tenon-numa/tenon/scheduler/report"
)

// This file writes the message of a failed attempt, for the event and the condition of the pod. It begins with the one
// sentence that the commands and the console show, made of the same facts; see package summary.

const amountsName = "NodeResourcesFit"

// maxKinds bounds the kinds of nodes, with the same machine and rules, for which permanent reasons are computed that
// no plugin has found.
const maxKinds = 64

// setMessage sets the message of a failed attempt from the results of the nodes, which it does not change.
func (p *Plugin) setMessage(pod *v1.Pod, why *framework.FitError) {
	d := &why.Diagnosis
	if p.name == config.Match || d.PreFilterMsg != "" || d.NodeToStatus == nil {
		return
	}
	counts := map[string]int{}
	d.NodeToStatus.ForEachExplicitNode(func(_ string, status *fwk.Status) {
		for _, reason := range status.Reasons() {
			counts[reason]++
		}
	})
	if absent := why.NumAllNodes - d.NodeToStatus.Len(); absent > 0 {
		for _, reason := range d.NodeToStatus.AbsentNodesStatus().Reasons() {
			counts[reason] += absent
		}
	}
	s := summary.Summary{}
	f, err := p.facts(pod, d.NodeToStatus)
	switch {
	case err != nil:
		p.logger.Error(err, "An event has no summary", "pod", klog.KObj(pod))
	case f != nil:
		s = f.sentence()
		for _, x := range f.hidden {
			counts[p.text(f.s.pod, x.reason)] += x.count
		}
	}
	d.PreFilterMsg = report.NoNode(s, counts)
}

// facts returns what the nodes answer to a pod that none of them has taken. all has the results of the nodes. facts
// returns nil if the pod cannot be read.
func (p *Plugin) facts(pod *v1.Pod, all *framework.NodeToStatus) (*facts, error) {
	infos, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	f, ok := p.newFacts(pod)
	if !ok {
		return nil, nil
	}
	for _, info := range infos {
		if info.Node() != nil {
			f.judge(info, all.Get(info.Node().Name))
		}
	}
	return f, nil
}

// facts gathers what the nodes answer to the pod of an attempt.
type facts struct {
	p        *Plugin
	pod      *v1.Pod
	s        *podState
	want     whatif.Want
	affinity nodeaffinity.RequiredNodeAffinity
	// plain: neither labels nor the name of a node matter to the pod.
	plain bool
	never map[*place.Usage][]place.Reason // by the node without pods, at most maxKinds
	out   summary.Facts
	infos []fwk.NodeInfo // by position of out.Nodes
	// short are the positions of nodes that lack only amounts: the first ones by name, as many as are searched.
	short []int
	// hidden are permanent reasons of nodes that NodeResourcesFit has refused before this plugin was asked. The list of
	// the message has them, too.
	hidden map[string]*hiddenReason
}

// hiddenReason is a reason of several nodes, with the highest of their amounts.
type hiddenReason struct {
	reason place.Reason
	count  int
}

// hide counts the permanent reasons of a node.
func (f *facts) hide(reasons []place.Reason) {
	for _, r := range reasons {
		key := whatif.Alike("", []place.Reason{r})
		if x := f.hidden[key]; x == nil {
			f.hidden[key] = &hiddenReason{r, 1}
		} else {
			x.reason.Have, x.count = max(x.reason.Have, r.Have), x.count+1
		}
	}
}

// newFacts begins with a pod; ok is false if it cannot be read.
func (p *Plugin) newFacts(pod *v1.Pod) (f *facts, ok bool) {
	f = &facts{p: p, pod: pod, never: map[*place.Usage][]place.Reason{}, hidden: map[string]*hiddenReason{},
		affinity: kube.RequiredAffinity(pod),
		plain:    pod.Spec.Affinity == nil && len(pod.Spec.NodeSelector) == 0,
		out:      summary.Facts{Namespace: pod.Namespace}}
	if c := p.last.Load(); c != nil && c.state.uid == string(pod.UID) {
		f.s = c.state
	} else {
		s, status := translate(pod)
		if status != nil {
			return nil, false
		}
		s.snap = p.Book.Snapshot()
		f.s = s
	}
	needs, _ := kube.Needs(pod) // NodeResourcesFit has accepted or refused the amounts already
	f.want = whatif.Want{Pod: f.s.pod, Demand: f.s.demand, Needs: needs}
	return f, true
}

// judge adds what a node answers. status is what kube-scheduler's plugins have answered. These stop at the first
// refusal, so judge also looks for reasons that last longer.
func (f *facts) judge(info fwk.NodeInfo, status *fwk.Status) {
	node := info.Node()
	n := f.s.snap.Node(node.Name)
	reasons, known := f.lasting(info, n, status)
	if !known {
		f.out.NotJudged++
		return
	}
	more := f.said(n, status)
	if len(more) == 0 && len(reasons) == 0 {
		f.out.NotJudged++ // nothing but the missing report keeps the pod away
		return
	}
	reasons = whatif.Join(reasons, more)
	slices.SortStableFunc(reasons, func(a, b place.Reason) int { return a.When().Compare(b.When()) })
	by := status.Plugin()
	if at := len(f.out.Nodes); reasons[0].When() == place.Later && (by == f.p.name || by == amountsName) {
		f.keepShort(at, node.Name)
	}
	f.infos = append(f.infos, info)
	f.out.Nodes = append(f.out.Nodes, summary.Node{Name: node.Name, Reasons: reasons,
		Estimated: n != nil && n.Quality == state.Estimated, Inexact: n != nil && len(n.Inexact) > 0})
}

// lasting returns the reasons why the pod would not go to the node even if it were empty, and what plain amounts it
// lacks now. known is false if there are too many kinds of nodes to find that out.
func (f *facts) lasting(info fwk.NodeInfo, n *state.Node, status *fwk.Status) (out []place.Reason, known bool) {
	node := info.Node()
	if !f.plain || node.Spec.Unschedulable || len(node.Spec.Taints) > 0 {
		out, _ = kube.Bars(f.pod, f.affinity, node) // an error is NodeAffinity's, which has refused the node then
	}
	out = append(out, f.lacks(info, status.Plugin() == amountsName)...)
	if n == nil || f.s.pod.Plain() {
		return out, true
	}
	empty := n.Empty()
	never, known := f.never[empty]
	switch {
	case known:
	case len(f.never) < maxKinds:
		never = n.NeverMeets(f.s.pod, f.s.demand)
		f.never[empty] = never
	case status.Plugin() != f.p.name && (len(out) == 0 || out[0].When() == place.Later):
		return nil, false
	}
	if status.Plugin() == amountsName {
		f.hide(never)
	}
	return whatif.Join(out, never), true
}

// keepShort keeps the position of a node that lacks only amounts, if its name is among the first ones.
func (f *facts) keepShort(at int, name string) {
	i, _ := slices.BinarySearchFunc(f.short, name, func(k int, name string) int {
		return strings.Compare(f.infos[k].Node().Name, name)
	})
	if i < whatif.MaxSoonest {
		f.short = slices.Insert(f.short, i, at)
		f.short = f.short[:min(len(f.short), whatif.MaxSoonest)]
	}
}

// lacks returns the plain amounts that a node lacks. Extended resources count only if NodeResourcesFit has refused the
// node, because it knows whether DRA serves them.
func (f *facts) lacks(info fwk.NodeInfo, refused bool) []place.Reason {
	var n whatif.Node
	have, used := info.GetAllocatable(), info.GetRequested()
	for name, want := range f.want.Needs {
		all, taken := int64(0), int64(0)
		switch v1.ResourceName(name) {
		case v1.ResourceCPU:
			all, taken = have.GetMilliCPU(), used.GetMilliCPU()
		case v1.ResourceMemory:
			all, taken = have.GetMemory(), used.GetMemory()
		case v1.ResourceEphemeralStorage:
			all, taken = have.GetEphemeralStorage(), used.GetEphemeralStorage()
		case v1.ResourcePods:
			all, taken = int64(have.GetAllowedPodNumber()), int64(len(info.GetPods()))
		default:
			if !refused {
				continue
			}
			all, taken = have.GetScalarResources()[v1.ResourceName(name)], used.GetScalarResources()[v1.ResourceName(name)]
		}
		if want <= 0 || want <= all-taken {
			continue
		}
		if n.Allocatable == nil {
			n.Allocatable, n.Used = whatif.Amounts{}, whatif.Amounts{}
		}
		n.Allocatable[name], n.Used[name] = all, taken
	}
	if n.Allocatable == nil {
		return nil
	}
	needs := whatif.Amounts{}
	for name := range n.Allocatable {
		needs[name] = f.want.Needs[name]
	}
	return n.Lacks(needs)
}

// families has a reason for each of kube-scheduler's plugins that say less than Tenon's commands do, if the end of pods
// may help, and if it does not. The sentence has the same words for all such reasons.
var families = map[string][2]place.Code{
	"InterPodAffinity":   {place.PodAntiAffinity, place.PodAffinity},
	"PodTopologySpread":  {place.Uneven, place.NoDomain},
	"NodePorts":          {place.PortTaken, place.PortTaken},
	"VolumeBinding":      {place.VolumeLimit, place.VolumeElsewhere},
	"VolumeZone":         {place.VolumeLimit, place.VolumeElsewhere},
	"VolumeRestrictions": {place.ClaimInUse, place.ClaimInUse},
	"NodeVolumeLimits":   {place.VolumeLimit, place.VolumeLimit},
	"NodeName":           {},
	"NodeUnschedulable":  {},
	"TaintToleration":    {},
	"NodeAffinity":       {},
	amountsName:          {},
}

// said returns the reasons that follow from the plugin's answer alone. n is nil if the ledger does not have the node.
func (f *facts) said(n *state.Node, status *fwk.Status) []place.Reason {
	lasts := status.Code() == fwk.UnschedulableAndUnresolvable
	if status.Plugin() == f.p.name {
		return f.own(n, status)
	}
	codes, known := families[status.Plugin()]
	switch {
	case known && codes[0] == "", len(status.Reasons()) == 0:
		return nil // lasting has found the reasons
	case known && lasts:
		return []place.Reason{{Code: codes[1]}}
	case known:
		return []place.Reason{{Code: codes[0]}}
	}
	r := place.Reason{Code: place.ByPlugin, Resource: strings.Join(status.Reasons(), ", ")}
	if lasts {
		r.Want = 1
	}
	return []place.Reason{r}
}

// own returns this plugin's reasons on a node that it has refused.
func (f *facts) own(n *state.Node, status *fwk.Status) []place.Reason {
	if n == nil {
		return nil
	}
	why := f.p.guard.Distrusts(n)
	if slot, ok := f.s.snap.Slot(n.Name); why == 0 && ok && f.s.answers != nil {
		if _, refusal := f.p.answer(f.s, slot); refusal != nil {
			return refusal.Reasons
		}
	}
	if why == 0 {
		why = f.p.guard.Refuses(n, f.s.pod, f.s.demand)
	}
	if why != 0 && why != guard.NotKnown {
		return []place.Reason{whatif.BarReason(why, n)}
	}
	return []place.Reason{{Code: place.ByPlugin, Resource: strings.Join(status.Reasons(), ", ")}}
}

// sentence returns the sentence that follows from all facts.
func (f *facts) sentence() summary.Summary {
	at := 0
	f.out.Soonest = whatif.Rules{}.Soonest(func() *whatif.Node {
		if at == len(f.short) {
			return nil
		}
		at++
		return f.whole(f.short[at-1])
	}, &f.want)
	f.out.Fitting = func(i int, r place.Reason) int64 { return f.whole(i).Fitting(&f.want, r) }
	return summary.Of(&f.out)
}

// whole returns a node with its amounts and its pods.
func (f *facts) whole(at int) *whatif.Node {
	info := f.infos[at]
	out := &whatif.Node{Name: info.Node().Name, State: f.s.snap.Node(info.Node().Name), Used: whatif.Amounts{}}
	out.Allocatable, _ = kube.Amounts(info.Node().Status.Allocatable)
	for _, x := range info.GetPods() {
		if kube.Ended(x.GetPod()) {
			continue
		}
		needs, _ := kube.Needs(x.GetPod())
		out.Used = out.Used.Add(needs)
		out.Pods = append(out.Pods, whatif.Resident{Pod: kube.ID(x.GetPod()), Needs: needs,
			Stays: kube.GoesWithNode(x.GetPod())})
	}
	return out
}
