// Package summary writes one sentence about why a pod has no node, or where it fits: never here, not now, not without
// a change, a wrong name, or not yet tried. The scheduler's event, the commands and the console show the same
// sentence, because they all give their facts to [Of].
//
// Invariant: the sentence follows from its facts alone, and claims no more than they show. It begins with "never" only
// if every node that the pod selects would refuse the pod without any other pod on it. It names what limits it: nodes
// that were not judged, nodes with amounts only, and predictions that may be wrong. The package reads nothing, and
// refuses to name pods of other namespaces, because readers of events may not see them; it counts these.
package summary

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/printable"
	"github.com/tenon-numa/tenon/core/whatif"
)

// Kind is what keeps a pod from running, as a word for programs.
type Kind string

// The kinds.
const (
	Fits      Kind = "fits"      // a node takes it now
	Chosen    Kind = "chosen"    // the scheduler has chosen a node
	NotTried  Kind = "not-tried" // no scheduler has tried it yet
	NotNow    Kind = "not-now"   // it fits once other pods have ended, or nodes have reported
	Changed   Kind = "changed"   // the pod or a node has to be changed
	Never     Kind = "never"     // no node that it selects could take it, even without other pods
	WrongName Kind = "wrong-name"
	NotKnown  Kind = "not-known" // no node was judged
)

// Summary is the answer about one pod.
type Summary struct {
	Kind Kind
	// Text is one sentence without the period at its end.
	Text string
	// Remedy is what to do, without a period; "" if nothing is known.
	Remedy string
}

// Node is what one node answers to the pod.
type Node struct {
	Name string
	// Reasons are the reasons of a whatif.Judgement; the pod fits if there are none.
	Reasons []place.Reason
	// Unjudged are requirements of the pod that were not judged on this node.
	Unjudged []string
	// Estimated: only amounts are known. Inexact: predictions for the node may be wrong.
	Estimated, Inexact bool
}

// State is how far the scheduling of a pod has come. The empty State means that this does not matter.
type State string

// The states that matter here, by the names in document.SchedulingState.
const (
	Deleted State = "deleted"
	Gated   State = "gated"
	Unseen  State = "unseen"
	Untried State = "untried"
	HasNode State = "chosen"
	Refused State = "refused"
	Unread  State = "notKnown" // what shows whether the scheduler exists was not read, or not all of it
)

// maxNames bounds the pods, and the values of a label, that a sentence names.
const maxNames = 3

// maxName bounds the bytes of a scheduler's name in a sentence. Kubernetes lets the name of a pod's scheduler have any
// length.
const maxName = 63

// maxSaid bounds the bytes of a scheduler's sentence in another one.
const maxSaid = 512

// Facts are all that a sentence depends on.
type Facts struct {
	Namespace string // of the pod
	// State is how far the scheduler with the name in Scheduler has come. Seen are known names of schedulers, Gates the
	// pod's gates, and Node the chosen node. Lease: some kube-scheduler runs, and its profiles are not known.
	State     State
	Scheduler string
	Seen      []string
	Gates     []string
	Node      string
	Lease     bool
	// Remedy is what helps a pod whose scheduler does not try it.
	Remedy string
	// Nodes are the nodes that were judged, in any order. NotJudged counts the others.
	Nodes     []Node
	NotJudged int
	// Partial: the reader may not read all of the cluster, so that nodes may be missing.
	Partial bool
	// Lost are the nodes that have lost room that they kept for the pod. Unsure are those that keep room for it and whose
	// next report will show whether it is still there. Both are ascending.
	Lost, Unsure []string
	// Said is the sentence in the message of the scheduler, see [Cut]; it stands for the nodes that may not be read.
	Said string
	// Message is the whole message of a scheduler that has refused the pod.
	Message string
	// Unjudged are requirements of the pod that were not judged on any node.
	Unjudged []string
	// Soonest is where the end of pods makes room, searched on the nodes that lack only amounts.
	Soonest whatif.Soonest
	// Offered returns the extended resources that nodes offer, for a name that may be meant. It may be nil.
	Offered func() []string
	// Fitting returns how much of the resource of a reason would fit on the node with this index in Nodes: without other
	// pods if the reason is permanent, and now if it is not. It returns 0 if that is not known. It may be nil.
	Fitting func(node int, r place.Reason) int64
}

// Of returns the sentence for a pod.
func Of(f *Facts) Summary {
	switch f.State {
	case Deleted:
		return Summary{NotTried, "It is being deleted, and no scheduler places it", f.Remedy}
	case Gated:
		return Summary{NotTried, "Not yet tried: it waits for " + plural(len(f.Gates), "gate ", "gates ") +
			strings.Join(f.Gates, ", "), f.Remedy}
	case Unseen:
		return f.unseen()
	case HasNode:
		return Summary{Kind: Chosen, Text: "Chosen: node " + f.Node +
			"; the pod waits there for its turn, or for pods that leave"}
	case Unread:
		if s, found := f.misnamed(); found {
			return s
		}
	}
	s := f.ofNodes()
	if s.Kind != Fits {
		s.Text += f.rooms()
	}
	if f.State == Refused && s.Kind == Fits && len(f.Unjudged) > 0 && f.Message != "" {
		// What this sentence leaves out may be why: the scheduler judges all requirements of the pod.
		s.Kind = NotKnown
		s.Text += "; its scheduler has refused it: " + printable.Clip(strings.TrimRight(uncounted(f.Message), ". "), maxSaid)
	}
	if f.State == Untried && (s.Kind == Fits || s.Kind == NotNow) {
		s.Kind = NotTried
		s.Text = "Not yet tried by scheduler " + printable.Clip(f.Scheduler, maxName) + ": " + lower(s.Text)
		s.Remedy = f.Remedy
	}
	return s
}

// Afterwards returns the sentence for a pod that was refused after a node was chosen for it, without an answer of the
// other nodes. lost and unsure are as in Facts; without them there is no sentence.
func Afterwards(lost, unsure []string) Summary {
	f := Facts{Lost: lost, Unsure: unsure}
	text := f.rooms()
	if text == "" {
		return Summary{}
	}
	return Summary{Kind: NotNow, Text: "Not now: it was refused after a node was chosen" + text}
}

// rooms names the nodes that have lost room that they kept for the pod, or may have; "" if there are none.
func (f *Facts) rooms() string {
	return about(f.Lost, "has lost", "have lost", "the room that was kept for it") +
		about(f.Unsure, "has", "have", "not reported yet whether the room that is kept for it is still there")
}

// about is a part of a sentence about nodes, with the verb for one and for several; "" if there are none.
func about(nodes []string, one, several, rest string) string {
	names := nodes[:min(len(nodes), maxNames)]
	list := strings.Join(names, ", ")
	if more := len(nodes) - len(names); more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	switch len(nodes) {
	case 0:
		return ""
	case 1:
		return "; node " + list + " " + one + " " + rest
	}
	return "; nodes " + list + " " + several + " " + rest
}

// unseen is the sentence for a pod whose scheduler has left no trace.
func (f *Facts) unseen() Summary {
	text := fmt.Sprintf("no scheduler named %q has been seen", printable.Clip(f.Scheduler, maxName))
	near := printable.Nearest(f.Scheduler, slices.DeleteFunc(f.schedulers(),
		func(name string) bool { return name == f.Scheduler }))
	switch {
	case near != "":
		text = "Wrong name: " + text + fmt.Sprintf("; %q may be meant", printable.Clip(near, maxName))
	case f.Lease:
		text = "Perhaps a wrong name: " + text + ", and the profiles of the kube-scheduler that leads are not known"
	default:
		text = "Wrong name, or not running: " + text
	}
	return Summary{WrongName, text, f.Remedy}
}

// schedulers returns the names that schedulers have where nothing else is configured, and those in Seen.
func (f *Facts) schedulers() []string {
	return append([]string{"default-scheduler", "tenon-scheduler"}, f.Seen...)
}

// misnamed is the sentence for a pod whose scheduler has a name that resembles a known one. It is uncertain, because a
// scheduler of that name may run whose traces were not read.
func (f *Facts) misnamed() (s Summary, found bool) {
	known := f.schedulers()
	near := printable.Nearest(f.Scheduler, known)
	if near == "" || slices.Contains(known, f.Scheduler) {
		return Summary{}, false
	}
	return Summary{WrongName, fmt.Sprintf("Perhaps a wrong name: no scheduler named %q is known; %q may be meant",
		printable.Clip(f.Scheduler, maxName), printable.Clip(near, maxName)),
		"create the pod with another spec.schedulerName, or make sure that a scheduler of that name runs"}, true
}

// ofNodes is the sentence that follows from what the nodes answer.
func (f *Facts) ofNodes() Summary {
	if len(f.Nodes) == 0 {
		if f.NotJudged == 0 && f.Partial {
			return f.unread()
		}
		if f.NotJudged == 0 {
			return Summary{Kind: NotKnown, Text: "Not known: there are no nodes"}
		}
		return Summary{NotKnown, "Not known: none of " + nodes(f.NotJudged) + " is judged",
			"see why the nodes report nothing (kubectl tenon doctor)"}
	}
	sel := f.selected()
	if len(sel.at) == 0 {
		return f.selectsNothing()
	}
	var fit, later []int
	for _, i := range sel.at {
		switch n := &f.Nodes[i]; {
		case len(n.Reasons) == 0:
			fit = append(fit, i)
		case lasting(n.Reasons) < 0:
			later = append(later, i)
		}
	}
	switch {
	case len(fit) > 0:
		return Summary{Kind: Fits, Text: fmt.Sprintf("Fits now on %d of %s", len(fit), nodes(len(f.Nodes))) +
			f.doubts(fit, true) + f.without(Node{})}
	case len(later) > 0:
		return f.notNow(later, sel)
	}
	return f.forGood(sel)
}

// unread is the sentence for a reader without nodes: what the scheduler has found is known nevertheless.
func (f *Facts) unread() Summary {
	text := "Not known: you may not read nodes, or there are none"
	if f.Said != "" {
		text = "The scheduler says: " + printable.Clip(f.Said, maxSaid)
	}
	return Summary{NotKnown, text, "ask an administrator for the right to read nodes and their layouts"}
}

// notNow is the sentence for a pod that fits once something has ended. later are the nodes for which that is so. The
// sentence is about the node that becomes free, or else about the closest of the nodes that were looked at.
func (f *Facts) notNow(later []int, sel selection) Summary {
	looked := f.Soonest.Looked
	if len(looked) == 0 { // all nodes lack something else, such as a free port
		for _, i := range later {
			looked = append(looked, whatif.Looked{Node: f.Nodes[i].Name, Reasons: f.Nodes[i].Reasons})
		}
	}
	best, end := looked[0], ""
	for _, x := range looked {
		switch {
		case x.Node == f.Soonest.Node:
			best, end = x, "; it fits there when "+f.ends(f.Soonest)
		case end == "" && closer(x.Node, tightest(x.Reasons, anyReason), best.Node, tightest(best.Reasons, anyReason)):
			best = x
		}
	}
	r := tightest(best.Reasons, anyReason)
	at := slices.IndexFunc(f.Nodes, func(n Node) bool { return n.Name == best.Node })
	text := "Not now: "
	if f.NotJudged > 0 {
		text = "Not now " + f.where(sel) + ": "
	}
	return Summary{NotNow, text + fmt.Sprintf("%s (node %s)", words(r), best.Node) + end +
		f.doubts([]int{at}, true) + f.without(f.Nodes[at]), f.lessNow(r, later, looked, best.Node)}
}

// lessNow is the remedy for a reason that pods remove when they end. Where the node has enough of the resource in sum,
// or somewhere, for no pod like this one, it names the most that fits now on one of the nodes that are tried. So it
// does where one of them has more on its NUMA nodes. node is the one that the sentence is about.
func (f *Facts) lessNow(r place.Reason, later []int, looked []whatif.Looked, node string) string {
	fits, on, policy := int64(0), "", ""
	switch r.Code {
	case place.Lacking, place.Short:
	case place.OneNUMA, place.Width, place.NoNUMA:
		// The reason has the amount that fits on its node: only nodes with more are of interest.
		fits, policy = r.Have, ", or use a node whose policy allows more NUMA nodes"
	default:
		return r.Remedy()
	}
	if r.Have <= 0 || f.Fitting == nil || policy != "" && r.Under != "" {
		return r.Remedy()
	}
	for _, x := range f.tried(r.Resource, later, looked, node) {
		if policy != "" && x.lacks.Have <= fits {
			continue
		}
		if n := f.Fitting(x.at, x.lacks); n > fits {
			fits, on = n, f.Nodes[x.at].Name
		}
	}
	switch on {
	case "": // no amount fits, or none beyond that in the reason
		return r.Remedy()
	case node:
		on = ""
	default:
		on = " (node " + on + ")"
	}
	return "wait for pods to end, or ask for at most " + place.Quantity(r.Resource, fits) + on + policy
}

// lacking is what the node at an index lacks most.
type lacking struct {
	at    int
	lacks place.Reason
}

// tried returns the nodes for which the amount of a resource that fits now is computed: the named one, and then those
// that are closest to having enough. The search for pods that end may have stopped before it has looked at them.
func (f *Facts) tried(resource string, later []int, looked []whatif.Looked, node string) (out []lacking) {
	reasons := map[string][]place.Reason{}
	for _, x := range looked {
		reasons[x.Node] = x.Reasons
	}
	for _, i := range later {
		n := &f.Nodes[i]
		known, ok := reasons[n.Name]
		if !ok {
			known = n.Reasons
		}
		if x := (lacking{i, tightest(known, anyReason)}); x.lacks.Resource == resource {
			out = append(out, x)
		}
	}
	slices.SortFunc(out, func(x, y lacking) int {
		a, b := f.Nodes[x.at].Name, f.Nodes[y.at].Name
		switch {
		case a == b:
			return 0
		case a == node || b != node && closer(a, x.lacks, b, y.lacks):
			return -1
		}
		return 1
	})
	return out[:min(len(out), maxTried)]
}

// ends names the pods to wait for, by name only in the pod's own namespace.
func (f *Facts) ends(s whatif.Soonest) string {
	var names []string
	for _, p := range s.Pods {
		if p.Namespace == f.Namespace {
			names = append(names, p.Name)
		}
	}
	names = names[:min(len(names), maxNames)]
	list, more := strings.Join(names, ", "), len(s.Pods)-len(names)
	switch {
	case len(names) == 0:
		list = fmt.Sprintf("%d of other namespaces", more)
	case more > 0:
		list += fmt.Sprintf(", and %d more", more)
	}
	switch {
	case len(s.Pods) == 1 && len(names) == 1:
		return "pod " + list + " ends"
	case len(s.Pods) == 1:
		return "a pod of another namespace ends"
	case s.Any:
		return "one of these pods ends: " + list
	}
	return "these pods end: " + list
}

// without names what a sentence about a node leaves out of account; "" if that is nothing.
func (f *Facts) without(about Node) string {
	all := slices.Concat(f.Unjudged, about.Unjudged)
	switch n := len(all); n {
	case 0:
		return ""
	case 1:
		return ", without regard to " + all[0]
	default:
		return fmt.Sprintf(", without regard to %s and %d more %s", all[0], n-1,
			plural(n-1, "requirement", "requirements"))
	}
}

// doubts counts the nodes at some indices that are known by amounts only, or that have inexact predictions, as text.
// With all set, it returns "" unless all of them are such nodes.
func (f *Facts) doubts(at []int, all bool) string {
	estimated, inexact := 0, 0
	for _, i := range at {
		switch {
		case f.Nodes[i].Estimated:
			estimated++
		case f.Nodes[i].Inexact:
			inexact++
		}
	}
	switch {
	case all && estimated+inexact < len(at), estimated+inexact == 0:
		return ""
	case estimated > 0:
		return " (estimated: " + nodes(estimated) + plural(estimated, " reports", " report") + " amounts only)"
	}
	return " (inexact: predictions for " + nodes(inexact) + " may be wrong)"
}

func nodes(n int) string { return fmt.Sprintf("%d %s", n, plural(n, "node", "nodes")) }

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// lower returns a sentence with a small first letter.
func lower(s string) string { return strings.ToLower(s[:1]) + s[1:] }
