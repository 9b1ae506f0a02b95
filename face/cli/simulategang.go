package cli

import (
	"bufio"
	"fmt"
	"slices"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/assign"
	"github.com/tenon-numa/tenon/core/whatif"
)

// This file simulates PodGroups of files. The pods of a gang are placed at the same time, or none of them is.

// racked is a [Stage] that knows the labels of nodes.
type racked interface {
	// Racks returns the nodes by their values of a label; known is false if the labels of nodes are not known.
	Racks(label string) (racks []whatif.Rack, known bool)
}

// racksOf returns the racks that may take the pods of a group: nil if the group has no label, or if the
// labels of nodes are not known.
func racksOf(s Stage, g whatif.Group) []whatif.Rack {
	r, ok := s.(racked)
	if g.Label == "" || !ok {
		return nil
	}
	racks, _ := r.Racks(g.Label)
	return racks
}

// podGroup is a PodGroup of the files, and what becomes of its pods.
type podGroup struct {
	whatif.Group
	note  string // why its pods are placed one by one; "" if they are placed together
	tasks []*task
	racks []whatif.Rack // see racksOf
	pods  int
	// outcome has the places of the pods; it is not set before the gang was placed.
	outcome *whatif.GangOutcome
	nodes   map[string][]string // names of pods by node
	leftOut []string
}

// gather finds the tasks of each group. The tasks of a gang are then placed together.
func (s *simulation) gather(groups []whatif.Group, tasks []*task) {
	of := map[string][]*task{}
	var names []string
	for _, t := range tasks {
		if w := t.workload; w.Group != "" {
			key := w.Namespace + "/" + w.Group
			if of[key] == nil {
				names = append(names, key)
			}
			of[key] = append(of[key], t)
		}
	}
	known := map[string]bool{}
	for _, g := range groups {
		key := g.Namespace + "/" + g.Name
		if known[key] {
			continue // the same object once more
		}
		known[key] = true
		x := &podGroup{Group: g, tasks: of[key], racks: racksOf(s.stage, g)}
		if x.note = x.oneByOne(s.countMax); x.note == "" {
			for _, t := range x.tasks {
				t.gang = x
			}
		}
		s.groups = append(s.groups, x)
	}
	for _, key := range names {
		if w := of[key][0].workload; !known[key] {
			s.groups = append(s.groups, &podGroup{Group: whatif.Group{Namespace: w.Namespace, Name: w.Group},
				tasks: of[key], note: noGroup + then})
		}
	}
	for _, x := range s.groups {
		for _, t := range x.tasks {
			x.pods += t.wanted
		}
	}
}

const (
	// noGroup and noMembers are about a group that the files have in part.
	noGroup   = "no PodGroup of the files has this name, and it may be in the cluster"
	noMembers = "no pods of the files name it"

	then = "; its pods are placed one by one"
)

// oneByOne returns why the pods of a group are placed one by one, or "".
func (g *podGroup) oneByOne(countMax bool) string {
	switch {
	case len(g.tasks) == 0:
		return noMembers
	case g.Least == 0:
		if g.Label != "" {
			return "its policy is basic" + then + ", and it is not judged that their nodes need the same value of " + g.Label
		}
		return "its policy is basic" + then
	case countMax:
		return "--count max counts the pods of each workload by itself" + then
	case slices.ContainsFunc(g.tasks, func(t *task) bool { return t.workload.PerNode }):
		return "a DaemonSet makes a pod for each node" + then
	}
	return ""
}

// place places the pods of a gang, unless they have been placed. It calls step before every pod that it tries.
func (g *podGroup) place(p *whatif.Plan, step func() error) error {
	if g.outcome != nil {
		return nil
	}
	gang, of, first := g.members()
	out, err := p.OneAfterTheOther(gang, first, step)
	if err != nil {
		return err
	}
	g.outcome, g.nodes = &out, map[string][]string{}
	for i, x := range out.Placed {
		if x.Node == assign.Left {
			g.leftOut = append(g.leftOut, x.Pod.Name)
			continue
		}
		name := p.Nodes()[x.Node].Name
		g.nodes[name] = append(g.nodes[name], x.Pod.Name)
		if out.Fits {
			of[i].outcome.Placed = append(of[i].outcome.Placed, x)
		}
	}
	if out.First >= 0 {
		of[out.First].outcome.Refusals = out.Refusals
	}
	return nil
}

// members returns the gang with its pods, and the task of each pod. The first pods are made before any of the others:
// the others come when these run. If these are too few for the gang to start, all pods count as first: then it never
// starts, and the answer is about room.
func (g *podGroup) members() (gang whatif.Gang, of []*task, first int) {
	gang = whatif.Gang{Least: g.Least, Racks: g.racks}
	for _, late := range []bool{false, true} {
		for _, t := range g.tasks {
			for i := range t.wanted {
				if late == (i >= t.workload.AtOnce(t.wanted)) {
					gang.Pods = append(gang.Pods, whatif.Member{ID: t.workload.ID(t.turn, i), Want: t.workload.Want})
					of = append(of, t)
				}
			}
		}
		if !late {
			first = len(of)
		}
	}
	if first < g.Least {
		first = len(of)
	}
	return gang, of, first
}

// writeGroups writes what becomes of each group.
func (s *simulation) writeGroups(b *bufio.Writer, limit int) {
	for _, g := range s.groups[:min(limit, len(s.groups))] {
		fmt.Fprintln(b)
		writeWrapped(b, "", g.text())
	}
	if more := len(s.groups) - limit; more > 0 {
		fmt.Fprintf(b, "\n... and %d more groups (--all shows them)\n", more)
	}
}

// text returns sentences about a group.
func (g *podGroup) text() string {
	name := fmt.Sprintf("PodGroup %s/%s", g.Namespace, g.Name)
	if g.note != "" {
		return name + ": " + g.note + "."
	}
	if g.pods < g.Least {
		return name + " is a gang. " + tooFew(g.Least, g.pods) + " None of them is placed."
	}
	out := fmt.Sprintf("%s is a gang: %d of its %s have to get nodes at the same time. ", name, g.Least,
		podsText(g.pods))
	fit := g.pods - len(g.leftOut)
	switch {
	case g.outcome.Fits && fit == g.pods:
		out += fmt.Sprintf("They fit%s: %s.", g.inRack(), nodeCounts(g.nodes))
	case g.outcome.Fits:
		out += fmt.Sprintf("%d fit%s: %s. Then no place is left for %s.", fit, g.inRack(), nodeCounts(g.nodes),
			firstOf(g.leftOut, maxListed, ""))
	case g.racks != nil && len(g.racks) == 0:
		out += fmt.Sprintf("No node has the label %s, which the nodes of all its pods have to share.", g.Label)
	case g.outcome.Doubt != whatif.None:
		out += fmt.Sprintf("Whether they fit is not known: %s. At least %d fit at the same time. None of them is placed.",
			doubts[g.outcome.Doubt], fit)
	case fit == 0:
		out += "None of them fits."
	default:
		least := ""
		if g.outcome.More {
			least = "at least "
		}
		out += fmt.Sprintf("At the same time %s%d fit%s: %s. Then no place is left for %s. None of them is placed.", least,
			fit, g.inRack(), nodeCounts(g.nodes), firstOf(g.leftOut, maxListed, ""))
	}
	return out + g.also()
}

// inRack returns where the places are, if all of them have to be in one rack.
func (g *podGroup) inRack() string {
	if g.racks == nil {
		return ""
	}
	return fmt.Sprintf(" where %s is %s", g.Label, g.outcome.Rack)
}

// also returns what people have to know beside the answer: what simulate does not look at, and why the gang may wait.
func (g *podGroup) also() (out string) {
	if g.Label != "" && g.racks == nil {
		out += " " + noRacks(g.Label)
	}
	if g.Part {
		out += " " + composite
	}
	var members []checked
	for _, t := range g.tasks {
		members = append(members, checked{workload: t.workload})
	}
	if text := oneAfterTheOther(g.Least, g.pods, members); text != "" && g.pods >= g.Least {
		out += " It never starts, though: " + text + "."
	}
	problems, notes := refused(g.Group, members)
	for _, text := range problems {
		out += " It never starts, though: " + text + "."
	}
	for _, text := range notes {
		out += " Whether it starts is not certain: " + text + "."
	}
	return out
}

// noRacks returns the sentence about a group whose racks are not judged.
func noRacks(label string) string {
	return "Racks are not judged: the labels of nodes are not known here, and the nodes of all its pods need the same " +
		"value of " + label + "."
}

// composite is about a group of a composite group.
const composite = "It belongs to a composite group: when that starts, and where, is not judged."

// doubts are the causes for which it is not known whether a gang fits.
var doubts = map[whatif.Doubt]string{
	whatif.Budget:  "the search reached the bound that tenon-scheduler has, too",
	whatif.Other:   "other rules, such as affinity between its pods, refuse the nodes that the search found",
	whatif.Size:    fmt.Sprintf("with more than %d pods, nodes are found pod by pod only", assign.SchedulerPods),
	whatif.Unknown: "nodes whose NUMA nodes are not known may take pods of it",
}

// gangDocument is a PodGroup in the JSON of simulate.
type gangDocument struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Gang is set if the pods are placed at the same time or not at all. Otherwise Note has why they are not, and the
	// fields after Fits are absent.
	Gang bool   `json:"gang"`
	Note string `json:"note,omitempty"`
	// Needed is how many pods have to get nodes at the same time; 0 if the number is not known, or if none have to.
	Needed int  `json:"needed"`
	Pods   int  `json:"pods"`
	Fits   bool `json:"fits"` // of a gang: enough of its pods fit at the same time
	// Fit is how many pods fit at the same time, of the most that were found, and Nodes has their names by node. They
	// are placed only if Fits is set. LeftOut are the others.
	Fit     int                 `json:"fit,omitempty"`
	Nodes   map[string][]string `json:"nodes,omitempty"`
	LeftOut []string            `json:"leftOut,omitempty"`
	// Label is the label whose value the nodes of all pods have to share, and Rack is the value on these nodes. Without
	// RacksJudged, the labels of nodes are not known.
	Label       string `json:"label,omitempty"`
	Rack        string `json:"rack,omitempty"`
	RacksJudged bool   `json:"racksJudged,omitempty"`
	// AtLeast is set if more pods may fit at the same time than were found.
	AtLeast bool `json:"atLeast,omitempty"`
	// Text has the sentences of the command about the group.
	Text string `json:"text"`
	// GaveUp is why it is not known whether the gang fits: budget, rules, size or nodes.
	GaveUp string `json:"gaveUp,omitempty"`
	// Composite is set if the group belongs to a composite group.
	Composite bool `json:"composite,omitempty"`
}

func (g *podGroup) document() gangDocument {
	out := gangDocument{Namespace: g.Namespace, Name: g.Name, Gang: g.note == "", Note: g.note, Needed: g.Least,
		Pods: g.pods, Label: g.Label, RacksJudged: g.racks != nil, Composite: g.Part, Text: g.text()}
	if x := g.outcome; x != nil {
		out.Fits, out.Fit, out.Nodes, out.LeftOut = x.Fits, g.pods-len(g.leftOut), g.nodes, g.leftOut
		out.Rack, out.GaveUp, out.AtLeast = x.Rack, string(x.Doubt), x.More
	}
	return out
}

// groupDocuments returns the groups for the JSON; nil if there are none.
func (s *simulation) groupDocuments() []gangDocument {
	if len(s.groups) == 0 {
		return nil
	}
	return document.Each(s.groups, (*podGroup).document)
}
