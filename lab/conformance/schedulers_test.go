package conformance_test

import (
	"cmp"
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/lab/conformance"
	"github.com/tenon-numa/tenon/lab/conformance/judge"
)

// perfect is a scheduler that tries every pod on every node with the kubelets' managers. Its fields are faults.
type perfect struct {
	j        judge.Judge
	worst    bool // takes the node on which the pod spans the most NUMA nodes
	old      bool // decides for all waiting pods by the state before the first of them was bound
	meek     bool // never evicts
	believes bool // takes what is published for the state of a node
	charges  bool // counts on each NUMA node what pods request in all
	careless bool // takes the first free devices for claims
	blind    bool // gives pods no devices for their claims
	single   bool // binds pods of gangs one by one
	timid    bool // starts no gang
}

func (s perfect) schedule(ctx context.Context, m *memory, waiting []*v1.Pod) error {
	waiting, err := s.startGangs(ctx, m, waiting)
	if err != nil {
		return err
	}
	slices.SortStableFunc(waiting, func(a, b *v1.Pod) int { return -cmp.Compare(importance(a), importance(b)) })
	before, err := s.state(ctx, m)
	if err != nil {
		return err
	}
	for _, p := range waiting {
		now := before
		if !s.old {
			if now, err = s.state(ctx, m); err != nil {
				return err
			}
		}
		node, victims, claimed, err := s.choose(ctx, now, p)
		if err != nil {
			return err
		}
		for _, v := range victims {
			m.remove(func(q *v1.Pod) bool { return q.UID == v.UID })
		}
		if node == "" {
			continue
		}
		if err := m.bind(p, node, claimed); err != nil {
			return err
		}
	}
	return nil
}

func importance(p *v1.Pod) int32 {
	if p.Spec.Priority == nil {
		return 0
	}
	return *p.Spec.Priority
}

// state returns what the scheduler takes for the state of the nodes.
func (s perfect) state(ctx context.Context, m *memory) (conformance.State, error) {
	out, err := m.Settled(ctx)
	if err != nil || !s.believes {
		return out, err
	}
	var known []*judge.Node
	for i, n := range m.nodes {
		v := out.Nodes[i]
		switch n.published {
		case conformance.PublishNothing, conformance.PublishEmpty:
			continue
		case conformance.PublishStop:
			v = n.frozen
		case conformance.PublishFull:
			empty := *v
			empty.States, empty.Pods = nil, nil
			v = &empty
		}
		known = append(known, v)
	}
	out.Nodes = known
	return out, nil
}

// choose returns the node for a pod, the pods to evict from it, and devices for the pod's claims.
func (s perfect) choose(ctx context.Context, now conformance.State, p *v1.Pod) (node string, victims []*v1.Pod,
	claimed []judge.Claimed, err error) {
	best := 0
	for _, n := range now.Nodes {
		got, err := s.j.Try(ctx, n, p)
		if err != nil {
			return "", nil, nil, err
		}
		if s.charges && got.Admitted && tooMuchCharged(n, p) {
			continue
		}
		better := node == "" || got.Span < best
		if s.worst {
			better = node == "" || got.Span > best
		}
		if got.Admitted && better {
			node, best, claimed = n.Object.Name, got.Span, got.Claims
			if s.careless {
				claimed, _ = firstDevices(n, p)
			}
			if s.blind {
				claimed = nil
			}
		}
	}
	if node != "" || s.meek {
		return node, nil, claimed, nil
	}
	for _, n := range now.Nodes {
		victims, err := s.j.Victims(ctx, n, p)
		if err != nil || len(victims) > 0 {
			return n.Object.Name, victims, nil, err
		}
	}
	return "", nil, nil, nil
}

// firstDevices returns the first free devices of a node that a pod wants, or false if there are too few.
func firstDevices(n *judge.Node, p *v1.Pod) (out []judge.Claimed, ok bool) {
	wanted, err := judge.WantedBy(p)
	if err != nil {
		return nil, false
	}
	taken := map[judge.Device]bool{}
	for _, q := range n.Pods {
		for _, c := range n.Claimed[q.UID] {
			taken[c.Device] = true
		}
	}
	for _, w := range wanted {
		for _, d := range n.Claimable {
			if w.Count > 0 && d.Class == w.Class && !taken[d] {
				w.Count--
				taken[d] = true
				out = append(out, judge.Claimed{Container: w.Container, Device: d})
			}
		}
		if w.Count > 0 {
			return nil, false
		}
	}
	return out, true
}

// tooMuchCharged reports whether the CPUs of all pods and of p are more than one NUMA node has.
func tooMuchCharged(n *judge.Node, p *v1.Pod) bool {
	var sum int64
	for _, q := range append(slices.Clone(n.Pods), p) {
		for _, c := range q.Spec.Containers {
			sum += c.Resources.Requests.Cpu().MilliValue()
		}
	}
	most := 0
	for _, numa := range n.Machine.NUMAs() {
		most = max(most, numa.CPUs.Len())
	}
	return sum > int64(most)*1000
}

// ignoresNUMA binds each pod to the first node with enough of everything in sum.
func ignoresNUMA(ctx context.Context, m *memory, waiting []*v1.Pod) error {
	for _, p := range waiting {
		for _, n := range m.nodes {
			v, err := n.view()
			if err != nil {
				return err
			}
			if devices, ok := firstDevices(v, p); ok && v.Excludes(p) == "" {
				if err := m.bind(p, n.name, devices); err != nil {
					return err
				}
				break
			}
		}
	}
	return nil
}

// onlyFirst binds the first pod of the case as the ideal scheduler does, and no other.
func onlyFirst(j judge.Judge) scheduler {
	return func(ctx context.Context, m *memory, waiting []*v1.Pod) error {
		for _, p := range m.pods {
			if p.Spec.NodeName != "" {
				return nil
			}
		}
		return perfect{j: j}.schedule(ctx, m, waiting[:min(1, len(waiting))])
	}
}

// triesOnce schedules a pod only when it is created.
func triesOnce(j judge.Judge) scheduler {
	tried := map[string]bool{}
	return func(ctx context.Context, m *memory, waiting []*v1.Pod) error {
		waiting = slices.DeleteFunc(waiting, func(p *v1.Pod) bool { return tried[string(p.UID)] })
		for _, p := range waiting {
			tried[string(p.UID)] = true
		}
		return perfect{j: j}.schedule(ctx, m, waiting)
	}
}

// evictsForNothing evicts a less important pod from the first node, and does not bind the pod for which it did so.
func evictsForNothing(j judge.Judge) scheduler {
	return func(ctx context.Context, m *memory, waiting []*v1.Pod) error {
		for _, p := range waiting {
			for _, v := range m.pods {
				if v.Spec.NodeName != "" && importance(v) < importance(p) {
					m.remove(func(q *v1.Pod) bool { return q.UID == v.UID })
					return nil
				}
			}
		}
		return perfect{j: j}.schedule(ctx, m, waiting)
	}
}
