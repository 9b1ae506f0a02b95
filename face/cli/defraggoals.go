package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/defrag"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
)

// This file finds the pods that are to get room.

// maxAny bounds the pods for which findAny looks for room.
const maxAny = 32

// findAny finds a plan for as many of the pods as possible: one after the other, by priority, each beside those that
// have room. Pods equal to one that got no room are not tried.
func (d *defragmentation) findAny(step func() error) error {
	all := slices.Clone(d.problem.Pods)
	slices.SortStableFunc(all, func(a, b defrag.Goal) int { return cmp.Compare(b.Priority, a.Priority) })
	d.problem.Pods = nil
	var refused []defrag.Goal
	tried := 0
	for _, g := range all {
		if tried == maxAny || slices.ContainsFunc(refused, func(o defrag.Goal) bool {
			return o.Priority == g.Priority && o.Want.Same(g.Want)
		}) {
			d.without = append(d.without, g.ID.String())
			continue
		}
		tried++
		with := d.problem
		with.Pods = append(slices.Clone(d.problem.Pods), g)
		r, err := defrag.Find(with, step)
		if err != nil {
			return err
		}
		if r.Plan != nil {
			d.problem, d.result = with, r
			continue
		}
		if d.result.Plan == nil {
			d.result = r // why the first one has no room
		}
		refused = append(refused, g)
		d.without = append(d.without, g.ID.String())
	}
	if len(d.problem.Pods) > 0 || len(all) > 0 && len(d.problem.Empty)+len(d.problem.Must) == 0 {
		return nil
	}
	var err error // no pod gets room, and others have to move
	d.result, err = defrag.Find(d.problem, step)
	return err
}

// goals returns the pods that are to get room, first the ones that wait, and the objects whose pods are not judged.
func (a *app) goals(f defragFlags, s Stage, all *inputs, stderr io.Writer) (out []*task, notJudged []string,
	err error) {
	var waiting []*task
	if f.pending || len(f.pods) > 0 {
		if waiting, notJudged, err = a.waitingGoals(f, s.Pending(), stderr); err != nil {
			return nil, nil, err
		}
	}
	if len(f.files) > 0 || f.like != "" {
		sim := f.simulates()
		count, err := sim.counted()
		if err != nil {
			return nil, nil, err
		}
		x := &simulation{stage: s}
		if out, err = a.tasks(sim, x, all, count, stderr); err != nil {
			return nil, nil, err
		}
		notJudged = append(notJudged, x.notJudged...)
	}
	if f.any { // the most important ones come first
		waiting = waiting[:min(maxGoal, len(waiting))]
	}
	out, err = numbered(append(waiting, out...))
	return out, notJudged, err
}

// waitingGoals returns the pods that wait and are to get room, and why others get none that were asked for.
func (a *app) waitingGoals(f defragFlags, pending []*whatif.Workload, stderr io.Writer) (out []*task, not []string,
	err error) {
	wanted := map[string]bool{}
	var named []string
	for _, ref := range f.pods {
		id := a.fullName(ref)
		named, wanted[id] = append(named, id), true
	}
	for _, w := range pending {
		id := w.Namespace + "/" + w.Name
		if w.Held && wanted[id] && f.only == nil {
			return nil, nil, fmt.Errorf("--for: pod %s has scheduling gates or is being deleted: no scheduler "+
				"places it now", id)
		}
		if why := notForMoves(f, w); why != "" && (f.pending || wanted[id]) && !w.Held {
			not = append(not, why)
			fmt.Fprintln(stderr, "Warning: "+why)
		} else if (f.pending || wanted[id]) && !w.Held {
			out = append(out, &task{workload: w, wanted: w.Count, waiting: true})
		}
		delete(wanted, id)
	}
	for _, id := range named {
		if wanted[id] && f.only == nil {
			return nil, nil, fmt.Errorf("--for: no pod %s waits for a node", id)
		}
	}
	warnOfParts(f, pending, out, stderr)
	return out, not, nil
}

// notForMoves returns why no pods move for a pod that waits, although a plan may be possible; "" if they may. No person
// sees an automatic plan, so it would move pods for nothing if the pod gets no devices, or does not start alone.
func notForMoves(f defragFlags, w *whatif.Workload) string {
	switch {
	case !f.automatic:
		return ""
	case len(w.UnjudgedDevices) > 0:
		return fmt.Sprintf("no pods move for %s/%s, since what it asks for is not judged: %s", w.Namespace, w.Name,
			strings.Join(w.UnjudgedDevices, ", "))
	case w.Gang != "":
		return fmt.Sprintf("no pods move for %s/%s, since it starts only with others of %s", w.Namespace, w.Name, w.Gang)
	}
	return ""
}

// warnOfParts warns of gangs that perhaps do not get room as a whole: pods would move for nothing.
func warnOfParts(f defragFlags, pending []*whatif.Workload, goals []*task, stderr io.Writer) {
	others := map[string]int{} // pods that wait, by gang, without the goals
	for _, w := range pending {
		others[w.Gang]++
	}
	var gangs []string // with goals
	for _, t := range goals {
		if others[t.workload.Gang]--; t.workload.Gang != "" && !slices.Contains(gangs, t.workload.Gang) {
			gangs = append(gangs, t.workload.Gang)
		}
	}
	for _, gang := range gangs {
		switch n := others[gang]; {
		case n > 0:
			fmt.Fprintf(stderr, "Warning: %s of %s %s, and %s to get no room: pods of a gang start only with the others\n",
				choose(n, "1 other pod", fmt.Sprintf("%d other pods", n)), gang, choose(n, "waits", "wait"),
				choose(n, "is", "are"))
		case f.any:
			fmt.Fprintf(stderr, "Warning: not all pods of %s may get room, and they start only with the others: without "+
				"--any, all of them get room or none\n", gang)
		}
	}
}

// fullName returns NAMESPACE/NAME of a pod that the user names.
func (a *app) fullName(ref string) string {
	id := strings.TrimPrefix(ref, "pod/")
	if !strings.Contains(id, "/") {
		id = cmp.Or(a.kube.Namespace(), a.kube.fileNamespace, "default") + "/" + id
	}
	return id
}

// alignPod has a pod move to where it lies on as few NUMA nodes as its requests need on the empty machine, unless it
// lies so already.
func (d *defragmentation) alignPod(name string) error {
	for i := range d.problem.Movers {
		m := &d.problem.Movers[i]
		if m.Pod.String() != name {
			continue
		}
		if d.liesAligned(m.Pod, m.Node) {
			return nil
		}
		if w := *m.Want; !w.Demand.Binds() {
			w.Demand = place.Demand{Policy: place.Restricted}
			m.Want = &w
		}
		d.problem.Must = append(d.problem.Must, i)
		return nil
	}
	for _, x := range d.field.Fixed {
		if x.Pod.String() == name {
			if !d.liesAligned(x.Pod, x.Node) {
				d.stuck = append(d.stuck, x)
			}
			return nil
		}
	}
	return fmt.Errorf("--align: no pod %s runs on a node", name)
}

// liesAligned notes a pod whose own demand is met and that is not misaligned: its eviction would bring nothing. The
// result is false where it is not known what the pod holds, or where it holds nothing: another node may align it.
func (d *defragmentation) liesAligned(id state.PodID, node int) bool {
	n := d.problem.Nodes[node].State
	if n == nil || n.Quality != state.Exact {
		return false
	}
	e, holds := n.Entry(id.UID)
	w, err := d.stage.Like(id.Namespace, id.Name)
	if !holds || err != nil {
		return false
	}
	units := place.Alignments(n.Usage.Ideal(), w.Want.Pod, e.Holdings)
	if len(units) == 0 || place.Misaligned(units) ||
		!n.Judge(id.UID, w.Want.Pod, place.Verdict{Holdings: e.Holdings}, w.Want.Demand).Fits() {
		return false
	}
	d.aligned = append(d.aligned, id.String())
	return true
}

// numbered numbers the tasks, and refuses those for which no pods can be moved.
func numbered(tasks []*task) ([]*task, error) {
	pods := 0
	for i, t := range tasks {
		t.turn = i + 1
		if t.workload.PerNode {
			return nil, fmt.Errorf("%s has a pod on each node: name the nodes' pods that wait with --for", t.workload)
		}
		if pods += t.wanted; pods > maxGoal {
			return nil, fmt.Errorf("more than %d pods are to get room", maxGoal)
		}
	}
	return tasks, nil
}

// goalPods returns the pods of tasks.
func goalPods(tasks []*task) (out []defrag.Goal) {
	for _, t := range tasks {
		for i := range t.wanted {
			out = append(out, defrag.Goal{Member: whatif.Member{ID: t.workload.ID(t.turn, i), Want: t.workload.Want},
				Priority: t.workload.Rank.Number(), Later: !t.waiting})
		}
	}
	return out
}

// others counts the pods that wait and are not to get room.
func (d *defragmentation) others() int {
	n := d.stage.Waiting()
	for _, t := range d.tasks {
		if t.waiting {
			n -= t.wanted
		}
	}
	return max(0, n)
}

// names returns the pods that move, as kubectl names them.
func (d *defragmentation) names() (out []string) {
	if d.result.Plan == nil {
		return nil
	}
	for _, m := range d.result.Plan.Moves {
		out = append(out, "pod/"+d.problem.Movers[m.Mover].Pod.String())
	}
	return out
}
