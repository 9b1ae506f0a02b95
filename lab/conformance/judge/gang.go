package judge

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/tenon-numa/tenon/lab/kubelet"
)

// This file judges gangs: pods that start together or not at all. A gang that waits is searched nodes for by trying
// every way to spread its pods over the nodes, in every order, with the managers. Evictions are not searched.

// Gang is a group of pods that start together or not at all.
type Gang struct {
	Name string
	// Need is how many of its pods have to run.
	Need int
	// Begun is true if so many have run. Then each other pod is judged alone.
	Begun bool
}

// MaxGang bounds the pods of a gang.
const MaxGang = 5

// together reports whether the pods of a gang have to be judged together.
func (s *Scene) together(gang string) bool {
	return slices.ContainsFunc(s.Gangs, func(g Gang) bool { return g.Name == gang && !g.Begun })
}

// gang returns the findings about a gang that has not begun: some of its pods run, or all that it needs could.
func (j Judge) gang(ctx context.Context, s *Scene, g Gang) (out []Finding, err error) {
	if g.Begun {
		return nil, nil
	}
	var run, wait []*v1.Pod
	for _, p := range s.Pods {
		switch {
		case p.Gang != g.Name:
		case p.Fate == Runs:
			run = append(run, p.Pod)
		case p.Fate == Waits:
			wait = append(wait, p.Pod)
		}
	}
	if len(run) > 0 && len(run) < g.Need {
		out = append(out, Finding{Kind: HalfGang, Pod: run[0].Name, Node: run[0].Spec.NodeName,
			Text: fmt.Sprintf("gang %s needs %d pods, and only %s run", g.Name, g.Need, names(run))})
	}
	if len(run) >= g.Need || len(wait) == 0 {
		return out, nil
	}
	places, err := j.Start(ctx, s.Nodes, wait, g.Need-len(run))
	if err != nil || len(places) == 0 {
		return out, err
	}
	var texts []string
	for _, p := range places {
		texts = append(texts, p.Pod.Name+" on "+p.Node)
	}
	return append(out, Finding{Kind: AvoidableWait, Pod: wait[0].Name,
		Text: fmt.Sprintf("gang %s can start now: %s", g.Name, strings.Join(texts, ", "))}), nil
}

// Placement is a node for a pod.
type Placement struct {
	Pod  *v1.Pod
	Node string
}

// Start returns nodes for need of the pods at the same time, or nothing if there is no way. The kubelets admit the pods
// in the order of the result.
func (j Judge) Start(ctx context.Context, nodes []*Node, pods []*v1.Pod, need int) ([]Placement, error) {
	if len(pods) > MaxGang {
		return nil, fmt.Errorf("%d pods, at most %d can be searched", len(pods), MaxGang)
	}
	s := &spread{Judge: j, nodes: nodes}
	for _, p := range pods {
		s.add(p)
	}
	for _, n := range nodes {
		fits := map[string][]int{"": nil}
		if err := s.extend(ctx, n, nil, fits); err != nil {
			return nil, err
		}
		s.fits = append(s.fits, fits)
	}
	left := make([]int, len(s.kinds))
	for k := range s.kinds {
		left[k] = len(s.kinds[k])
	}
	var out []Placement
	used := make([]int, len(s.kinds))
	for i, order := range s.find(0, need, left) {
		for _, k := range order {
			out = append(out, Placement{s.kinds[k][used[k]], nodes[i].Object.Name})
			used[k]++
		}
	}
	return out, nil
}

// spread is a search for nodes for pods. Equal pods are of one kind.
type spread struct {
	Judge
	nodes []*Node
	kinds [][]*v1.Pod
	// fits has, for each node, what the node admits at the same time: by the numbers of pods of each kind, an order of
	// kinds in which the kubelet admits them.
	fits []map[string][]int
}

// add adds a pod to the others of its kind.
func (s *spread) add(p *v1.Pod) {
	for k, others := range s.kinds {
		if apiequality.Semantic.DeepEqual(others[0].Spec, p.Spec) {
			s.kinds[k] = append(others, p)
			return
		}
	}
	s.kinds = append(s.kinds, []*v1.Pod{p})
}

// extend adds to fits every order that begins like the given one and that the node admits.
func (s *spread) extend(ctx context.Context, n *Node, order []int, fits map[string][]int) error {
	counts := s.counts(order)
	for k := range s.kinds {
		if counts[k] == len(s.kinds[k]) {
			continue
		}
		longer := append(slices.Clone(order), k)
		ok, err := s.admits(ctx, n, longer)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		fits[fmt.Sprint(s.counts(longer))] = longer
		if err := s.extend(ctx, n, longer, fits); err != nil {
			return err
		}
	}
	return nil
}

// counts returns how many pods of each kind are in an order.
func (s *spread) counts(order []int) []int {
	out := make([]int, len(s.kinds))
	for _, k := range order {
		out[k]++
	}
	return out
}

// admits reports whether the kubelet of a node admits pods of these kinds one after the other.
func (s *spread) admits(ctx context.Context, n *Node, order []int) (ok bool, err error) {
	used := make([]int, len(s.kinds))
	var pods []*v1.Pod
	for _, k := range order {
		pods = append(pods, asNew(s.kinds[k][used[k]]))
		used[k]++
	}
	now := *n
	for _, p := range pods {
		if now.Excludes(p) != "" {
			return false, nil
		}
		now.Pods = append(slices.Clone(now.Pods), p)
	}
	err = s.restore(ctx, n, func(m *kubelet.Managers, list *podList) error {
		ok = true
		for _, p := range pods {
			list.add(p)
			ok = ok && m.Admit(p).Admit
		}
		return nil
	})
	return ok, err
}

// find returns an order of kinds for each node from the i-th on, with need pods together, or nil. left are the pods of
// each kind without a node.
func (s *spread) find(i, need int, left []int) [][]int {
	if i == len(s.nodes) {
		if need > 0 {
			return nil
		}
		return [][]int{}
	}
	for _, key := range slices.Sorted(maps.Keys(s.fits[i])) {
		order := s.fits[i][key]
		rest := slices.Clone(left)
		enough := true
		for k, n := range s.counts(order) {
			rest[k] -= n
			enough = enough && rest[k] >= 0
		}
		if !enough || len(order) > need {
			continue
		}
		if out := s.find(i+1, need-len(order), rest); out != nil {
			return append([][]int{order}, out...)
		}
	}
	return nil
}
