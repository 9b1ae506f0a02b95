package stage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1 "k8s.io/component-helpers/scheduling/corev1"

	podapi "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/defrag"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/printable"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
)

// This file finds out which pods may be evicted so that others get room, and what their successors want.

// Movers returns the pods that may move at a time, and what their successors want on this stage. It returns an error if
// the pods on the nodes are not known, or if more than [defrag.MaxMovers] may move.
func (s *Stage) Movers(ctx context.Context, b defrag.Bounds, at time.Time) (out defrag.Field, err error) {
	if s.pods == nil && slices.ContainsFunc(s.nodes, busy) {
		return out, errors.New("there are no pods here but what nodes report: which of them may move is not known")
	}
	out.Unread = s.budgets == nil
	budgets, gangs := newBudgets(s.budgets), s.newMembers()
	out.Budgets = budgets.allowed
	for i := range s.nodes {
		if s.objects != nil && s.objects[i].Spec.Unschedulable {
			out.Closed = append(out.Closed, i)
		}
		shown := map[string]bool{}
		for _, kept := range s.on[s.nodes[i].Name] {
			p := kept.Pod()
			if shown[string(p.UID)] = true; kube.GoesWithNode(p) || p.DeletionTimestamp != nil {
				continue
			}
			if err := ctx.Err(); err != nil {
				return out, err
			}
			m, why := s.mover(i, p, b, budgets, gangs, at)
			if why != "" {
				gangs.stays(p, why)
				out.Fixed = append(out.Fixed, defrag.Fixed{Pod: kube.ID(p), Node: i, Why: why})
				continue
			}
			s.joinGang(p, gangs, &out, &m)
			if out.Movers = append(out.Movers, m); len(out.Movers) > defrag.MaxMovers {
				return out, fmt.Errorf("more than %d pods may move: choose namespaces, a highest priority or an age",
					defrag.MaxMovers)
			}
		}
		for _, x := range s.nodes[i].Pods {
			if !shown[x.Pod.UID] && !x.Stays {
				out.Fixed = append(out.Fixed, defrag.Fixed{Pod: x.Pod, Node: i, Why: "may not be read by you"})
			}
		}
	}
	gangs.keepWhole(&out)
	return out, nil
}

// mover returns a pod as a mover, or why it may not move.
func (s *Stage) mover(node int, p *v1.Pod, b defrag.Bounds, all *budgets, gangs members, at time.Time) (m defrag.Mover,
	why string) {
	if why = excluded(p, b, at); why != "" {
		return m, why
	}
	if why = s.jobSetKeeps(p); why != "" {
		return m, why
	}
	if why = s.gangKeeps(p, gangs, b); why != "" {
		return m, why
	}
	if m.Budgets, why = all.of(p); why != "" {
		return m, why
	}
	if m.Weight, why = moveCost(p); why != "" {
		return m, why
	}
	w, err := s.Successor(p)
	if unpredicted := "has devices of claims (DRA), whose new devices are not predicted"; err == nil {
		_, claims := s.claimed(p, p)
		switch {
		case len(claims) > 0:
			return m, unpredicted + ": " + claims[0]
		case len(s.Allocated(p)) > 0:
			return m, unpredicted
		}
		if why = s.templates.differs(p); why != "" {
			return m, why
		}
	}
	switch {
	case err != nil:
		return m, "cannot be placed again: " + printable.Clip(err.Error(), 200)
	case len(w.Unjudged) > 0:
		return m, "asks for what is not judged: " + strings.Join(w.Unjudged, ", ")
	}
	if why = unknownHolding(&s.nodes[node], p, w.Want); why != "" {
		return m, why
	}
	needs, _ := kube.Needs(p) // Existing has computed them
	m.Resident, m.Node, m.Want = whatif.Resident{Pod: kube.ID(p), Needs: needs}, node, w.Want
	m.Priority, m.Started = corev1.PodPriority(p), started(p).Unix()
	return m, ""
}

// started returns when a pod's kubelet has seen it first, or else when it was created.
func started(p *v1.Pod) time.Time {
	if p.Status.StartTime != nil {
		return p.Status.StartTime.Time
	}
	return p.CreationTimestamp.Time
}

// excluded returns why the pod itself, its owner or the user's bounds keep a pod where it is; "" if nothing does.
func excluded(p *v1.Pod, b defrag.Bounds, at time.Time) string {
	switch {
	case len(b.Namespaces) > 0 && !slices.Contains(b.Namespaces, p.Namespace):
		return "is of another namespace"
	case b.MaxPriority != nil && corev1.PodPriority(p) > *b.MaxPriority:
		return fmt.Sprintf("has a priority above %d", *b.MaxPriority)
	case b.MinSeconds > 0 && at.Sub(started(p)) < time.Duration(b.MinSeconds)*time.Second:
		return "has run for less than " + (time.Duration(b.MinSeconds) * time.Second).String()
	case p.Namespace == b.Keep.Namespace && p.Name == b.Keep.Name:
		return "is the pod of which more are to fit"
	case !b.Bare && metav1.GetControllerOf(p) == nil:
		return "has no controller that would create it again"
	case (!b.Bare || ofJobSet(p)) && ofJob(p) && p.Annotations[podapi.SafeToEvict] != "true":
		return "is of a Job, for which an eviction may count as a failure, and lacks the annotation " +
			podapi.SafeToEvict + "=true"
	case !b.Bare && !replaced(p):
		return "is controlled by a " + ofController(p) + ", which may not create it again"
	case p.Annotations[podapi.SafeToEvict] == "false":
		return "has the annotation " + podapi.SafeToEvict + "=false"
	case localData(&p.Spec) && !b.LocalData:
		return "keeps data in an emptyDir"
	case slices.ContainsFunc(p.Spec.Volumes, func(v v1.Volume) bool { return v.Ephemeral != nil }):
		return "has an ephemeral volume, which its successor does not get"
	}
	return ""
}

// ofJob reports whether the controller of a pod is a Job of Kubernetes.
func ofJob(p *v1.Pod) bool {
	by, _ := podapi.ReplacedBy(p)
	return by.Resource == "jobs"
}

// replaced reports whether the controller of a pod creates one like an evicted one.
func replaced(p *v1.Pod) bool {
	_, is := podapi.ReplacedBy(p)
	return is
}

// ofController names the kind of a pod's controller for people.
func ofController(p *v1.Pod) string {
	owner := metav1.GetControllerOf(p)
	kind := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind()
	if kind.Group == "" {
		return printable.Clip(kind.Kind, 40)
	}
	return printable.Clip(kind.Kind, 40) + " of " + printable.Clip(kind.Group, 60)
}

// localData reports whether a pod keeps data in an emptyDir on a disk, as kubectl drain asks. Those in memory, such as
// hugepages, have none that anybody misses.
func localData(p *v1.PodSpec) bool {
	return slices.ContainsFunc(p.Volumes, func(v v1.Volume) bool {
		return v.EmptyDir != nil && v.EmptyDir.Medium == v1.StorageMediumDefault
	})
}

// maxMoveCost is the highest cost that a pod may state.
const maxMoveCost = 1000

// moveCost returns what it costs to move a pod, 1 without its annotation, or what is wrong with the annotation.
func moveCost(p *v1.Pod) (cost int64, wrong string) {
	text, given := p.Annotations[podapi.MoveCostAnnotation]
	if !given {
		return 1, ""
	}
	cost, err := strconv.ParseInt(text, 10, 64)
	if err != nil || cost < 1 || cost > maxMoveCost {
		return 0, fmt.Sprintf("says %q in its annotation %s, which is no number of 1 to %d", printable.Clip(text, 40),
			podapi.MoveCostAnnotation, maxMoveCost)
	}
	return cost, ""
}

// unknownHolding returns why it is not known what a pod holds on its node; "" if it is.
func unknownHolding(n *whatif.Node, p *v1.Pod, w *whatif.Want) string {
	if w.Pod.Plain() {
		return ""
	}
	if n.State == nil || n.State.Quality != state.Exact {
		return "is on a node whose holdings are not known exactly"
	}
	if n.State.Doubtful() != "" {
		return "is on a node that has not reported all its pods yet"
	}
	if _, holds := n.State.Entry(string(p.UID)); holds {
		return ""
	}
	// A pod for which the managers have nothing is in no report.
	if v := place.Place(n.State.Empty(), w.Pod); !v.Fits() || len(v.Holdings) > 0 {
		return "is on a node that has not reported all its pods yet"
	}
	return ""
}

// budgets are the disruption budgets as the API server's evictions count them
// (pkg/registry/core/pod/storage/eviction.go of Kubernetes 1.37): a budget with an empty selector selects all pods of
// its namespace.
type budgets struct {
	selectors []labels.Selector
	allowed   []int
	in        map[string][]int // by namespace
}

func newBudgets(list []policyv1.PodDisruptionBudget) *budgets {
	b := &budgets{in: map[string][]int{}}
	for i := range list {
		x := &list[i]
		selector, err := metav1.LabelSelectorAsSelector(x.Spec.Selector)
		if err != nil {
			continue // such a budget selects nothing
		}
		allowed := int(max(0, x.Status.DisruptionsAllowed))
		if x.Status.ObservedGeneration < x.Generation {
			allowed = 0
		}
		b.in[x.Namespace] = append(b.in[x.Namespace], len(b.allowed))
		b.selectors, b.allowed = append(b.selectors, selector), append(b.allowed, allowed)
	}
	return b
}

// of returns the indices in allowed of the budgets that count the eviction of a pod, or why it cannot be evicted.
func (b *budgets) of(p *v1.Pod) (out []int, why string) {
	if p.Status.Phase == v1.PodPending {
		return nil, ""
	}
	for _, i := range b.in[p.Namespace] {
		if b.selectors[i].Matches(labels.Set(p.Labels)) {
			out = append(out, i)
		}
	}
	if len(out) > 1 {
		return nil, "has more than one PodDisruptionBudget, so the API server evicts it never"
	}
	if len(out) == 1 && b.allowed[out[0]] == 0 {
		return nil, "has a PodDisruptionBudget that allows no eviction now"
	}
	return out, ""
}

// Ending returns the stage without the pods on nodes that are being deleted, and their number.
func (s *Stage) Ending() (*Stage, int) {
	uids := map[string]bool{}
	for p := range kube.EachPod(s.pods) {
		if p.DeletionTimestamp != nil && p.Spec.NodeName != "" && !kube.Ended(p) {
			uids[string(p.UID)] = true
		}
	}
	if len(uids) == 0 {
		return s, 0
	}
	return s.Leaving(uids), len(uids)
}

// Releasing returns the stage as if some ProvisioningRequests, "namespace/name", kept no room
// and no devices.
func (s *Stage) Releasing(requests map[string]bool) *Stage {
	out := *s
	if s.allocator != nil {
		out.released = map[string]bool{}
		maps.Copy(out.released, s.released)
		maps.Copy(out.released, requests)
		out.allocate()
	}
	out.nodes = slices.Clone(s.nodes)
	for i := range out.nodes {
		n := &out.nodes[i]
		if !slices.ContainsFunc(slices.Collect(maps.Keys(n.Kept)), func(name string) bool { return requests[name] }) {
			continue
		}
		n.Kept = maps.Clone(n.Kept)
		maps.DeleteFunc(n.Kept, func(name string, _ whatif.Amounts) bool { return requests[name] })
		if n.State != nil {
			with := *n.State
			with.Promised = slices.DeleteFunc(slices.Clone(with.Promised), func(p state.Promised) bool {
				return requests[p.For]
			})
			n.State = &with
		}
	}
	return &out
}

// Leaving returns the stage without some existing pods, by UID.
func (s *Stage) Leaving(uids map[string]bool) *Stage {
	out := *s
	out.nodes, out.on, out.bars = slices.Clone(s.nodes), map[string][]kube.Stored{}, map[string]*whatif.Bars{}
	out.pods = slices.DeleteFunc(slices.Clone(s.pods), func(p kube.Stored) bool { return uids[string(p.Pod().UID)] })
	for i := range out.nodes {
		n := &out.nodes[i]
		var residents []whatif.Resident
		var gone []int
		stay := slices.Clone(n.Pods)
		stay = slices.DeleteFunc(stay, func(x whatif.Resident) bool {
			if uids[x.Pod.UID] {
				residents, gone = append(residents, x), append(gone, len(gone))
			}
			return uids[x.Pod.UID]
		})
		if out.on[n.Name] = s.on[n.Name]; len(gone) > 0 {
			out.on[n.Name] = slices.DeleteFunc(slices.Clone(s.on[n.Name]), func(p kube.Stored) bool {
				return uids[string(p.Pod().UID)]
			})
			*n = *n.After(residents, gone)
			n.Pods = stay
		}
	}
	out.findExcluding()
	return &out
}

// Unrelated removes from wants what other pods mean to them, if no pod means anything to another one: where each may go
// depends on amounts, NUMA nodes, labels and taints alone. Otherwise it changes nothing and returns false.
func (s *Stage) Unrelated(wants []*whatif.Want) bool {
	if len(s.excluding) > 0 {
		return false
	}
	for _, w := range wants {
		if p, is := w.Peers.(*peer); is && p.relates() {
			return false
		}
	}
	for _, w := range wants {
		w.Peers = nil
	}
	return true
}

// relates reports whether a pod has requirements of other pods, or takes what only one pod of a node may have, or
// has volumes that may tie it to nodes.
func (p *peer) relates() bool { return p.excludes() || volumes(&p.pod.Spec) }

// excludes is relates without volumes that several pods may use.
func (p *peer) excludes() bool {
	return len(p.affinity)+len(p.anti)+len(p.spread)+len(p.ports)+len(p.exclusive) > 0
}

// Relates reports whether pods require something of other pods, or take what only one pod of a node may have.
func Relates(w *whatif.Want) bool {
	p, is := w.Peers.(*peer)
	return is && p.excludes()
}
