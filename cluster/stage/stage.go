// Package stage sets the scene of a simulation: the nodes of a cluster with what all pods ask of them, and
// the pods that are to be placed, as the scheduler sees both.
//
// It says where a pod may not go by the labels, taints and names of nodes, by volumes and by other pods, and leaves
// amounts and NUMA nodes to core. Invariant: it only reads, and a [Stage] does not change once it is made. The package
// refuses to judge what it cannot read; it names that, pod by pod.
package stage

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	podapi "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/manifest"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/score"
	"github.com/tenon-numa/tenon/core/whatif"
)

// MaxNodes bounds the nodes of a simulation.
const MaxNodes = 20_000

// Stage is the nodes and the pods on them. Its methods may be called by any goroutine once it is made.
type Stage struct {
	nodes []whatif.Node
	// objects are by position; nil where nobody says what labels and taints the nodes have.
	objects []*v1.Node
	pods    []kube.Stored
	on      map[string][]kube.Stored // those that have not ended, by node
	// excluding are those among them that have a required anti-affinity.
	excluding map[string][]kube.Stored
	bars      map[string]*whatif.Bars // by what of a pod they depend on
	storage   *storage                // nil where it is not known
	// namespaces are the labels of namespaces by name; nil where they are not known.
	namespaces map[string]map[string]string
}

// Read reads a cluster. The problems are of nodes of whose NUMA nodes nothing is known.
func Read(ctx context.Context, cluster *kube.Reader) (*Stage, []kube.Problem, error) {
	v, err := cluster.ViewAll(ctx)
	if err != nil {
		return nil, nil, err
	}
	s, err := Of(v)
	return s, v.Problems, err
}

// assemble makes a stage of objects. States of nodes that have no object are passed over: the scheduler
// knows no such nodes.
func assemble(nodes []v1.Node, states []*ledger.Node, pods []kube.Stored) (*Stage, error) {
	slices.SortFunc(nodes, func(a, b v1.Node) int { return strings.Compare(a.Name, b.Name) })
	known := map[string]*ledger.Node{}
	for _, n := range states {
		known[n.Name] = n
	}
	s := &Stage{pods: pods, on: residents(pods), bars: map[string]*whatif.Bars{}}
	s.excluding = excluding(s.on)
	each := amountsOnce{}
	for i := range nodes {
		n := &nodes[i]
		all, _ := kube.Amounts(n.Status.Allocatable)
		s.objects = append(s.objects, n)
		x := whatif.Node{Name: n.Name, State: known[n.Name], Allocatable: all}
		x.Used, x.Pods = asked(s.on[n.Name], each)
		s.nodes = append(s.nodes, x)
	}
	return s, distinct(s.nodes)
}

// bare makes a stage of nodes without labels and taints. What pods ask of these is then not judged.
func bare(nodes []whatif.Node, pods []kube.Stored) (*Stage, error) {
	slices.SortFunc(nodes, func(a, b whatif.Node) int { return strings.Compare(a.Name, b.Name) })
	on := residents(pods)
	return &Stage{nodes: nodes, pods: pods, on: on, excluding: excluding(on), bars: map[string]*whatif.Bars{}},
		distinct(nodes)
}

// distinct checks nodes in order of names.
func distinct(nodes []whatif.Node) error {
	if len(nodes) > MaxNodes {
		return fmt.Errorf("%d nodes, at most %d", len(nodes), MaxNodes)
	}
	for i := range nodes[:max(0, len(nodes)-1)] {
		if nodes[i].Name == nodes[i+1].Name {
			return fmt.Errorf("two nodes are named %q", nodes[i].Name)
		}
	}
	return nil
}

// residents returns the pods that are bound to nodes and have not ended, by node.
func residents(pods []kube.Stored) map[string][]kube.Stored {
	out := map[string][]kube.Stored{}
	for _, kept := range pods {
		if p := kept.Pod(); p.Spec.NodeName != "" && !kube.Ended(p) {
			out[p.Spec.NodeName] = append(out[p.Spec.NodeName], kept)
		}
	}
	return out
}

func excluding(on map[string][]kube.Stored) map[string][]kube.Stored {
	out := map[string][]kube.Stored{}
	for node, pods := range on {
		for _, p := range pods {
			if a := p.Pod().Spec.Affinity; a != nil && a.PodAntiAffinity != nil &&
				len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
				out[node] = append(out[node], p)
			}
		}
	}
	return out
}

// amountsOnce keeps equal amounts once, since most pods are one of many alike.
type amountsOnce map[string]whatif.Amounts

func (o amountsOnce) of(a whatif.Amounts) whatif.Amounts {
	var key []byte
	for _, name := range slices.Sorted(maps.Keys(a)) {
		key = strconv.AppendInt(append(append(key, name...), '='), a[name], 10)
	}
	if known, ok := o[string(key)]; ok {
		return known
	}
	o[string(key)] = a
	return a
}

// asked adds up what the pods of a node ask for. What is beyond bounds counts as the bound.
func asked(pods []kube.Stored, known amountsOnce) (sum whatif.Amounts, each []whatif.Resident) {
	sum, each = whatif.Amounts{}, slices.Grow(each, len(pods))
	for p := range kube.EachPod(pods) {
		needs, _ := kube.Needs(p)
		needs = known.of(needs)
		sum = sum.Add(needs)
		each = append(each, whatif.Resident{Pod: kube.ID(p), Needs: needs, Stays: bound(p)})
	}
	return sum, each
}

// Nodes returns the nodes in ascending order of name. The caller must not change them.
func (s *Stage) Nodes() []whatif.Node { return s.nodes }

// Usual returns the pods that are there and need alignment, the newest last and at most so many as a scheduler
// remembers. It learns from them what the cluster usually runs when it starts.
func (s *Stage) Usual() []*place.Pod {
	type dated struct {
		created time.Time
		uid     types.UID
		at      int
	}
	var all []dated
	for i, kept := range s.pods {
		p := kept.Pod()
		all = append(all, dated{p.CreationTimestamp.Time, p.UID, i})
	}
	slices.SortFunc(all, func(a, b dated) int {
		return cmp.Or(b.created.Compare(a.created), cmp.Compare(b.uid, a.uid))
	})
	var out []*place.Pod
	for _, x := range all {
		if len(out) == score.Remembered {
			break
		}
		if spec, err := podapi.ToPlace(s.pods[x.at].Pod()); err == nil && !spec.Plain() {
			out = append(out, spec)
		}
	}
	slices.Reverse(out)
	return out
}

// Waiting counts the pods that have no node.
func (s *Stage) Waiting() (n int) {
	for p := range kube.EachPod(s.pods) {
		if p.Spec.NodeName == "" && !kube.Ended(p) {
			n++
		}
	}
	return n
}

// Pending returns the pods that have no node, the most important first, as the scheduler takes them.
func (s *Stage) Pending() (out []*whatif.Workload) {
	var pods []*v1.Pod
	for p := range kube.EachPod(s.pods) {
		if p.Spec.NodeName == "" && !kube.Ended(p) {
			pods = append(pods, p)
		}
	}
	slices.SortFunc(pods, inOrder)
	for _, p := range pods {
		out = append(out, s.moved(p))
	}
	return out
}

// inOrder puts the more important of two pods first, and the older one of equal ones.
func inOrder(a, b *v1.Pod) int {
	return cmp.Or(cmp.Compare(priority(b), priority(a)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// Workloads reads a workload file. Objects that do not say their namespace get the one that is given. left
// names the objects that have no pods as far as is known.
func (s *Stage) Workloads(data []byte, namespace string) (out []*whatif.Workload, left []string, err error) {
	f, err := manifest.Read(data)
	if err != nil {
		return nil, nil, err
	}
	for _, t := range f.Templates {
		t.Namespace = cmp.Or(t.Namespace, namespace)
		t.Pod.Namespace = t.Namespace
		w, err := s.workload(t)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", t, err)
		}
		out = append(out, w)
	}
	return out, f.Left, nil
}

// Like returns one more of a pod that is there. The error says whether there is none.
func (s *Stage) Like(namespace, name string) (*whatif.Workload, error) {
	for p := range kube.EachPod(s.pods) {
		if p.Namespace == namespace && p.Name == name {
			t, err := manifest.Like(p)
			if err != nil {
				return nil, err
			}
			t.Pod.UID = "" // it is not the pod that is there
			w, err := s.workload(t)
			if err == nil {
				w.More = true
			}
			return w, err
		}
	}
	return nil, fmt.Errorf("pod %s/%s is not there", namespace, name)
}

// Existing returns what a pod that is there asks of nodes, as if it had none: itself, and not one more of it.
func (s *Stage) Existing(p *v1.Pod) (*whatif.Workload, error) {
	free := p.DeepCopy()
	free.Spec.NodeName = ""
	return s.workload(manifest.Template{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, Count: 1, Pod: free})
}

// Pods returns all pods. The caller must not change them.
func (s *Stage) Pods() []kube.Stored { return s.pods }

// On returns the pods that would be made anew if a node went away, the most important first, as the scheduler
// takes them. stay counts those that go with it: of DaemonSets, and of the node's own files.
func (s *Stage) On(node string) (out []*whatif.Workload, stay int, err error) {
	i, ok := slices.BinarySearchFunc(s.nodes, node, func(n whatif.Node, name string) int {
		return strings.Compare(n.Name, name)
	})
	switch {
	case !ok:
		return nil, 0, fmt.Errorf("node %q is not there", node)
	case s.pods == nil && busy(s.nodes[i]):
		return nil, 0, fmt.Errorf("what the pods of node %q ask for is not known", node)
	}
	var pods []*v1.Pod
	for p := range kube.EachPod(s.pods) {
		switch {
		case p.Spec.NodeName != node || kube.Ended(p):
		case bound(p):
			stay++
		default:
			pods = append(pods, p)
		}
	}
	slices.SortFunc(pods, inOrder)
	for _, p := range pods {
		out = append(out, s.moved(p))
	}
	return out, stay, nil
}

func busy(n whatif.Node) bool { return n.State != nil && len(n.State.Entries) > 0 }

// bound reports whether a pod goes with its node.
func bound(p *v1.Pod) bool {
	if _, mirror := p.Annotations[v1.MirrorPodAnnotationKey]; mirror {
		return true
	}
	owner := metav1.GetControllerOf(p)
	return owner != nil && owner.Kind == "DaemonSet"
}

func priority(p *v1.Pod) int32 {
	if p.Spec.Priority == nil {
		return 0
	}
	return *p.Spec.Priority
}

// moved is a pod that has to leave its node. One that no scheduler would take is barred everywhere.
func (s *Stage) moved(p *v1.Pod) *whatif.Workload {
	t, err := manifest.Like(p)
	if err == nil {
		var w *whatif.Workload
		if w, err = s.workload(t); err == nil {
			return w
		}
	}
	all := &whatif.Bars{Why: make([][]place.Reason, len(s.nodes))}
	for i := range all.Why {
		all.Why[i] = []place.Reason{{Code: place.NoPod, Resource: err.Error()}}
	}
	return &whatif.Workload{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, Count: 1,
		Want: &whatif.Want{Pod: &place.Pod{}, Bars: all}}
}

func (s *Stage) workload(t manifest.Template) (*whatif.Workload, error) {
	out := &whatif.Workload{Kind: t.Kind, Namespace: t.Namespace, Name: t.Name, Count: t.Count, PerNode: t.PerNode,
		Want: &whatif.Want{}}
	w := out.Want
	peers, left, err := s.peers(t.Pod)
	if err != nil {
		return nil, err
	}
	w.Peers, out.Unjudged = peers, slices.Concat(s.unjudged(t.Pod), left, s.vague(t.Pod))
	out.Unequal = unequal(t.Pod)
	if w.Pod, err = podapi.ToPlace(t.Pod); err != nil {
		return nil, err
	}
	if w.Demand, err = podapi.Demand(t.Pod); err != nil {
		return nil, err
	}
	if w.Type, err = scoringType(t.Pod); err != nil {
		return nil, err
	}
	if w.Needs, err = kube.Needs(t.Pod); err != nil {
		return nil, err
	}
	if w.Bars, err = s.barred(t.Pod); err != nil {
		return nil, err
	}
	return out, nil
}
