package cli

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/face/draw"
)

const (
	textWidth = draw.DefaultWidth
	fewNodes  = 20 // nodes that are shown without --all, and nodes for which ways to make room are searched
	someNodes = 10 // nodes where a pod fits that explain shows without --all
	fewNames  = 5  // nodes of one group that explain names without --all
	fewWays   = 5  // nodes for which the pods to wait for are shown
)

// write writes the explanation as text. If all is set, it shows every node, and for a bound pod the other nodes, too.
// Otherwise it writes at most maxLines lines.
func (e *explanation) write(w io.Writer, all bool) error {
	p := sections{}
	switch {
	case e.pod.Node == "" || e.refused():
		p.add(e.writeSummary)
		p.add(e.writePod)
		p.add(e.writeRequests)
		p.add(e.writeClaims)
		e.addVerdicts(&p, all)
		p.add(e.writeSaid)
	case e.ended():
		p.add(e.writePod)
		p.add(e.writeRequests)
	default:
		p.add(e.writePod)
		p.add(e.writeRequests)
		p.add(e.writeHome)
		p.add(e.writeClaims)
		if all {
			p.add(func(b *bufio.Writer) { fmt.Fprintf(b, "\nIf it were on another node:\n") })
			e.addVerdicts(&p, all)
		}
	}
	limit := maxLines
	if all {
		limit = 0
	}
	if err := p.write(w, limit); err != nil {
		return fmt.Errorf("write explanation of pod %s: %w", e.pod.ID, err)
	}
	return nil
}

// writeSummary writes the one sentence about a pod that waits, and its remedy.
func (e *explanation) writeSummary(b *bufio.Writer) {
	s := e.summary()
	if e.refused() {
		writeWrapped(b, "", "Failed: a kubelet refused the pod, and it does not run again. Delete it. Another pod like it:")
	}
	writeWrapped(b, "", s.Text+".")
	if s.Remedy != "" {
		writeWrapped(b, "  ", "Remedy: "+s.Remedy+".")
	}
	if p := e.pod; p.Group != "" && p.Node == "" {
		name := p.ID.Namespace + "/" + p.Group
		writeWrapped(b, "", "The pod belongs to PodGroup "+name+", whose pods may have to start together: kubectl tenon "+
			"explain podgroup "+name+".")
	}
	fmt.Fprintln(b)
}

// writeHome writes what a bound pod holds, and what its node does not align.
func (e *explanation) writeHome(b *bufio.Writer) {
	e.writeHolds(b)
	if e.home != nil {
		apart := e.holds != nil && place.Verdict{Holdings: e.holds.Holdings}.NUMAs(e.home.Machine).Len() > 1
		writeUnaligned(b, []*state.Node{e.home}, e.pod.Pod, apart, 1)
	}
}

// writePod writes the state of the pod.
func (e *explanation) writePod(b *bufio.Writer) {
	p := e.pod
	qos := document.QoSName(p.Pod.QoS)
	switch {
	case e.refused():
		fmt.Fprintf(b, "Pod %s (%s) was refused by the kubelet of node %s", p.ID, qos, p.Node)
	case e.ended():
		fmt.Fprintf(b, "Pod %s (%s) has ended and holds nothing", p.ID, qos)
	case p.Node == "" && p.Deleted:
		fmt.Fprintf(b, "Pod %s (%s) has no node and is being deleted", p.ID, qos)
	case p.Node == "":
		fmt.Fprintf(b, "Pod %s (%s) waits for a node", p.ID, qos)
	default:
		fmt.Fprintf(b, "Pod %s (%s) is %s on node %s", p.ID, qos, strings.ToLower(p.Phase), p.Node)
	}
	fmt.Fprintln(b, ".")
	if status := strings.Trim(p.Reason+": "+p.Message, ": "); status != "" {
		writeWrapped(b, "  ", "Its status says "+status)
	}
	if s := p.Scheduling; s != nil && (s.State == document.Refused || s.State == document.NotKnown) {
		writeWrapped(b, "", s.Text()) // the summary has the other states
	}
	for _, text := range p.Misspelt {
		writeWrapped(b, "", "Warning: "+text+".")
	}
	if p.Demand.Policy != place.None {
		writeWrapped(b, "", "By its annotations it demands "+demandText(p.Demand)+".")
	}
}

// writeRequests writes the resources that the pod requests.
func (e *explanation) writeRequests(b *bufio.Writer) {
	p := e.pod
	fmt.Fprintln(b)
	rows := [][]string{{"CONTAINER", "KIND", "WANTS"}}
	for _, c := range p.Pod.Containers {
		rows = append(rows, []string{c.Name, document.KindName(c.Kind), wants(c)})
	}
	writeTable(b, rows)
	switch {
	case p.Pod.QoS == place.Guaranteed && p.Pod.PodLevel:
		fmt.Fprintln(b, "\nIts resources are set for the pod as a whole: only kubelets before 1.34, and those with the\n"+
			"gate PodLevelResourceManagers, align its CPUs and memory.")
	case p.Pod.Plain():
		fmt.Fprintf(b, "\nIt asks for no devices and is %s: no kubelet aligns anything for it.\n",
			document.QoSName(p.Pod.QoS))
	}
	e.writeAdvice(b)
}

// writeSaid writes the scheduler's own message about a pod without a node.
func (e *explanation) writeSaid(b *bufio.Writer) {
	if s := e.pod.Scheduling; s != nil && s.Message != "" {
		fmt.Fprintln(b)
		writeWrapped(b, "", "The scheduler's message: "+s.Message)
	}
}

// demandText returns the demand in a pod's annotations as text.
func demandText(d place.Demand) string {
	s := fmt.Sprintf("%s per %s", d.Policy, d.Scope)
	switch {
	case d.Align != "":
		s += " of " + d.Align.String()
	case d.Ignore != "":
		s += " of all but " + d.Ignore.String()
	}
	return s
}

// wants returns the resources that a container requests, as text.
func wants(c place.Container) string {
	var items []string
	switch {
	case c.MilliCPU%1000 != 0:
		items = append(items, fmt.Sprintf("%dm cpu (shared: not a whole number)", c.MilliCPU))
	case c.MilliCPU > 0:
		items = append(items, place.Quantity("cpu", c.MilliCPU/1000))
	}
	for _, m := range c.Memory {
		items = append(items, place.Quantity(m.Kind, m.Bytes))
	}
	for _, d := range c.Devices {
		items = append(items, place.Quantity(d.Resource, d.N))
	}
	if len(items) == 0 {
		return "nothing"
	}
	return strings.Join(items, " · ")
}

// writeHolds writes what a bound pod holds, and whether that is aligned.
func (e *explanation) writeHolds(b *bufio.Writer) {
	switch {
	case e.home == nil:
		fmt.Fprintf(b, "\nWhat it holds is not known: %s\n", e.homeProblem())
		return
	case e.holds == nil && e.pod.Pod.Plain():
		return
	case e.holds == nil && e.home.Quality == state.Estimated:
		fmt.Fprintf(b, "\nNode %s reports amounts only: which of them are the pod's is not known.\n", e.pod.Node)
		return
	case e.holds == nil && holdsNothing(e.home, e.pod.Pod):
		fmt.Fprintf(b, "\nIt holds nothing of its own: by its kubelet's settings, node %s pins nothing for it.\n", e.pod.Node)
		return
	case e.holds == nil:
		fmt.Fprintf(b, "\nNode %s has not reported that it holds anything.\n", e.pod.Node)
		return
	case e.holds.Source == state.Counted && !slices.ContainsFunc(e.holds.Holdings,
		func(h place.Holding) bool { return h.Kind != place.Init }):
		fmt.Fprintf(b, "\nNode %s reports amounts only: which of them are the pod's is not known. Beside them it keeps\n"+
			"from its init containers %s, or as much elsewhere.\n", e.pod.Node, draw.ItemsOn(e.home, e.holds.Holdings...))
		return
	}
	fmt.Fprintf(b, "\nIt holds (%s):\n\n", sourceText(e.holds.Source))
	m := e.home.Machine
	rows := [][]string{{"CONTAINER", "NUMA", "ALIGNED", "HOLDS"}}
	units := place.Alignments(e.home.Usage.Ideal(), e.pod.Pod, e.holds.Holdings)
	for _, h := range e.holds.Holdings {
		rows = append(rows, []string{document.NameOf(h.Container), spread(e.home, h), alignedText(units, h),
			items(e.home, h)})
	}
	writeTable(b, rows)
	rule := e.home.Rules.Topology
	fmt.Fprintf(b, "\nTogether that is on %s; the node's policy is %s per %s.\n",
		document.NUMANodes(document.Spread(m, e.holds.Holdings)), rule.Policy, rule.Scope)
	if e.holds.Source == state.Predicted && len(e.home.Inexact) > 0 {
		writeWrapped(b, "", "The kubelet may do something else ("+inexactCodes(e.home)+"); kubectl tenon map "+
			e.home.Name+" says why.")
	}
}

func (e *explanation) homeProblem() string {
	for _, p := range e.problems {
		if p.Node == e.pod.Node {
			return p.Reason
		}
	}
	return "node " + e.pod.Node + " has no layout"
}

func sourceText(s state.Source) string {
	switch s {
	case state.Observed:
		return "observed: the node reported it"
	case state.Counted:
		return "counted: in the amounts that the node reports"
	}
	return "predicted: the node has not reported it yet"
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// alignedText returns "yes" or "no" for a container that holds something, as the command pods does. For a container
// that has ended or holds nothing it returns "-".
func alignedText(units []place.Alignment, h place.Holding) string {
	for _, u := range units {
		if h.Kind != place.Init && (u.Container == h.Container || u.Container == "") {
			return yesNo(!u.Misaligned())
		}
	}
	return "-"
}

func items(n *state.Node, h place.Holding) string {
	if s := draw.ItemsOn(n, h); s != "" {
		return s
	}
	return "nothing of its own"
}

// addVerdicts adds where the pod fits, whom to wait for, which nodes refuse it and why, and what could not be judged.
func (e *explanation) addVerdicts(p *sections, all bool) {
	fits := slices.DeleteFunc(slices.Clone(e.verdicts), func(v verdictOn) bool { return !v.judged.Fits() })
	refused := e.refusing()
	limit, named := someNodes, fewNames
	if all {
		limit, named = len(e.verdicts), len(e.verdicts)
	}
	if len(fits) > 0 {
		p.add(func(b *bufio.Writer) {
			fmt.Fprintf(b, "\n%s fits on %d of %s. There it would get:\n\n", e.subject(), len(fits), nodesText(len(e.verdicts)))
			writeFits(b, fits, limit)
			e.writeLimits(b, fits, limit)
		})
	}
	if len(refused) > 0 {
		p.add(func(b *bufio.Writer) { writeWays(b, refused) })
		p.add(func(b *bufio.Writer) {
			fmt.Fprintf(b, "\nIt would be refused on %s:\n\n", nodesText(len(refused)))
			writeGroups(b, groupsOf(refused), named)
		})
	}
	if asked := e.pod.Unjudged; len(asked) > 0 && e.pod.Node == "" {
		p.add(func(b *bufio.Writer) {
			fmt.Fprintln(b)
			writeWrapped(b, "", "It also asks for what is not judged here: "+strings.Join(asked, ", ")+".")
		})
	}
	p.add(e.writeRules)
	if len(e.problems) > 0 {
		p.add(func(b *bufio.Writer) {
			fmt.Fprintf(b, "\nNot judged, %s:\n\n", nodesText(len(e.problems)))
			writeProblems(b, e.problems, limit, " (--all shows them)")
		})
	}
}

// writeLimits writes what the kubelets of fitting nodes do not align, and which arguments of a scheduler would keep the
// pod from these nodes.
func (e *explanation) writeLimits(b *bufio.Writer, fits []verdictOn, limit int) {
	var on []*state.Node
	fits = slices.DeleteFunc(slices.Clone(fits), func(v verdictOn) bool { return v.node == nil })
	for _, v := range fits {
		on = append(on, v.node)
	}
	writeUnaligned(b, on, e.pod.Pod, false, limit)
	e.writeStricter(b, fits)
}

// writeStricter writes, for each of strictArguments, on how many of the fitting nodes a scheduler with this argument
// would not place the pod. This program does not know which arguments the scheduler has.
func (e *explanation) writeStricter(b *bufio.Writer, fits []verdictOn) {
	count := map[string]int{}
	for _, v := range fits {
		for _, argument := range argumentsAgainst(v.node, e.pod.Pod, e.pod.Demand) {
			count[argument]++
		}
	}
	for _, argument := range slices.Sorted(maps.Keys(count)) {
		fmt.Fprintln(b)
		writeWrapped(b, "", fmt.Sprintf("A scheduler whose profile has %s keeps it from %d of these nodes.", argument,
			count[argument]))
	}
}

func (e *explanation) subject() string {
	if e.refused() {
		return "A pod like it"
	}
	return "It"
}

func nodesText(n int) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}

// writeFits writes a table of the first limit nodes on which the pod fits, with the holdings that it would get there,
// and explains the marks of nodes.
func writeFits(b *bufio.Writer, fits []verdictOn, limit int) {
	rows := [][]string{{"NODE", "CONTAINER", "NUMA", "GETS"}}
	choice, coarse, inexact := false, map[string]bool{}, map[string]bool{}
	for _, v := range fits[:min(limit, len(fits))] {
		name, n := v.name, v.node
		if n == nil { // only amounts matter to the pod
			n = &state.Node{Name: name}
		}
		if n.Quality == state.Estimated {
			name, coarse[cmp.Or(n.From, "NodeResourceTopology")] = name+" (coarse)", true
		}
		if len(n.Inexact) > 0 {
			name, inexact[inexactCodes(n)] = name+inexactMark, true
		}
		if len(v.judged.Verdict.Holdings) == 0 {
			rows = append(rows, []string{name, "-", "-", "its share of CPUs and memory, nothing of its own"})
		}
		for _, h := range v.judged.Verdict.Holdings {
			rows = append(rows, []string{name, document.NameOf(h.Container), spread(n, h), items(n, h)})
			name = ""
		}
		choice = choice || n.Quality == state.Exact && !v.judged.Verdict.Exact()
	}
	writeTable(b, rows)
	if more := len(fits) - limit; more > 0 {
		fmt.Fprintf(b, "... and on %d more (--all shows them)\n", more)
	}
	if len(coarse) > 0 {
		kinds := strings.Join(slices.Sorted(maps.Keys(coarse)), " or ")
		fmt.Fprintf(b, "\n(coarse) only the amounts of its %s are known\n", kinds)
	}
	for _, codes := range slices.Sorted(maps.Keys(inexact)) {
		fmt.Fprintln(b)
		writeWrapped(b, "", "(inexact) the kubelet may do something else ("+codes+"); kubectl tenon map NODE says why")
	}
	if choice {
		fmt.Fprintln(b, "\n~ the kubelet may as well take other, equal devices")
	}
}

// refusal returns a text with how long a refusal lasts and who refuses: the kubelet, or the pod's own demand.
func refusal(v verdictOn) string {
	s := map[place.When]string{place.Never: "Never", place.Changed: "Not without a change",
		place.Later: "Not now"}[v.judged.When()]
	all := v.judged.Verdict.Reasons
	switch {
	case len(all) > 0 && all[0].Code.OfDemand():
		s += " as the pod demands"
	case v.judged.Verdict.Refusal != "":
		s += " (" + string(v.judged.Verdict.Refusal) + ")"
	}
	return s
}

// writeWays writes which pods have to end to make room. Nodes where the fewest pods have to end come first.
func writeWays(b *bufio.Writer, refused []verdictOn) {
	var ways []verdictOn
	for _, v := range refused {
		if v.way != nil {
			ways = append(ways, v)
		}
	}
	if len(ways) == 0 {
		return
	}
	slices.SortStableFunc(ways, func(x, y verdictOn) int { return len(x.way.Pods) - len(y.way.Pods) })
	fmt.Fprintf(b, "\nWhom to wait for, the fewest pods whose end makes room:\n\n")
	rows, gone := [][]string{{"NODE", "PODS", "MISSING"}}, false
	for _, v := range ways[:min(fewWays, len(ways))] {
		var pods, missing []string
		for _, p := range v.way.Pods {
			name := p.String()
			if v.node != nil && slices.Contains(v.node.Gone, p) {
				name, gone = name+" (gone)", true
			}
			pods = append(pods, name)
		}
		for _, m := range v.missing() {
			missing = append(missing, m.Text())
		}
		rows = append(rows, []string{v.name, strings.Join(pods, joint), cmp.Or(strings.Join(missing, joint), "-")})
	}
	writeTable(b, rows)
	if more := len(ways) - fewWays; more > 0 {
		fmt.Fprintf(b, "... or on %s, where no fewer would have to end\n", nodesText(more)+" more")
	}
	if gone {
		fmt.Fprintln(b, "\n(gone) the pod no longer exists, and the node has not reported that: see its agent")
	}
}

// writeProblems writes at most limit problems, and how many more there are, with a hint where to see them.
func writeProblems(b *bufio.Writer, problems []document.Problem, limit int, hint string) {
	_ = problemTable("REASON", problems[:min(limit, len(problems))]).write(b, false)
	if more := len(problems) - limit; more > 0 {
		fmt.Fprintf(b, "... and %d more%s\n", more, hint)
	}
}

// writeTable writes rows of a table; the first row has the headings. It returns no error, because a bufio.Writer
// keeps its error until Flush.
func writeTable(b *bufio.Writer, rows [][]string) {
	_ = table{heads: rows[0], rows: rows[1:]}.write(b, false)
}

// writeWrapped writes words in lines of textWidth columns. It indents the first line by indent, and the others by two
// columns more.
func writeWrapped(b *bufio.Writer, indent, text string) {
	line := indent
	for i, word := range strings.Fields(draw.Printable(text)) {
		switch {
		case i == 0:
			line += word
		case len([]rune(line))+1+len([]rune(word)) <= textWidth:
			line += " " + word
		default:
			fmt.Fprintln(b, line)
			line = indent + "  " + word
		}
	}
	fmt.Fprintln(b, line)
}
