package cli

import (
	"bufio"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/whatif"
)

// This file finds what keeps a PodGroup of the files from ever starting, before it is created. Whether its pods fit
// at the same time is what simulate finds out.

// checkedGroup is a PodGroup of the files, or the name of one that only pods have.
type checkedGroup struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// InFiles is set if the files have the PodGroup. Otherwise only pods name it.
	InFiles bool `json:"inFiles"`
	// Needed is how many pods have to get nodes at the same time, and 0 if none have to. Pods is how many the files
	// make.
	Needed int  `json:"needed"`
	Pods   int  `json:"pods"`
	Passes bool `json:"passes"`
	// Problems keep the group from ever starting. Notes do not.
	Problems []string `json:"problems"`
	Notes    []string `json:"notes"`
}

// checkGroups checks the groups of the files, and then the other groups that pods name, in the order of the files.
func checkGroups(s Stage, groups []whatif.Group, all []checked) (out []checkedGroup) {
	known := map[string]bool{}
	for _, g := range groups {
		if key := g.Namespace + "/" + g.Name; !known[key] {
			known[key] = true
			out = append(out, checkGroup(s, g, membersOf(all, g)))
		}
	}
	for _, x := range all {
		w := x.workload
		if key := w.Namespace + "/" + w.Group; w.Group != "" && !known[key] {
			known[key] = true
			g := whatif.Group{Namespace: w.Namespace, Name: w.Group}
			out = append(out, checkedGroup{Namespace: g.Namespace, Name: g.Name, Passes: true, Problems: []string{},
				Pods: podsOf(membersOf(all, g)), Notes: []string{noGroup + "; until there is one, its pods wait"}})
		}
	}
	return out
}

func membersOf(all []checked, g whatif.Group) (out []checked) {
	for _, x := range all {
		if g.Has(x.workload) {
			out = append(out, x)
		}
	}
	return out
}

// podsOf returns how many pods workloads make together. A DaemonSet makes one for each node that can take it.
func podsOf(members []checked) (n int) {
	for _, x := range members {
		if x.workload.PerNode {
			n += len(x.Ever)
		} else {
			n += x.workload.Count
		}
	}
	return n
}

// checkGroup checks a group with the workloads whose pods name it.
func checkGroup(s Stage, g whatif.Group, members []checked) checkedGroup {
	out := checkedGroup{Namespace: g.Namespace, Name: g.Name, InFiles: true, Needed: g.Least,
		Pods: podsOf(members), Problems: []string{}, Notes: []string{}}
	if len(members) == 0 {
		out.Notes = append(out.Notes, noMembers)
	}
	if g.Least == 0 {
		out.Notes = append(out.Notes, "its policy is basic: its pods may start one by one")
	}
	if g.Least == 0 && g.Label != "" {
		out.Notes = append(out.Notes, "the nodes of all its pods need the same value of "+g.Label+", which is not judged")
	}
	if g.Part {
		out.Notes = append(out.Notes, "it belongs to a composite group: when that starts, and where, is not judged")
	}
	if slices.ContainsFunc(members, func(x checked) bool { return x.workload.Ungrouped }) {
		out.Notes = append(out.Notes, "the API server drops spec.schedulingGroup of its pods: they start one by one, unless "+
			"its feature gate GenericWorkload is switched on")
	}
	if pods := podsOf(members); pods < g.Least && len(members) > 0 && atLeast(members) {
		out.Notes = append(out.Notes, fmt.Sprintf("its minCount is %d, and the files make %s of it, as far as that is known",
			g.Least, podsText(pods)))
	}
	problems, notes := refused(g, members)
	out.Problems, out.Notes = append(out.Problems, problems...), append(out.Notes, notes...)
	if g.Least > 0 && len(members) > 0 {
		out.Problems = append(out.Problems, groupProblems(s, g, members)...)
		if racks := racksOf(s, g); g.Label != "" && racks == nil {
			out.Notes = append(out.Notes, "racks are not judged: the labels of nodes are not known here, and the nodes of "+
				"all its pods need the same value of "+g.Label)
		}
	}
	out.Passes = len(out.Problems) == 0
	return out
}

// groupProblems returns what keeps a gang from ever starting.
func groupProblems(s Stage, g whatif.Group, members []checked) (out []string) {
	pods := podsOf(members)
	if pods < g.Least && !atLeast(members) {
		out = append(out, fmt.Sprintf("its minCount is %d, and the files make %s of it: lower minCount, or make more pods",
			g.Least, podsText(pods)))
	}
	if text := oneAfterTheOther(g.Least, pods, members); text != "" {
		out = append(out, text)
	}
	able := slices.DeleteFunc(slices.Clone(members), func(x checked) bool { return !x.passes() && !x.needsOthers() })
	if n := podsOf(able); n < g.Least && pods >= g.Least {
		return append(out, fmt.Sprintf("only %d of its %s can run on any node, and it needs %d", n, podsText(pods),
			g.Least))
	}
	racks := racksOf(s, g)
	if racks == nil || pods < g.Least || len(s.Nodes()) == 0 || slices.ContainsFunc(members, checked.needsOthers) {
		return out
	}
	if len(racks) == 0 {
		return append(out, "no node has the label "+g.Label+", which the nodes of all its pods have to share")
	}
	most, best := 0, ""
	for _, r := range racks {
		if n := podsOf(within(s.Nodes(), r, able)); n > most {
			most, best = n, r.Name
		}
	}
	if most < g.Least {
		out = append(out, fmt.Sprintf("it needs %d pods on nodes with the same value of %s, and at most %d of its pods "+
			"can run on such nodes (%s)", g.Least, g.Label, most, cmp.Or(best, "none")))
	}
	return out
}

// atLeast reports whether workloads may make more pods than is known.
func atLeast(members []checked) bool {
	return slices.ContainsFunc(members, func(x checked) bool { return x.workload.Guessed })
}

// needsOthers reports whether a node refuses a pod only as long as other pods are not there, which may be pods of its
// group.
func (c checked) needsOthers() bool {
	return slices.ContainsFunc(c.Refusals, func(r whatif.Refusal) bool {
		return slices.ContainsFunc(r.Reasons, func(x place.Reason) bool { return x.Code == place.PodAffinity })
	})
}

// oneAfterTheOther returns why a gang never has enough pods at the same time: an object makes some of its pods when
// others of it run. It returns "" if it has, and if all pods of the gang come later: then those that run before belong
// to none, or to another gang.
func oneAfterTheOther(least, pods int, members []checked) string {
	var late *whatif.Workload
	for _, x := range members {
		if w := x.workload; !w.PerNode && w.AtOnce(w.Count) < w.Count {
			pods -= w.Count - w.AtOnce(w.Count)
			late = cmp.Or(late, w)
		}
	}
	if late == nil || pods >= least || pods == 0 {
		return ""
	}
	return fmt.Sprintf("%s %s, and kube-scheduler waits for %d pods: %s", late, late.Late.Until, least, late.Late.Remedy)
}

// refused returns why kube-scheduler refuses a group whose pods differ (validatePodGroup and validateScheduledPods in
// pkg/scheduler/schedule_one_podgroup.go of 1.37). The notes say when it would refuse the group, where that depends on
// the cluster.
func refused(g whatif.Group, members []checked) (problems, notes []string) {
	type difference func(whatif.Group, []checked) (text string, certain bool)
	for _, differ := range []difference{otherPriority, otherScheduler, otherPreemption} {
		switch text, certain := differ(g, members); {
		case text == "":
		case certain:
			problems = append(problems, text)
		default:
			notes = append(notes, text)
		}
	}
	return problems, notes
}

// otherScheduler returns why kube-scheduler refuses a group because its pods have different schedulers, or "", which
// is always certain.
func otherScheduler(g whatif.Group, members []checked) (text string, certain bool) {
	var schedulers []string
	for _, x := range members {
		schedulers = append(schedulers, cmp.Or(x.workload.Scheduler, "default-scheduler"))
	}
	slices.Sort(schedulers)
	if schedulers = slices.Compact(schedulers); len(schedulers) < 2 {
		return "", true
	}
	then := "), and none of these gets all of them: "
	if g.Least == 0 {
		then = "): once pods of one have nodes, kube-scheduler refuses those of the others: "
	}
	return "its pods have different schedulers (" + strings.Join(schedulers, ", ") + then +
		"give all of them the same schedulerName", true
}

// otherPreemption returns why kube-scheduler refuses a group because of the preemption policy of its pods, or "".
// certain is false if it refuses the group only with a feature gate.
func otherPreemption(g whatif.Group, members []checked) (text string, certain bool) {
	known := slices.DeleteFunc(slices.Clone(members), func(x checked) bool { return x.workload.Preempts == "" })
	if len(known) == 0 {
		return "", false
	}
	first := known[0].workload
	other := slices.IndexFunc(known, func(x checked) bool { return x.workload.Preempts != first.Preempts })
	switch {
	case other > 0:
		w := known[other].workload
		return fmt.Sprintf("the preemptionPolicy of the pods of %s is %s, and that of the pods of %s "+
			"is %s; kube-scheduler tries the group only if all its pods have the same: give all of them the same "+
			"priorityClassName", first, first.Preempts, w, w.Preempts), true
	case !g.Part && g.Preempts != "" && g.Preempts != first.Preempts:
		return fmt.Sprintf("its preemptionPolicy is %s, and that of its pods is %s; with the feature gate "+
			"PodGroupPreemptionPolicy, kube-scheduler tries it only if they are equal", g.Preempts, first.Preempts), false
	}
	return "", false
}

// otherPriority returns why kube-scheduler refuses a group because of the priority of its pods, or "". certain is false
// if it refuses the group only if different classes have different priorities, which is not known.
func otherPriority(g whatif.Group, members []checked) (text string, certain bool) {
	const both = "kube-scheduler tries it only if they are equal: give both the same priorityClassName"
	for _, x := range members {
		w := x.workload
		equal, known := w.Rank.Equals(g.Rank)
		switch {
		case g.Part || equal:
		case known:
			return fmt.Sprintf("its priority is %d, and that of the pods of %s is %d; %s", g.Rank.Number(), w, w.Rank.Number(),
				both), true
		case text == "":
			text = fmt.Sprintf("its priority is that of %s, and the priority of the pods of %s is that of %s; %s",
				className(g.Rank), w, className(w.Rank), both)
		}
	}
	return text, false
}

// className names a priority class for people.
func className(r whatif.Rank) string {
	if r.Class == "" {
		return "the default class"
	}
	return "the class " + r.Class
}

// within returns the workloads whose pods can run on a node of a rack, with these nodes alone.
func within(nodes []whatif.Node, r whatif.Rack, members []checked) (out []checked) {
	in := map[string]bool{}
	for _, i := range r.Nodes {
		in[nodes[i].Name] = true
	}
	for _, x := range members {
		x.Ever = slices.DeleteFunc(slices.Clone(x.Ever), func(name string) bool { return !in[name] })
		if len(x.Ever) > 0 {
			out = append(out, x)
		}
	}
	return out
}

// write writes what was found about a group.
func (g checkedGroup) write(b *bufio.Writer) {
	needs := "may start one by one"
	if g.Needed > 0 {
		needs = fmt.Sprintf("start together, %d at least", g.Needed)
	}
	text := fmt.Sprintf("PodGroup %s/%s: its pods %s. The files make %s of it.", g.Namespace, g.Name, needs,
		podsText(g.Pods))
	switch {
	case !g.InFiles:
		text = fmt.Sprintf("PodGroup %s/%s has %s in the files.", g.Namespace, g.Name, podsText(g.Pods))
	case !g.Passes && g.Needed == 0:
		text = fmt.Sprintf("Pods of PodGroup %s/%s can never start:", g.Namespace, g.Name)
	case !g.Passes:
		text = fmt.Sprintf("PodGroup %s/%s can never start:", g.Namespace, g.Name)
	}
	writeWrapped(b, "", text)
	for _, p := range g.Problems {
		writeWrapped(b, "  ", strings.ToUpper(p[:1])+p[1:]+".")
	}
	for _, n := range g.Notes {
		writeWrapped(b, "  ", "Note: "+n+".")
	}
}
