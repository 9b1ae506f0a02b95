// Package judge decides what a scheduler could have done better about NUMA nodes, by facts alone: what the kubelets'
// own managers hold, and what they answer if every pod is tried on every node.
//
// A [Scene] is a cluster at one moment, at which nothing changes. [Judge.Findings] restores the managers of each node
// from their state files and asks them. Invariant: no finding depends on a model of the kubelet. A finding names a node
// or an order that the managers accept. The package refuses to guess: if managers do not accept the state of a node,
// that is an error, not a verdict.
package judge

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/component-helpers/scheduling/corev1"
	configv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/tenon-numa/tenon/core/topo"
)

// Node is a node at one moment.
type Node struct {
	// Object has the name, the labels, the taints and the allocatable amounts.
	Object  *v1.Node
	Machine *topo.Machine
	Config  *configv1beta1.KubeletConfiguration
	// States are the state files of the kubelet's managers, by the names of kubelet.StateFiles.
	States map[string][]byte
	// Pods are bound to the node and have not ended, in the order in which the kubelet admitted them.
	Pods []*v1.Pod
	// Claimable are the devices of DRA drivers, and Claimed has the devices that pods have, by the UIDs of the pods.
	Claimable []Device
	Claimed   map[types.UID][]Claimed
}

// Fate is the outcome of a pod.
type Fate string

// The fates of pods in a scene.
const (
	Waits   Fate = "waits"   // bound to no node
	Runs    Fate = "runs"    // admitted by a kubelet
	Refused Fate = "refused" // by a kubelet
	Evicted Fate = "evicted" // by a scheduler
	Ended   Fate = "ended"   // by the user
)

// Pod is a pod of a scene.
type Pod struct {
	*v1.Pod
	Fate Fate
	// Foreign pods were bound by somebody else.
	Foreign bool
	// New pods were created in the step that the scene ends.
	New bool
	// Ran is true if a kubelet had admitted the pod before. A restarted kubelet may refuse it.
	Ran bool
	// Gang is the name of the pod's gang, or "".
	Gang string
}

// Scene is a cluster at one moment. Nothing changes until somebody acts.
type Scene struct {
	Nodes []*Node
	Pods  []Pod
	Gangs []Gang
}

// Kind is a kind of finding.
type Kind string

// The kinds of findings, from the worst on.
const (
	AvoidableRefusal      Kind = "refused"    // bound to a node whose kubelet refuses it
	PointlessEviction     Kind = "evicted"    // evicted, and no more important pod runs there
	HalfGang              Kind = "half"       // some pods of a gang run, and fewer than it needs
	AvoidableWait         Kind = "waits"      // a node admits it now
	AvoidableMisalignment Kind = "misaligned" // another node admits it on fewer NUMA nodes
)

// Finding is one thing that a scheduler could have done better.
type Finding struct {
	Kind Kind   `json:"kind"`
	Pod  string `json:"pod"`
	Node string `json:"node,omitempty"` // the node of the pod
	Text string `json:"text"`
}

// Judge asks managers. Dir is where their files are kept meanwhile: a short path, best on a memory file system.
type Judge struct{ Dir string }

// Findings returns what the scheduler could have done better in a scene, in the order of the pods.
func (j Judge) Findings(ctx context.Context, s *Scene) (out []Finding, err error) {
	for _, p := range s.Pods {
		if p.Foreign || p.Fate == Waits && s.together(p.Gang) {
			continue
		}
		var text string
		var kind Kind
		switch p.Fate {
		case Refused:
			kind, text, err = AvoidableRefusal, "", nil
			if !p.Ran {
				text, err = j.refusal(ctx, s, p)
			}
		case Evicted:
			kind, text = PointlessEviction, eviction(s, p)
		case Waits:
			kind = AvoidableWait
			text, err = j.wait(ctx, s, p)
		case Runs:
			if p.New {
				kind, text, err = j.running(ctx, s, p)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("judge pod %s: %w", p.Name, err)
		}
		if text != "" {
			out = append(out, Finding{Kind: kind, Pod: p.Name, Node: p.Spec.NodeName, Text: text})
		}
	}
	for _, g := range s.Gangs {
		found, err := j.gang(ctx, s, g)
		if err != nil {
			return nil, fmt.Errorf("judge gang %s: %w", g.Name, err)
		}
		out = append(out, found...)
	}
	return out, nil
}

// running explains what is wrong about a pod that runs. A pod without the devices of its claims runs only in a lab,
// where no driver prepares them: a real kubelet does not start it.
func (j Judge) running(ctx context.Context, s *Scene, p Pod) (kind Kind, text string, err error) {
	wanted, err := WantedBy(p.Pod)
	if err != nil {
		return "", "", err
	}
	lacks := 0
	for _, w := range wanted {
		lacks += w.Count
	}
	for _, n := range s.Nodes {
		lacks -= len(n.Claimed[p.UID])
	}
	if lacks > 0 {
		return AvoidableRefusal, fmt.Sprintf("bound to %s without %d devices of its claims: no kubelet starts it",
			p.Spec.NodeName, lacks), nil
	}
	text, err = j.misalignment(ctx, s, p)
	return AvoidableMisalignment, text, err
}

// refusal explains a refusal. Every refusal is avoidable, because a pod may wait.
func (j Judge) refusal(ctx context.Context, s *Scene, p Pod) (string, error) {
	said := fmt.Sprintf("kubelet of %s: %s: %s", p.Spec.NodeName, p.Status.Reason, p.Status.Message)
	best, err := j.best(ctx, s, p.Pod)
	if err != nil {
		return "", err
	}
	switch {
	case best.node == "":
		return said + "; no node admits it now: it had to wait", nil
	case best.node == p.Spec.NodeName:
		return said + "; it admits the pod now: another order", nil
	default:
		return said + "; " + best.node + " admits it", nil
	}
}

// eviction explains an eviction after which no more important pod runs on the node.
func eviction(s *Scene, p Pod) string {
	for _, other := range s.Pods {
		if other.Fate == Runs && other.Spec.NodeName == p.Spec.NodeName &&
			corev1.PodPriority(other.Pod) > corev1.PodPriority(p.Pod) {
			return ""
		}
	}
	if p.Spec.NodeName == "" {
		return "evicted before it ran"
	}
	return "evicted from " + p.Spec.NodeName + ", where no pod of a higher priority runs"
}

// wait names a node that admits a waiting pod now, or after the eviction of less important pods.
func (j Judge) wait(ctx context.Context, s *Scene, p Pod) (string, error) {
	var aligned []*Node // that give it devices of claims beside its CPUs, or need not do so
	for _, n := range s.Nodes {
		got, err := j.Try(ctx, n, p.Pod)
		if err != nil {
			return "", err
		}
		if !got.Apart || !n.strict() {
			aligned = append(aligned, n)
		}
		if got.Admitted && slices.Contains(aligned, n) {
			return n.Object.Name + " admits it now", nil
		}
	}
	if p.Spec.PreemptionPolicy != nil && *p.Spec.PreemptionPolicy == v1.PreemptNever {
		return "", nil
	}
	for _, n := range aligned {
		victims, err := j.Victims(ctx, n, p.Pod)
		if err != nil {
			return "", err
		}
		if len(victims) > 0 {
			return n.Object.Name + " admits it after the eviction of " + names(victims), nil
		}
	}
	return "", nil
}

func names(pods []*v1.Pod) string {
	var out []string
	for _, p := range pods {
		out = append(out, p.Name)
	}
	return strings.Join(out, ", ")
}

// maxVictims bounds the search for victims, which tries every subset of so many pods.
const maxVictims = 8

// Victims returns the less important pods without which the node admits the pod, as few as possible, or none.
func (j Judge) Victims(ctx context.Context, n *Node, p *v1.Pod) ([]*v1.Pod, error) {
	var less []*v1.Pod
	for _, other := range n.Pods {
		if corev1.PodPriority(other) < corev1.PodPriority(p) {
			less = append(less, other)
		}
	}
	if len(less) > maxVictims {
		return nil, fmt.Errorf("%d pods on node %s are less important, at most %d can be searched", len(less), n.Object.Name,
			maxVictims)
	}
	for _, set := range subsets(less) {
		got, err := j.Try(ctx, n.without(set), p)
		if err != nil {
			return nil, err
		}
		if got.Admitted {
			return set, nil
		}
	}
	return nil, nil
}

// subsets returns the subsets of pods that are not empty, the smallest first.
func subsets(pods []*v1.Pod) (out [][]*v1.Pod) {
	for bits := 1; bits < 1<<len(pods); bits++ {
		var set []*v1.Pod
		for i, p := range pods {
			if bits>>i&1 != 0 {
				set = append(set, p)
			}
		}
		out = append(out, set)
	}
	slices.SortStableFunc(out, func(a, b []*v1.Pod) int { return cmp.Compare(len(a), len(b)) })
	return out
}

// without returns the node as if some pods had ended.
func (n *Node) without(pods []*v1.Pod) *Node {
	out := *n
	out.Pods = slices.DeleteFunc(slices.Clone(n.Pods), func(p *v1.Pod) bool {
		return slices.ContainsFunc(pods, func(q *v1.Pod) bool { return p.UID == q.UID })
	})
	return &out
}

// misalignment names another node that admits a running pod on fewer NUMA nodes. All other pods stay where they are,
// also those that came later, so the room on that node was there when the scheduler decided.
func (j Judge) misalignment(ctx context.Context, s *Scene, p Pod) (string, error) {
	var own, least int
	var others []*Node
	for _, n := range s.Nodes {
		if n.Object.Name != p.Spec.NodeName {
			others = append(others, n)
			continue
		}
		var err error
		if own, least, err = j.Span(ctx, n, p.Pod); err != nil {
			return "", err
		}
	}
	if least < own {
		return fmt.Sprintf("spans %d NUMA nodes on %s, and would span %d there with other devices for its claims", own,
			p.Spec.NodeName, least), nil
	}
	best, err := j.best(ctx, &Scene{Nodes: others}, p.Pod)
	if err != nil || best.node == "" || best.Span >= own {
		return "", err
	}
	return fmt.Sprintf("spans %d NUMA nodes on %s, and would span %d on %s", own, p.Spec.NodeName, best.Span,
		best.node), nil
}

type choice struct {
	Outcome
	node string
}

// best tries a pod on every node, and returns the node that admits it on the fewest NUMA nodes; none has no name.
func (j Judge) best(ctx context.Context, s *Scene, p *v1.Pod) (out choice, err error) {
	for _, n := range s.Nodes {
		got, err := j.Try(ctx, n, p)
		if err != nil {
			return out, err
		}
		if got.Admitted && (out.node == "" || got.Span < out.Span) {
			out = choice{got, n.Object.Name}
		}
	}
	return out, nil
}

// Best returns the node that admits a pod on the fewest NUMA nodes, the first of equal ones, or "" if none admits it.
func (j Judge) Best(ctx context.Context, s *Scene, p *v1.Pod) (node string, span int, err error) {
	c, err := j.best(ctx, s, p)
	return c.node, c.Span, err
}
