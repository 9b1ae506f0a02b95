package whatif

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/place"
)

// This file judges whether a pod can ever run, whichever pods run now, and finds small faults in a pod that keep it
// from being aligned.

// Lasting has the nodes that can take a pod now or later, and why other nodes never take it, whichever pods end.
type Lasting struct {
	// Ever are the names of the nodes that take the pod now or would take it once other pods have ended. Now are the
	// names of the nodes that take it now.
	Ever, Now []string
	// Refusals are the refusals of the nodes that are not in Ever, without reasons that pass once other pods have
	// ended. Nodes with the same reasons are one refusal, as for [Alike]. Refusals by more nodes come first.
	Refusals []Refusal
	// Judged has the result for each node, by position.
	Judged []Judgement
}

// Lasting judges a pod on all nodes, each by itself.
func (r Rules) Lasting(nodes []Node, w *Want) (out Lasting) {
	barred, groups := w.Barred(nodes), map[string]int{}
	for i := range nodes {
		j := r.Judge(&nodes[i], w, barred[i])
		out.Judged = append(out.Judged, j)
		if j.Fits() {
			out.Now = append(out.Now, nodes[i].Name)
		}
		if j.Fits() || j.When() == place.Later {
			out.Ever = append(out.Ever, nodes[i].Name)
			continue
		}
		lasting := slices.DeleteFunc(slices.Clone(j.Reasons), func(r place.Reason) bool { return r.When() == place.Later })
		key := Alike("", lasting)
		if at, ok := groups[key]; ok {
			out.Refusals[at].Nodes = append(out.Refusals[at].Nodes, nodes[i].Name)
			Merge(out.Refusals[at].Reasons, lasting)
			continue
		}
		groups[key] = len(out.Refusals)
		out.Refusals = append(out.Refusals, Refusal{Nodes: []string{nodes[i].Name}, Error: j.Verdict.Refusal,
			Reasons: nodes[i].Tried(w, lasting)})
	}
	slices.SortStableFunc(out.Refusals, func(a, b Refusal) int { return len(b.Nodes) - len(a.Nodes) })
	return out
}

// maxUnequal bounds the containers that a warning names.
const maxUnequal = 4

// NearlyGuaranteed returns advice for a pod that would get exclusive CPUs and aligned memory after a small change, or
// nothing. unequal has the containers that keep the pod from being Guaranteed, as in [Workload]. NearlyGuaranteed
// proposes numbers of CPUs with which one of the nodes would admit the pod if it were empty.
func NearlyGuaranteed(p *place.Pod, unequal []string, nodes []Node) (out []place.Advice) {
	if p.PodLevel {
		return []place.Advice{{What: "its resources are set for the pod as a whole: only kubelets before 1.34 and those " +
			"with the gate PodLevelResourceManagers align its CPUs and memory",
			Remedy: "set resources of the containers instead"}}
	}
	wantsCPU := slices.ContainsFunc(p.Containers, func(c place.Container) bool { return c.MilliCPU >= 1000 })
	if p.QoS == place.BestEffortQoS || !wantsCPU {
		return nil
	}
	if p.QoS != place.Guaranteed {
		why := strings.Join(unequal[:min(maxUnequal, len(unequal))], ", ")
		if more := len(unequal) - maxUnequal; more > 0 {
			why += fmt.Sprintf(" and %d more", more)
		}
		if why != "" {
			why = " (" + why + ")"
		}
		return []place.Advice{{What: "it is Burstable, so no kubelet aligns its CPUs and memory" + why,
			Remedy: "give each container limits for cpu and memory, equal to its requests"}}
	}
	for i, c := range p.Containers {
		if c.MilliCPU >= 1000 && c.MilliCPU%1000 != 0 {
			out = append(out, place.Advice{What: fmt.Sprintf("container %q wants %dm CPUs, no whole number, so it gets shared "+
				"CPUs", c.Name, c.MilliCPU), Remedy: "ask for " + wholeNumbers(p, i, nodes)})
		}
	}
	return out
}

// Bounds on the amounts that wholeNumbers tries in each direction, and on the nodes that it asks.
const (
	maxWholes = 8
	maxAsked  = 64
)

// wholeNumbers names the nearest whole numbers of CPUs, below and above what a container wants, with which some empty
// node admits the pod. If the state of no node is known, every number counts as admitted.
func wholeNumbers(p *place.Pod, container int, nodes []Node) string {
	var empty []*place.Usage
	for i := range nodes {
		if nodes[i].State != nil && len(empty) < maxAsked {
			empty = append(empty, nodes[i].State.Empty())
		}
	}
	var out []string
	below := p.Containers[container].MilliCPU / 1000
	for _, direction := range []int64{-1, 1} {
		for k := range int64(maxWholes) {
			n := below + direction*k
			if direction > 0 {
				n++
			}
			if n < 1 {
				break
			}
			pod := requesting(p, container, "cpu", n)
			if len(empty) == 0 ||
				slices.ContainsFunc(empty, func(u *place.Usage) bool { return place.Place(u, pod).Fits() }) {
				out = append(out, fmt.Sprint(n))
				break
			}
		}
	}
	if len(out) == 0 {
		return "a whole number that a node has"
	}
	return strings.Join(out, " or ")
}
