package plugin

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
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
	"github.com/tenon-numa/tenon/scheduler/steer"
)

// This file writes the message of a failed attempt, for the event and the condition of the pod. It begins with the one
// sentence that the commands and the console show, made of the same facts; see package summary.
//
// The scheduling loop only gathers what the sentence depends on, because its snapshot of the cluster changes with the
// next attempt. The verdicts that the sentence takes are computed beside the loop, for one pod at a time.

const amountsName = "NodeResourcesFit"

const (
	// maxKinds bounds the kinds of nodes, with the same machine and rules, for which permanent reasons are computed that
	// no plugin has found.
	maxKinds = 64
	// maxGathered bounds the attempts whose facts are kept until their sentence is written. A message of any further
	// attempt has no sentence: the facts of one attempt take some hundred bytes for each node of the cluster.
	maxGathered = 16
	// maxNear bounds the nodes whose pods are kept, to find the pods to wait for. Some of them turn out to refuse the
	// pod for a reason that lasts, so they are more than the search looks at.
	maxNear = 2 * whatif.MaxSoonest
	// maxInLoop bounds the nodes of clusters where a sentence is written in the scheduling loop if it has to be: for pods
	// that may evict others, and for pods of groups.
	maxInLoop = 1000
)

// sentences bounds what the sentences of all profiles cost.
type sentences struct {
	gathered atomic.Int32 // the attempts whose facts are kept
	writing  sync.Mutex
}

// setMessage sets the message of a failed attempt from the results of the nodes, which it does not change: the list of
// reasons. It returns the facts for the sentence before that list, or nil if the message gets none. Facts that are not
// nil must be written or dropped.
func (p *Plugin) setMessage(pod *v1.Pod, why *framework.FitError) *facts {
	d := &why.Diagnosis
	if p.name == config.Match || d.PreFilterMsg != "" || d.NodeToStatus == nil {
		return nil
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
	// A rejection at Reserve or later is about one node: it tells nothing of the others. Also, it may come from a binding
	// goroutine, which must not read the snapshot of the scheduling loop.
	if why.NumAllNodes == 1 && p.Book.Snapshot().Len() > 1 {
		d.PreFilterMsg = report.NoNode(p.afterwards(pod), counts)
		return nil
	}
	d.PreFilterMsg = report.NoNode(summary.Summary{}, counts)
	f, err := p.facts(pod, d.NodeToStatus)
	if err != nil {
		p.logger.Error(err, "An event has no summary", "pod", klog.KObj(pod))
	}
	if f != nil {
		f.counts = counts
	}
	return f
}

// afterwards returns the sentence for a pod that one node refused; it has no text if no room is kept for the pod.
func (p *Plugin) afterwards(pod *v1.Pod) summary.Summary {
	if !p.promises.Any() {
		return summary.Summary{}
	}
	s, status := translate(pod)
	if status != nil {
		return summary.Summary{}
	}
	s.snap = p.Book.Snapshot()
	return summary.Afterwards(p.roomsOf(pod, s))
}

// facts gathers what the nodes answer to a pod that none of them has taken. all has the results of the nodes. facts
// returns nil if the pod cannot be read, or if the facts of too many other pods are kept.
func (p *Plugin) facts(pod *v1.Pod, all *framework.NodeToStatus) (*facts, error) {
	infos, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	if p.sentences.gathered.Load() >= maxGathered {
		return nil, nil
	}
	f, ok := p.newFacts(pod)
	if !ok {
		return nil, nil
	}
	p.sentences.gathered.Add(1) // only the scheduling loop adds
	f.answers = make([]answer, 0, len(infos))
	var near []fwk.NodeInfo // the first nodes by name whose refusal may end with other pods
	for _, info := range infos {
		if info.Node() == nil {
			continue
		}
		status := all.Get(info.Node().Name)
		by := status.Plugin()
		f.answers = append(f.answers, answer{info.Node(), status, f.lacks(info, status)})
		if status.Code() == fwk.Unschedulable && (by == p.name || by == amountsName) {
			near = keepFirst(near, info)
		}
	}
	for _, info := range near {
		f.pods[info.Node().Name] = slices.Clone(info.GetPods())
	}
	return f, nil
}

// keepFirst returns near with one more node, in the order of names, cut to maxNear nodes.
func keepFirst(near []fwk.NodeInfo, info fwk.NodeInfo) []fwk.NodeInfo {
	i, _ := slices.BinarySearchFunc(near, info.Node().Name, func(n fwk.NodeInfo, name string) int {
		return strings.Compare(n.Node().Name, name)
	})
	if i == maxNear {
		return near
	}
	near = slices.Insert(near, i, info)
	return near[:min(len(near), maxNear)]
}

// answer is what kube-scheduler's plugins answered for a node, and the plain amounts that the node lacks.
type answer struct {
	node   *v1.Node
	status *fwk.Status
	lacks  []place.Reason
}

// facts are what the nodes answer to the pod of an attempt.
type facts struct {
	p        *Plugin
	pod      *v1.Pod
	s        *podState
	want     whatif.Want
	affinity nodeaffinity.RequiredNodeAffinity
	// plain: neither labels nor the name of a node matter to the pod.
	plain   bool
	counts  map[string]int // the nodes of each reason in the list
	answers []answer
	pods    map[string][]fwk.PodInfo // the pods of at most maxNear nodes, by node
	// order are the profile's Filter plugins, and skips are those that skipped the pod; nil if that is not known. later
	// has the results of unasked.
	order []string
	skips sets.Set[string]
	later map[string][]string

	never map[*place.Usage][]place.Reason // by the node without pods, at most maxKinds
	out   summary.Facts
	at    []int // the positions in answers of out.Nodes
	// short are the positions in out.Nodes of nodes that lack only amounts, and whose pods are known.
	short []int
	// hidden counts, by the node without pods, the nodes that NodeResourcesFit has refused before this plugin was asked.
	// The list has their permanent reasons, too.
	hidden map[*place.Usage]int
}

// drop forgets the facts. Facts that are nil are none.
func (f *facts) drop() {
	if f != nil {
		f.p.sentences.gathered.Add(-1)
	}
}

// write puts the sentence before the list in the message of an attempt, and drops the facts. Facts that are nil change
// nothing. It may be called beside the scheduling loop, because it reads nothing that the loop changes.
func (f *facts) write(why *framework.FitError) {
	if f == nil {
		return
	}
	defer f.drop()
	f.p.sentences.writing.Lock()
	defer f.p.sentences.writing.Unlock()
	for i := range f.answers {
		f.judge(i)
	}
	s := f.sentence()
	f.countHidden()
	why.Diagnosis.PreFilterMsg = report.NoNode(s, f.counts)
}

// writeNow writes the sentence in the scheduling loop where that takes little: for small clusters and small pods. It
// drops all other facts. status is of the attempt.
func (f *facts) writeNow(status *fwk.Status) {
	var why *framework.FitError
	switch {
	case f == nil:
	case len(f.answers) > maxInLoop, f.s.large(), !errors.As(status.AsError(), &why):
		f.drop()
	default:
		f.write(why)
	}
}

// countHidden adds the permanent reasons in hidden to the list. Of equal reasons with several amounts the highest
// counts.
func (f *facts) countHidden() {
	type same struct {
		reason place.Reason
		count  int
	}
	all := map[string]same{}
	for empty, count := range f.hidden {
		for _, r := range f.never[empty] {
			key := whatif.Alike("", []place.Reason{r})
			x, ok := all[key]
			if ok {
				r.Have = max(r.Have, x.reason.Have)
			}
			all[key] = same{r, x.count + count}
		}
	}
	for _, x := range all {
		f.counts[f.p.text(f.s.pod, x.reason)] += x.count
	}
}

// newFacts begins with a pod; ok is false if it cannot be read.
func (p *Plugin) newFacts(pod *v1.Pod) (f *facts, ok bool) {
	f = &facts{p: p, pod: pod, never: map[*place.Usage][]place.Reason{}, hidden: map[*place.Usage]int{},
		pods: map[string][]fwk.PodInfo{}, affinity: kube.RequiredAffinity(pod),
		plain: pod.Spec.Affinity == nil && len(pod.Spec.NodeSelector) == 0,
		out:   summary.Facts{Namespace: pod.Namespace}, later: map[string][]string{}}
	if cs := p.cycleOf(string(pod.UID)); cs != nil {
		f.order, f.skips = p.filters(), cs.GetSkipFilterPlugins()
	}
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
	f.out.Lost, f.out.Unsure = p.roomsOf(pod, f.s)
	needs, _ := kube.Needs(pod) // NodeResourcesFit has accepted or refused the amounts already
	f.want = whatif.Want{Pod: f.s.pod, Demand: f.s.demand, Needs: needs}
	return f, true
}

// judge adds the answer at a position. kube-scheduler's plugins stop at the first refusal, so judge also looks for
// reasons that last longer.
func (f *facts) judge(at int) {
	a := &f.answers[at]
	n := f.s.snap.Node(a.node.Name)
	reasons, known := f.lasting(a, n)
	if !known {
		f.out.NotJudged++
		return
	}
	more := f.said(n, a.status)
	if len(more) == 0 && len(reasons) == 0 {
		f.out.NotJudged++ // nothing but the missing report keeps the pod away
		return
	}
	reasons = whatif.Join(reasons, more)
	slices.SortStableFunc(reasons, func(a, b place.Reason) int { return a.When().Compare(b.When()) })
	if f.pods[a.node.Name] != nil && reasons[0].When() == place.Later && !f.s.elsewhere(a.node.Name) {
		f.short = append(f.short, len(f.out.Nodes))
	}
	f.at = append(f.at, at)
	f.out.Nodes = append(f.out.Nodes, summary.Node{Name: a.node.Name, Reasons: reasons,
		Unjudged: f.unasked(a.status.Plugin()), Estimated: n != nil && n.Quality == state.Estimated,
		Inexact: n != nil && len(n.Inexact) > 0})
}

// lasting returns the reasons why the pod would not go to the node even if it were empty, and what plain amounts it
// lacks now. known is false if there are too many kinds of nodes to find that out, or if judging the pod takes long.
func (f *facts) lasting(a *answer, n *state.Node) (out []place.Reason, known bool) {
	if !f.plain || a.node.Spec.Unschedulable || len(a.node.Spec.Taints) > 0 {
		out, _ = kube.Bars(f.pod, f.affinity, a.node) // an error is NodeAffinity's, which has refused the node then
	}
	out = append(out, a.lacks...)
	if n == nil || f.s.pod.Plain() {
		return out, true
	}
	empty := n.Empty()
	never, known := f.never[empty]
	switch {
	case known:
	case len(f.never) < maxKinds && !f.s.large():
		never = n.NeverMeets(f.s.pod, f.s.demand)
		f.never[empty] = never
	case a.status.Plugin() != f.p.name && (len(out) == 0 || out[0].When() == place.Later):
		return nil, false
	}
	if a.status.Plugin() == amountsName {
		f.hidden[empty]++
	}
	return whatif.Join(out, never), true
}

// scalar reports whether kube-scheduler has no field of its own for a resource.
func scalar(resource string) bool {
	switch v1.ResourceName(resource) {
	case v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage, v1.ResourcePods:
		return false
	}
	return true
}

// tooFew reports whether NodeResourcesFit has refused a node because it has too few of a resource. It knows which
// resources are not counted: DRA serves them, or an extender manages them. The text is in noderesources/fit.go of all
// releases.
func tooFew(status *fwk.Status, resource string) bool {
	return status.Plugin() == amountsName && slices.Contains(status.Reasons(), "Insufficient "+resource)
}

// lacks returns the plain amounts that a node lacks. status is its answer: a scalar resource, such as an extended one,
// counts only if the answer calls it too few.
func (f *facts) lacks(info fwk.NodeInfo, status *fwk.Status) []place.Reason {
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
			if !tooFew(status, name) {
				continue
			}
			all, taken = have.GetScalarResources()[v1.ResourceName(name)], used.GetScalarResources()[v1.ResourceName(name)]
		}
		if want <= 0 || want <= all-taken {
			continue
		}
		if n.Allocatable == nil {
			n.Allocatable, n.Used, n.Capacity = whatif.Amounts{}, whatif.Amounts{}, kube.DeviceCapacity(info.Node())
			n.State = f.s.snap.Node(info.Node().Name)
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
	far, demanded := steer.Far(status)
	switch {
	case lasts:
		r.Want = 1
	case status.Plugin() == steer.Name && far:
		if r.Code = place.FarDevices; demanded {
			r.Want = 1
		}
	case status.Plugin() == steer.Name:
		r.Code = place.NoDevices
	}
	return []place.Reason{r}
}

// own returns this plugin's reasons on a node that it has refused.
func (f *facts) own(n *state.Node, status *fwk.Status) []place.Reason {
	if n == nil {
		return nil
	}
	if f.s.elsewhere(n.Name) {
		return []place.Reason{place.Elsewhere(f.s.together)}
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

// sentence returns the sentence that follows from all facts. For pods whose verdicts take long, it names neither
// pods to wait for nor an amount that would fit.
func (f *facts) sentence() summary.Summary {
	if f.s.large() {
		return summary.Of(&f.out)
	}
	slices.SortFunc(f.short, func(a, b int) int { return strings.Compare(f.out.Nodes[a].Name, f.out.Nodes[b].Name) })
	at := 0
	f.out.Soonest = whatif.Rules{}.Soonest(func() *whatif.Node {
		if at == len(f.short) {
			return nil
		}
		at++
		return f.whole(f.short[at-1])
	}, &f.want)
	f.out.Offered = func() (out []string) {
		names := map[string]bool{}
		for i := range f.answers {
			for name := range f.answers[i].node.Status.Allocatable {
				if strings.Contains(string(name), "/") {
					names[string(name)] = true
				}
			}
		}
		return slices.Collect(maps.Keys(names))
	}
	f.out.Fitting = func(i int, r place.Reason) int64 { return f.whole(i).Fitting(&f.want, r) }
	return summary.Of(&f.out)
}

// whole returns a node with its amounts, and with its pods if these are known.
func (f *facts) whole(at int) *whatif.Node {
	a := &f.answers[f.at[at]]
	out := &whatif.Node{Name: a.node.Name, State: f.s.snap.Node(a.node.Name), Used: whatif.Amounts{},
		Uncounted: map[string]bool{}}
	out.Allocatable, _ = kube.Amounts(a.node.Status.Allocatable)
	for name := range f.want.Needs {
		// If the node has enough of it now, it has enough with fewer pods, too.
		out.Uncounted[name] = scalar(name) && !tooFew(a.status, name)
	}
	for _, x := range f.pods[a.node.Name] {
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
