// Package stage prepares a simulation: the nodes of a cluster with the requests of all pods on them, and the pods to
// place, as the scheduler sees both.
//
// It computes where a pod may not go because of labels, taints and names of nodes, volumes and other pods, and leaves
// amounts and NUMA nodes to core. Invariant: it only reads, and a [Stage] does not change once it is made, except for
// its cache. The package does not judge requirements that it cannot read; it names them, pod by pod.
package stage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/component-helpers/scheduling/corev1"

	"github.com/tenon-numa/tenon/api/document"
	podapi "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/cluster/allocate"
	"github.com/tenon-numa/tenon/cluster/group"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/manifest"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/printable"
	"github.com/tenon-numa/tenon/core/score"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
)

// MaxNodes bounds the nodes of a simulation.
const MaxNodes = 20_000

// Stage is the nodes and the pods on them. Its methods may be called by any goroutine, but not by two at once,
// because they cache reasons in bars.
type Stage struct {
	nodes []whatif.Node
	// objects has the Node of each of nodes, at the same position; nil if labels and taints of the nodes are unknown.
	objects []*v1.Node
	pods    []kube.Stored
	on      map[string][]kube.Stored // pods that have not ended, by node
	// excluding has the pods in on that have a required anti-affinity, by node. byNumber reports whether one of them
	// reads a label that numbers pods.
	excluding map[string][]kube.Stored
	byNumber  func() bool
	// choosing returns the pods in excluding whose anti-affinity chooses namespaces by labels.
	choosing func() []kube.Stored
	bars     map[string]*whatif.Bars // a cache, by a pod's wishes as JSON
	storage  *storage                // nil if it is unknown
	seen     *kube.Seen              // the namespaces whose pods it has
	partial  string                  // see Partial
	// namespaces are the labels of namespaces by name; nil if they are unknown.
	namespaces map[string]map[string]string
	// admission has the objects by which the API server changes or refuses new pods; nil if they are unknown.
	admission *kube.Admission
	// ask is the Create of a [Trial]; nil if no API server is asked about pods of files.
	ask func(*v1.Pod) (stored *v1.Pod, refused, unasked error)
	// served are the extended resources that DRA serves; nil if that is unknown.
	served map[string]bool
	claims *document.Claims // see Claims
	// allocates returns what decides which pods get devices of claims; nil if no claims are judged. allocator makes it as
	// if nothing were kept for some requests.
	allocates func() *allocate.Cluster
	allocator func(released map[string]bool) *allocate.Cluster
	released  map[string]bool // see Releasing
	needs     *needs          // nil if nothing looks for claims of pods of files
	// budgets are the PodDisruptionBudgets; nil if they are not known.
	budgets []policyv1.PodDisruptionBudget
	// groups are PodGroups of pods, "namespace/name"; nil for those that could not be read.
	groups map[string]*kube.PodGroup
	// spares are the Jobs of JobSets for which an evicted pod is no failure, as far as they are known.
	spares map[types.UID]bool
	// jobless are the namespaces whose Jobs were looked for, and whether they could not be read.
	jobless map[string]bool
	// published are the slices and claims as they were read, and templates the templates of claims; nil if not known.
	published *kube.Devices
	templates *templates
}

// Read reads a cluster. The problems name the nodes without data about their NUMA nodes.
func Read(ctx context.Context, cluster *kube.Reader) (*Stage, []document.Problem, error) {
	v, err := cluster.ViewAll(ctx)
	if err != nil {
		return nil, nil, err
	}
	if v.Devices, err = cluster.Devices(ctx, v.Seen); err != nil {
		return nil, nil, err
	}
	s, err := Of(v)
	return s, v.Problems, err
}

// WithBudgets reads the disruption budgets of a cluster into a stage of it, the Jobs of JobSets, PodGroups, and
// where claims are judged, the templates of claims. Kinds that the identity may not list stay unknown.
func (s *Stage) WithBudgets(ctx context.Context, cluster *kube.Reader) (*Stage, error) {
	out := *s
	list, known, err := cluster.Budgets(ctx)
	if err != nil {
		return nil, err
	}
	if known {
		out.budgets = append([]policyv1.PodDisruptionBudget{}, list...)
	}
	out.readGroups(ctx, cluster.PodGroup)
	out.readJobs(ctx, cluster.Jobs)
	if s.allocates == nil || len(s.published.Claims) == 0 {
		return &out, nil
	}
	made, known, err := cluster.Templates(ctx)
	if err != nil {
		return nil, err
	}
	if known {
		out.templates = newTemplates(made, s.published)
	}
	return &out, nil
}

// assemble makes a stage of objects. It ignores states of nodes without a Node object, as the scheduler does.
func assemble(nodes []v1.Node, states []*state.Node, pods []kube.Stored, of *Requests) (*Stage, error) {
	slices.SortFunc(nodes, func(a, b v1.Node) int { return strings.Compare(a.Name, b.Name) })
	known := map[string]*state.Node{}
	for _, n := range states {
		known[n.Name] = n
	}
	s := &Stage{pods: pods, on: residents(pods), bars: map[string]*whatif.Bars{}}
	s.findExcluding()
	of.begin()
	for i := range nodes {
		n := &nodes[i]
		all, _ := kube.Amounts(n.Status.Allocatable)
		s.objects = append(s.objects, n)
		x := whatif.Node{Name: n.Name, State: known[n.Name], Allocatable: all, Capacity: kube.DeviceCapacity(n)}
		x.Used, x.Pods = of.sum(n.Name, s.on[n.Name])
		s.nodes = append(s.nodes, x)
	}
	return s, checkNodes(s.nodes)
}

// bare makes a stage of nodes without labels and taints. Requirements about these are then not judged.
func bare(nodes []whatif.Node, pods []kube.Stored) (*Stage, error) {
	slices.SortFunc(nodes, func(a, b whatif.Node) int { return strings.Compare(a.Name, b.Name) })
	s := &Stage{nodes: nodes, pods: pods, on: residents(pods), bars: map[string]*whatif.Bars{}}
	s.findExcluding()
	return s, checkNodes(nodes)
}

// checkNodes returns an error if there are more than MaxNodes nodes, or two have the same name. The nodes must be in
// order of names.
func checkNodes(nodes []whatif.Node) error {
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

// residents returns the pods that are bound to nodes and have not ended, by node. Of a list where the pods of a node
// follow each other, it copies nothing.
func residents(pods []kube.Stored) map[string][]kube.Stored {
	out := map[string][]kube.Stored{}
	from, node := 0, "" // of the run of pods that end before the present one
	add := func(to int) {
		if node == "" || from == to {
			return
		}
		run := pods[from:to:to]
		if all, more := out[node]; more {
			run = append(all, run...)
		}
		out[node] = run
	}
	for i, kept := range pods {
		p := kept.Pod()
		at := p.Spec.NodeName
		if kube.Ended(p) {
			at = ""
		}
		if at != node {
			add(i)
			from, node = i, at
		}
	}
	add(len(pods))
	return out
}

// findExcluding sets excluding, byNumber and choosing to what follows from on. Pairs of pods are compared very often,
// and a stored pod is costly to read, so byNumber and choosing read each at most once.
func (s *Stage) findExcluding() {
	found := map[string][]kube.Stored{}
	for node, pods := range s.on {
		for _, p := range pods {
			if len(antiTerms(p.Pod())) > 0 {
				found[node] = append(found[node], p)
			}
		}
	}
	s.excluding = found
	s.choosing = sync.OnceValue(func() (out []kube.Stored) {
		for _, node := range slices.Sorted(maps.Keys(found)) {
			out = append(out, slices.DeleteFunc(slices.Clone(found[node]), func(p kube.Stored) bool {
				return !slices.ContainsFunc(antiTerms(p.Pod()), byNamespace)
			})...)
		}
		return out
	})
	s.byNumber = sync.OnceValue(func() bool {
		for _, pods := range found {
			for p := range kube.EachPod(pods) {
				if readNumbers(&p.Spec) {
					return true
				}
			}
		}
		return false
	})
}

// Nodes returns the nodes in ascending order of name. The caller must not change them.
func (s *Stage) Nodes() []whatif.Node { return s.nodes }

// Objects returns the Node of each of Nodes, at the same position, or nil if labels and taints are unknown.
func (s *Stage) Objects() []*v1.Node { return s.objects }

// Usual returns the existing pods that need alignment, the newest last, at most as many as a scheduler remembers. It
// leaves out pods that a kubelet refused: a controller may make many of these for one pod that runs.
func (s *Stage) Usual() []*place.Pod {
	type dated struct {
		created time.Time
		uid     types.UID
		at      int
	}
	var all []dated
	for i, kept := range s.pods {
		p := kept.Pod()
		if _, refused := kube.Rejection(p); !refused {
			all = append(all, dated{p.CreationTimestamp.Time, p.UID, i})
		}
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

// Waiting counts the pods that have no node and are not being deleted.
func (s *Stage) Waiting() (n int) {
	for p := range kube.EachPod(s.pods) {
		if p.Spec.NodeName == "" && p.DeletionTimestamp == nil && !kube.Ended(p) {
			n++
		}
	}
	return n
}

// waiting returns the pods without a node, the most important first.
func (s *Stage) waiting() (out []*v1.Pod) {
	for p := range kube.EachPod(s.pods) {
		if p.Spec.NodeName == "" && !kube.Ended(p) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, inOrder)
	return out
}

// Pending returns the pods without a node, the most important first, in the order in which the scheduler takes them.
func (s *Stage) Pending() (out []*whatif.Workload) {
	for _, p := range s.waiting() {
		w := s.toPlace(p)
		w.Held, w.Ending = isHeld(p), p.DeletionTimestamp != nil
		out = append(out, w)
	}
	return out
}

// isHeld reports whether no scheduler places a pod without a node now.
func isHeld(p *v1.Pod) bool { return len(p.Spec.SchedulingGates) > 0 || p.DeletionTimestamp != nil }

// inOrder orders pods by priority, highest first, then by age, oldest first.
func inOrder(a, b *v1.Pod) int {
	return cmp.Or(cmp.Compare(corev1.PodPriority(b), corev1.PodPriority(a)),
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// withoutPods is an error that is a [whatif.ErrNoPods], with a text of its own.
type withoutPods struct{ error }

func (withoutPods) Is(target error) bool { return target == whatif.ErrNoPods }

// Workloads reads a workload file. Objects without a namespace get the given one. left names the objects that are not
// among the workloads. If the file has no pods that can be judged, the error is a whatif.ErrNoPods, and left is set,
// too.
func (s *Stage) Workloads(data []byte, namespace string) (out []*whatif.Workload, left whatif.Left, err error) {
	f, err := manifest.Read(data)
	if none := (*manifest.NoPodsError)(nil); errors.As(err, &none) {
		return nil, leftOf(none.File, namespace), withoutPods{err}
	}
	if err != nil {
		return nil, left, err
	}
	known := s.Schedulers()
	for _, t := range f.Templates {
		t.Namespace = cmp.Or(t.Namespace, namespace)
		t.Pod.Namespace = t.Namespace
		named := group.Of(&t.Pod.Spec) // before an API server is asked, which may not have the field
		asked, unjudged, err := s.admit(&t, f.Classes)
		if err != nil {
			return nil, left, fmt.Errorf("%s: %w", t, err)
		}
		w, err := s.workload(t, nil)
		if errors.As(err, &unscheduled{}) {
			w, err = s.barredEverywhere(t, err), nil
		}
		if err != nil {
			return nil, left, fmt.Errorf("%s: %w", t, err)
		}
		w.Asked, w.Refused, w.Misspelt = asked, t.Refused, podapi.Misspelt(t.Pod, known)
		w.Scheduler, w.Schedulers = t.Pod.Spec.SchedulerName, known
		w.Guessed, w.Late = t.Guessed != "", whatif.Late(t.Late)
		w.Group, w.Ungrouped = named, asked && group.Of(&t.Pod.Spec) != named
		w.Unjudged = append(w.Unjudged, unjudged...)
		w.Claims, w.LackedClaims = s.needs.of(t.Pod)
		if len(w.LackedClaims) > 0 {
			s.bar(w.Want, strings.Join(w.LackedClaims, "; "))
		}
		w.Preempts = preempts(t.Pod, asked)
		w.Rank.Class = t.Written.Spec.PriorityClassName // before the API server has named the default class
		if t.Guessed != "" {
			w.Unjudged = append(w.Unjudged, fmt.Sprintf("whether %s makes its pods of %s, and how many", t.Kind, t.Guessed))
		}
		out = append(out, w)
	}
	left = leftOf(f, namespace)
	s.rankGroups(left.Groups, out, f.Templates)
	return out, left, nil
}

// Like returns a workload of one more pod like an existing one. It returns an error if that pod does not exist.
func (s *Stage) Like(namespace, name string) (*whatif.Workload, error) {
	for p := range kube.EachPod(s.pods) {
		if p.Namespace == namespace && p.Name == name {
			t, err := manifest.Like(p)
			if err != nil {
				return nil, err
			}
			t.Pod.UID = "" // the workload is another pod
			w, err := s.workload(t, nil)
			if err == nil {
				w.More = true
			}
			return w, err
		}
	}
	if !s.seen.Has(namespace) {
		return nil, fmt.Errorf("you may not list pods in the namespace %s, so pod %s/%s is not known", namespace, namespace,
			name)
	}
	var known []string
	for p := range kube.EachPod(s.pods) {
		known = append(known, p.Namespace+"/"+p.Name)
	}
	return nil, fmt.Errorf("pod %s/%s is not there%s", namespace, name, printable.InsteadOfPod(namespace, name, known))
}

// Existing returns the workload of an existing pod itself, as if the pod had no node. Unlike Like, it adds no pod. A
// pod that no scheduler accepts is barred from all nodes.
func (s *Stage) Existing(p *v1.Pod) (*whatif.Workload, error) {
	free := p.DeepCopy()
	free.Spec.NodeName = ""
	t := manifest.Template{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, Count: 1, Pod: free}
	w, err := s.workload(t, p)
	if errors.As(err, &unscheduled{}) {
		return s.barredEverywhere(t, err), nil
	}
	return w, err
}

// Schedulers returns the names of the schedulers that have bound or refused pods, and the default names of
// kube-scheduler and tenon-scheduler.
func (s *Stage) Schedulers() []string {
	return append(kube.Schedulers(s.pods), v1.DefaultSchedulerName, "tenon-scheduler")
}

// Pods returns all pods. The caller must not change them.
func (s *Stage) Pods() []kube.Stored { return s.pods }

// On returns the pods that would be created anew if a node went away, the most important first, in the order in which
// the scheduler takes them. stay counts the pods that go away with the node: pods of DaemonSets, and static pods.
func (s *Stage) On(node string) (out []*whatif.Workload, stay int, err error) {
	i := s.position(node)
	switch {
	case i < 0:
		return nil, 0, s.noNode(node)
	case s.pods == nil && busy(s.nodes[i]):
		return nil, 0, fmt.Errorf("what the pods of node %q ask for is not known", node)
	}
	var pods []*v1.Pod
	for p := range kube.EachPod(s.pods) {
		switch {
		case p.Spec.NodeName != node || kube.Ended(p):
		case kube.GoesWithNode(p):
			stay++
		default:
			pods = append(pods, p)
		}
	}
	slices.SortFunc(pods, inOrder)
	for _, p := range pods {
		out = append(out, s.toPlace(p))
	}
	return out, stay, nil
}

// noNode returns the error about a node that the stage lacks.
func (s *Stage) noNode(name string) error {
	var known []string
	for i := range s.nodes {
		known = append(known, s.nodes[i].Name)
	}
	return fmt.Errorf("node %q is not there%s", name, printable.Instead(name, known))
}

// Racks returns the nodes by their values of a label, in ascending order of the values. Nodes without the label are in
// no rack. known is false if the labels of nodes are unknown.
func (s *Stage) Racks(label string) (out []whatif.Rack, known bool) {
	if s.objects == nil {
		return nil, false
	}
	racks := map[string][]int{}
	for i, n := range s.objects {
		if value, has := n.Labels[label]; has {
			racks[value] = append(racks[value], i)
		}
	}
	out = []whatif.Rack{}
	for _, value := range slices.Sorted(maps.Keys(racks)) {
		out = append(out, whatif.Rack{Name: value, Nodes: racks[value]})
	}
	return out, true
}

// NodesWith returns the names of the nodes that a label selector selects, in ascending order. None is an error.
func (s *Stage) NodesWith(_ context.Context, selector string) ([]string, error) {
	return s.selected(selector)
}

func (s *Stage) selected(selector string) ([]string, error) {
	if s.objects == nil {
		return nil, errors.New("the nodes have no labels here, so a selector chooses none")
	}
	all := map[string]labels.Set{}
	for _, n := range s.objects {
		all[n.Name] = n.Labels
	}
	return kube.Selected("node", selector, all)
}

// busy reports whether pods hold something on a node.
func busy(n whatif.Node) bool { return n.State != nil && len(n.State.Entries) > 0 }

// toPlace returns the workload of an existing pod that a scheduler has to place: a pending one, or one that has to
// leave its node. A pod that no scheduler would accept is barred from all nodes.
func (s *Stage) toPlace(p *v1.Pod) *whatif.Workload {
	t, err := manifest.Like(p)
	if err == nil {
		var w *whatif.Workload
		if w, err = s.workload(t, p); err == nil {
			w.Gang = s.gang(p)
			return w
		}
	}
	return s.barredEverywhere(manifest.Template{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, Count: 1}, err)
}

// unscheduled is the error of a pod that the API server accepts, but the scheduler refuses for all nodes.
type unscheduled struct{ error }

func (u unscheduled) Unwrap() error { return u.error }

// barredEverywhere returns the workload of pods that no scheduler accepts.
func (s *Stage) barredEverywhere(t manifest.Template, why error) *whatif.Workload {
	out := &whatif.Workload{Kind: t.Kind, Namespace: t.Namespace, Name: t.Name, Count: t.Count, PerNode: t.PerNode,
		Want: &whatif.Want{Pod: &place.Pod{}}}
	s.bar(out.Want, why.Error())
	return out
}

// bar bars pods from all nodes, since kube-scheduler would. why is the whole text of the reason.
func (s *Stage) bar(w *whatif.Want, why string) {
	all := &whatif.Bars{Why: make([][]place.Reason, len(s.nodes))}
	for i := range all.Why {
		all.Why[i] = []place.Reason{{Code: place.NoPod, Resource: why}}
		if w.Bars != nil && i < len(w.Bars.Why) {
			all.Why[i] = append(all.Why[i], w.Bars.Why[i]...)
		}
	}
	w.Bars = all
}

// workload makes the workload of a template. The error is of type unscheduled if the API server accepts the pod but
// no scheduler does.
func (s *Stage) workload(t manifest.Template, existing *v1.Pod) (*whatif.Workload, error) {
	out := &whatif.Workload{Kind: t.Kind, Namespace: t.Namespace, Name: t.Name, Count: t.Count, PerNode: t.PerNode,
		Rank: rankOf(t.Pod.Spec.PriorityClassName, t.Pod.Spec.Priority), Want: &whatif.Want{Request: podapi.Request(t.Pod)}}
	w := out.Want
	peers, unjudged, err := s.peers(t.Pod)
	if err != nil {
		return nil, err
	}
	w.Devices, out.UnjudgedDevices = s.claimed(t.Pod, existing)
	w.Peers, out.Unjudged = peers, slices.Concat(s.unjudged(t.Pod), out.UnjudgedDevices, unjudged, s.vague(t.Pod))
	out.Unequal = Unequal(t.Pod)
	if w.Pod, err = podapi.ToPlace(t.Pod); err != nil {
		return nil, err
	}
	if w.Demand, err = podapi.Demand(t.Pod); err != nil {
		return nil, unscheduled{err}
	}
	if w.Type, err = scoringType(t.Pod); err != nil {
		return nil, unscheduled{err}
	}
	if w.Needs, err = kube.Needs(t.Pod); err != nil {
		return nil, err
	}
	if w.Bars, err = s.barred(t.Pod); err != nil {
		return nil, err
	}
	s.addUnsettled(out, t.Pod)
	return out, nil
}
