package plugin

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/wake"
	"github.com/tenon-numa/tenon/scheduler/fwk"
	"github.com/tenon-numa/tenon/scheduler/waiting"
)

// loop is kube-scheduler's handling of pods: one after the other, the most important first.
type loop struct {
	t       *testing.T
	p       *Plugin
	nodes   []string
	queue   []*v1.Pod
	bound   map[string]*v1.Pod // by UID
	tries   map[string]int
	version int
	// vetoes are nodes that another plugin keeps a pod from, by the pod's UID.
	vetoes map[string]map[string]bool
	// due are delayed functions; they run only when the test asks for it.
	due []func()
}

func newLoop(t *testing.T, p *Plugin, nodes ...string) *loop {
	l := &loop{
		t:      t,
		p:      p,
		nodes:  nodes,
		bound:  map[string]*v1.Pod{},
		tries:  map[string]int{},
		vetoes: map[string]map[string]bool{},
	}
	p.waiting = waiting.NewQueue(p.Book.Snapshot, func(_ time.Duration, do func()) { l.due = append(l.due, do) })
	p.Book.OnChange(p.waiting.Change)
	return l
}

// run runs all due functions and attempts, and returns the number of attempts.
func (l *loop) run() (attempts int) {
	for {
		for woken, more := l.p.waiting.Next(); more; woken, more = l.p.waiting.Next() {
			for _, x := range woken {
				l.queue = append(l.queue, x.Pod)
			}
		}
		if len(l.queue) == 0 {
			return attempts
		}
		slices.SortStableFunc(l.queue, func(a, b *v1.Pod) int { return int(*b.Spec.Priority) - int(*a.Spec.Priority) })
		pod := l.queue[0]
		l.queue = l.queue[1:]
		l.attempt(pod)
		attempts++
	}
}

func (l *loop) attempt(pod *v1.Pod) {
	uid := string(pod.UID)
	l.tries[uid]++
	cs := framework.NewCycleState()
	if _, status := l.p.PreFilter(l.t.Context(), cs, pod, nil); !status.IsSuccess() {
		l.t.Fatalf("PreFilter: %v", status)
	}
	others, ours := &wake.Nodes{Names: map[string]bool{}}, false
	for _, n := range l.nodes {
		if l.vetoes[uid][n] {
			others.Names[n] = true
			continue
		}
		if !l.p.Filter(l.t.Context(), cs, pod, nodeInfo(n)).IsSuccess() {
			ours = true
			continue
		}
		if status := l.p.Reserve(l.t.Context(), cs, pod, n); !status.IsSuccess() {
			l.t.Fatalf("Reserve: %v", status)
		}
		l.bound[uid] = bind(pod, n)
		return
	}
	if !ours {
		others = nil
	}
	l.p.waiting.Failed(waiter{l.p}, pod, l.p.waiting.Attempt(uid), others)
}

// end deletes a pod that has run; the framework receives the event.
func (l *loop) end(pod *v1.Pod) {
	gone := pod.DeepCopy()
	gone.DeletionTimestamp, gone.Status.Phase = &metav1.Time{Time: time.Unix(1, 0)}, v1.PodSucceeded
	delete(l.bound, string(pod.UID))
	l.p.Feed.PodGone(gone)
	l.p.waiting.Observed(pod.Spec.NodeName)
}

// report has a node report the ledger's state of it.
func (l *loop) report(node string) {
	l.version++
	n := l.p.Book.Snapshot().Node(node)
	var entries []state.Entry
	for _, e := range n.Entries {
		entries = append(entries, state.Entry{Pod: e.Pod, Holdings: e.Holdings})
	}
	l.p.Book.Report(node, state.Layout{Machine: n.Machine, Rules: n.Rules, Entries: entries})
	l.p.waiting.Observed(node)
}

func important(p *v1.Pod, priority int) *v1.Pod {
	n := int32(priority)
	p.Spec.Priority = &n
	return p
}

// waits returns for every pod of the queue whether it waits.
func (l *loop) waits() map[string]bool {
	out := map[string]bool{}
	l.p.waiting.Each(func(uid string, _ *waiting.Class, waits bool) { out[uid] = waits })
	return out
}

// stranded returns the pods that wait although a node would take them.
func (l *loop) stranded() (out []string) {
	l.p.waiting.Each(func(uid string, c *waiting.Class, _ bool) {
		for _, n := range l.nodes {
			if !l.vetoes[uid][n] && (waiter{l.p}).Room(c.Ask, l.p.Book.Snapshot().Node(n), 1) > 0 {
				out = append(out, uid+" fits "+n)
			}
		}
	})
	slices.Sort(out)
	return out
}

// full adds a node with 16 CPUs on each NUMA node, held by pods of eight.
func full(t testing.TB, p *Plugin, node string) (held []*v1.Pod) {
	var entries []state.Entry
	for i, cpuList := range []string{"0-7", "8-15", "16-23", "24-31"} {
		pod := bind(cpus(fmt.Sprintf("%s-%d", node, i), 8), node)
		held, entries = append(held, pod), append(entries, holding(pod, cpuList))
	}
	p.Feed.Layout(layout(t, node, two, place.SingleNUMA, 1, entries...))
	for _, pod := range held {
		p.Feed.Pod(pod)
	}
	return held
}

// Five thousand pods of ten kinds wait. When room appears, that costs ten queries and as many attempts as there is room
// for; a change that makes room for no pod costs no attempt at all.
func TestAChangeWakesAsManyPodsAsItHelps(t *testing.T) {
	p := newPlugin(t, refuse)
	held := full(t, p, "n")
	full(t, p, "other")
	l := newLoop(t, p, "n", "other")
	for i := range 5000 {
		// Kinds of 12 CPUs and more, for which half a NUMA node is too little, and one of 8.
		n := 8
		if i%10 != 0 {
			n = 11 + i%10%5
		}
		pod := podOf(fmt.Sprintf("p%d", i), fmt.Sprintf("cpu=%d memory=%dGi", n, 1+i%10))
		l.queue = append(l.queue, important(pod, 5000-i%10*500+i/10))
	}
	if n := l.run(); n != 5000 {
		t.Fatalf("%d attempts at first, want one of each pod", n)
	}

	for range 3 { // without news
		l.report("other")
	}
	if n := l.run(); n != 0 {
		t.Errorf("reports without news lead to %d attempts", n)
	}
	before := p.waiting.Asked()
	l.end(held[0])
	if n := l.run(); n != 1 || p.waiting.Asked()-before > 11 {
		t.Errorf(
			"a place for one pod leads to %d attempts after %d questions, want 1 after 10 and one more",
			n,
			p.waiting.Asked()-before,
		)
	}
	if l.bound["uid-p4990"] == nil {
		t.Errorf("the most important pod did not get the place: %v", slices.Collect(maps.Keys(l.bound)))
	}
	l.end(held[2])
	if n := l.run(); n != 1 {
		t.Errorf("a place for one pod of its numa leads to %d attempts, want 1", n)
	}
	l.end(held[3])
	// Now NUMA node 1 has eight CPUs, too few for all but the small pods.
	if n := l.run(); n != 1 {
		t.Errorf("one more place leads to %d attempts, want 1", n)
	}
	if s := l.stranded(); len(s) > 0 {
		t.Errorf("%d pods sleep that fit, %s", len(s), s[0])
	}
}

// Another plugin may keep out a woken pod, or it may never be tried: its room is not lost for the others.
func TestAPlaceThatIsNotTakenWakesTheNext(t *testing.T) {
	p := newPlugin(t, refuse)
	held := full(t, p, "n")
	l := newLoop(t, p, "n")
	for i := range 4 {
		l.queue = append(l.queue, important(cpus(fmt.Sprintf("p%d", i), 8), 9-i))
	}
	l.run()
	l.vetoes["uid-p0"] = map[string]bool{"n": true}
	l.vetoes["uid-p1"] = map[string]bool{"n": true}
	l.end(held[0])
	if n := l.run(); n != 3 || l.bound["uid-p2"] == nil {
		t.Errorf("%d attempts, want that of two pods that are kept out and of the third: %v", n, l.tries)
	}

	l.end(held[1])
	woken, _ := p.waiting.Next()
	if len(woken) != 1 || woken[0].Pod.Name != "p3" {
		t.Fatalf("woken is %v", woken)
	}
	l.queue = append(l.queue, important(cpus("late", 8), 1)) // and p3 is never tried
	l.vetoes["uid-late"] = map[string]bool{"n": true}
	l.run()
	for _, do := range l.due {
		do()
	}
	if !l.waits()["uid-p3"] {
		t.Error("pod p3 is taken to be tried for ever")
	}
	l.report("n")
	if l.run(); l.bound["uid-p3"] == nil {
		t.Error("pod p3 is not tried again")
	}
}

// The ledger may have a node's change before the framework has processed the event. A pod that is tried too early is
// refused by plugins that use the framework's own view.
func TestAChangeWaitsForTheFramework(t *testing.T) {
	p := newPlugin(t, refuse)
	held := full(t, p, "n")
	l := newLoop(t, p, "n")
	pod := important(cpus("p", 8), 0)
	l.queue = append(l.queue, pod)
	l.run()
	gone := held[0].DeepCopy()
	gone.DeletionTimestamp, gone.Status.Phase = &metav1.Time{Time: time.Unix(1, 0)}, v1.PodSucceeded
	p.Feed.PodGone(gone)
	if n := l.run(); n != 0 {
		t.Errorf("%d attempts before the framework knows", n)
	}
	hint, err := p.podChanged(p.logger, pod, gone, nil)
	wakes(t, hint, err, false) // it is woken, but not by this hint
	if n := l.run(); n != 1 || l.bound["uid-p"] == nil {
		t.Errorf("%d attempts after that", n)
	}

	second := important(cpus("q", 8), 0)
	l.queue = append(l.queue, second)
	l.run()
	gone = held[1].DeepCopy()
	gone.DeletionTimestamp, gone.Status.Phase = &metav1.Time{Time: time.Unix(1, 0)}, v1.PodSucceeded
	p.Feed.PodGone(gone)
	for _, do := range l.due { // no event that the framework would call hints for
		do()
	}
	if n := l.run(); n != 1 {
		t.Errorf("%d attempts when no hint comes, want 1", n)
	}
}

// Events that change nothing in the ledger: a node without data joins and is accepted, or had its layout before; a
// nomination ends.
func TestEventsThatDoNotChangeTheLedger(t *testing.T) {
	p := newPlugin(t, "")
	full(t, p, "n")
	p.Feed.Layout(layout(t, "m", two, place.SingleNUMA, 1))
	l := newLoop(t, p, "n")
	joins := func(node string, pods ...*v1.Pod) (attempts int) {
		l.nodes = append(l.nodes, node)
		for _, pod := range pods {
			hint, err := p.nodeAdded(p.logger, pod, nil, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
			wakes(t, hint, err, false) // it is woken, but not by this hint
		}
		return l.run()
	}
	a, b := important(cpus("a", 8), 0), important(cpus("b", 16), 0)
	l.queue = append(l.queue, a, b)
	l.run()
	if n := joins("m", a, b); n != 2 || len(l.bound) != 2 {
		t.Errorf("a node joins whose layout was there before: %d attempts, %d pods have a place", n, len(l.bound))
	}
	d := important(cpus("d", 16), 0)
	l.nodes, l.queue = l.nodes[:1], append(l.queue, d)
	l.run()
	if n := joins("unknown", d); n != 1 || l.bound["uid-d"] == nil {
		t.Errorf("a node joins of which nothing is known: %d attempts", n)
	}

	full(t, p, "m2")
	l.nodes = []string{"n", "m2"}
	e := important(cpus("e", 16), 0)
	l.queue = append(l.queue, e)
	l.run()
	hint, err := p.layoutChanged(p.logger, e, layout(t, "m2", two, place.SingleNUMA, 2), nil)
	wakes(t, hint, err, false)
	if n := l.run(); n != 1 || l.bound["uid-e"] == nil {
		t.Errorf("a node loses its layout: %d attempts", n)
	}
}

// A pod that was kept from a node for a nominated pod is tried when that pod has gone elsewhere.
func TestAPromiseThatIsOver(t *testing.T) {
	p := newPlugin(t, "")
	l := newLoop(t, p, "n")
	p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 1))
	thief := important(cpus("thief", 8), 0)
	if _, status := p.PreFilter(t.Context(), framework.NewCycleState(), thief, nil); !status.IsSuccess() {
		t.Fatal(status)
	}
	p.waiting.Failed(waiter{p}, thief, p.waiting.Attempt("uid-thief"), &wake.Nodes{Names: map[string]bool{}})
	promised := cpus("promised", 16)
	promised.Status.NominatedNodeName = "n"
	same := promised.DeepCopy()
	same.ResourceVersion = "2"
	p.waiting.Events().OnUpdate(promised, same)
	if n := l.run(); n != 0 {
		t.Errorf("an update that ends no promise leads to %d attempts", n)
	}
	p.waiting.Events().OnUpdate(same, bind(same, "elsewhere"))
	if n := l.run(); n != 1 || l.bound["uid-thief"] == nil {
		t.Errorf("the end of a promise leads to %d attempts, and the pod has no place", n)
	}
}

// An informer that has missed the deletion of a pod delivers the next pod of that name as an update.
func TestAPodWhoseDeletionWasMissedWaitsNoMore(t *testing.T) {
	p := newPlugin(t, "")
	newLoop(t, p, "n")
	full(t, p, "n")
	gone := important(cpus("gone", 8), 0)
	if _, status := p.PreFilter(t.Context(), framework.NewCycleState(), gone, nil); !status.IsSuccess() {
		t.Fatal(status)
	}
	p.waiting.Failed(waiter{p}, gone, p.waiting.Attempt("uid-gone"), &wake.Nodes{Names: map[string]bool{}})
	next := gone.DeepCopy()
	next.UID = "uid-next"
	p.waiting.Events().OnUpdate(gone, next)
	if p.waiting.Has("uid-gone") {
		t.Error("a pod that does not exist waits")
	}
}

// Whatever happens, no pod waits that fits, and none is tried more than once for one change.
func TestEveryWaitingPodThatFitsIsTried(outer *testing.T) {
	rapid.Check(outer, func(t *rapid.T) {
		p := newPlugin(outer, refuse)
		l := newLoop(outer, p)
		for i := range rapid.IntRange(1, 3).Draw(t, "nodes") {
			l.nodes = append(l.nodes, fmt.Sprintf("n%d", i))
			p.Feed.Layout(layout(outer, l.nodes[i], two, place.SingleNUMA, 1))
		}
		changes, begun := 0, map[string]int{}
		p.Book.OnChange(func(node string) { changes++; p.waiting.Change(node) })
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"pod", "pod", "pod", "end", "end", "report", "delete", "tick"}).Draw(t, "step") {
			case "pod":
				pod := important(
					cpus(fmt.Sprint("p", i), rapid.SampledFrom([]int{3, 8, 16}).Draw(t, "cpus")),
					rapid.IntRange(0, 3).Draw(t, "priority"),
				)
				l.vetoes[string(pod.UID)] = map[string]bool{}
				for _, n := range l.nodes {
					l.vetoes[string(pod.UID)][n] = rapid.Bool().Draw(t, "veto")
				}
				begun[string(pod.UID)] = changes
				l.queue = append(l.queue, pod)
			case "end":
				if uid := some(t, l.bound); uid != "" {
					l.end(l.bound[uid])
				}
			case "report":
				l.report(rapid.SampledFrom(l.nodes).Draw(t, "node"))
			case "delete":
				uid := some(t, l.waits())
				p.waiting.Remove(uid)
				l.queue = slices.DeleteFunc(l.queue, func(p *v1.Pod) bool { return string(p.UID) == uid })
			case "tick":
				for _, do := range l.due {
					do()
				}
				l.due = nil
			}
			if rapid.Bool().Draw(t, "run") {
				l.run()
			}
		}
		for _, do := range l.due {
			do()
		}
		l.run()
		if s := l.stranded(); len(s) > 0 {
			t.Fatalf("pods sleep that fit: %v", s)
		}
		for uid, n := range l.tries {
			if n > 1+changes-begun[uid] {
				t.Fatalf("pod %s was tried %d times, and %d changes came", uid, n, changes-begun[uid])
			}
		}
		for uid, waits := range l.waits() {
			if !waits {
				t.Fatalf("pod %s is taken to be tried", uid)
			}
		}
	})
}

// some returns a key of a map, or "".
func some[V any](t *rapid.T, m map[string]V) string {
	if len(m) == 0 {
		return ""
	}
	return rapid.SampledFrom(slices.Sorted(maps.Keys(m))).Draw(t, "which")
}

// The framework reports which plugin refused the pod on which node; for refusals of other plugins, these wake the pod.
func TestRefusalsOfOtherPlugins(t *testing.T) {
	p := newPlugin(t, "")
	ours := fwk.NewStatus(fwk.Unschedulable).WithPlugin(p.Name())
	theirs := fwk.NewStatus(fwk.Unschedulable).WithPlugin("NodeResourcesFit")
	failure := func(absent *fwk.Status, plugins ...string) *fwk.Status {
		fit := &framework.FitError{
			Pod:       cpus("p", 1),
			Diagnosis: framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus()},
		}
		fit.Diagnosis.NodeToStatus.Set("a", ours)
		fit.Diagnosis.NodeToStatus.Set("b", theirs)
		if absent != nil {
			fit.Diagnosis.NodeToStatus.SetAbsentNodesStatus(absent)
		}
		for _, name := range plugins {
			fit.Diagnosis.AddPluginStatus(fwk.NewStatus(fwk.Unschedulable).WithPlugin(name))
		}
		return fwk.NewStatus(fwk.Unschedulable).WithError(fit)
	}
	if got := refusedByOthers(p, failure(nil, "NodeResourcesFit")); got != nil {
		t.Errorf("a pod that the plugin did not refuse is refused by others on %v", got)
	}
	got := refusedByOthers(p, failure(nil, p.Name(), "NodeResourcesFit"))
	if got.Has("a") || !got.Has("b") || got.Has("new") {
		t.Errorf("others refuse it on %v, want b", got)
	}
	got = refusedByOthers(p, failure(fwk.NewStatus(fwk.Unschedulable, "not that node"), p.Name(), "NodeAffinity"))
	if got.Has("a") || !got.Has("b") || !got.Has("new") {
		t.Errorf("others refuse it on all but %v, want a", got)
	}
}

// A pod was refused after a node had been chosen for it. Others had fitted, too, and no event will come from them.
func TestAPodThatLostItsNodeIsTriedOnTheOthers(t *testing.T) {
	p := newPlugin(t, refuse)
	p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 1, holding(cpus("x", 16), "0-15")))
	p.Feed.Layout(layout(t, "m", two, place.SingleNUMA, 1, holding(cpus("y", 16), "0-15")))
	l := newLoop(t, p, "m")
	pod := important(cpus("p", 16), 0)
	cs := cycle(t, p, pod)
	fits(t, filter(t, p, cs, "n"))
	p.Feed.Pod(bind(cpus("foreign", 16), "n"))
	if status := p.Reserve(t.Context(), cs, pod, "n"); status.IsSuccess() {
		t.Fatal("a place that is taken is reserved")
	}
	p.waiting.Failed(waiter{l.p}, pod, p.waiting.Attempt("uid-p"), &wake.Nodes{})
	if n := l.run(); n != 1 || l.bound["uid-p"] == nil {
		t.Errorf("%d attempts, the pod is bound to %v", n, l.bound["uid-p"])
	}
}

// Most changes that make room come without an event that wakes pods.
func TestEveryChangeThatMakesRoomWakesPods(t *testing.T) {
	half := holding(cpus("half", 16), "0-15")
	x, unlike := cpus("x", 16), podOf("x", "cpu=16 memory=2Gi") // on the other half
	base := func(t *testing.T, p *Plugin, entries ...state.Entry) {
		p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 1, append([]state.Entry{half}, entries...)...))
	}
	for name, c := range map[string]struct {
		args    string
		before  func(*testing.T, *Plugin)
		happens func(*testing.T, *Plugin)
	}{
		"a booking is given back": {refuse, func(t *testing.T, p *Plugin) {
			base(t, p)
			reserve(t, p, x, "n")
		}, func(t *testing.T, p *Plugin) { p.Unreserve(t.Context(), cycle(t, p, x), x, "n") }},
		"a pod is refused by its kubelet": {refuse, func(t *testing.T, p *Plugin) {
			base(t, p)
			p.Feed.Pod(bind(unlike, "n"))
		}, func(t *testing.T, p *Plugin) {
			gone := bind(unlike, "n")
			gone.Status.Phase, gone.Status.Reason = v1.PodFailed, string(place.UnexpectedAdmissionError)
			p.Feed.PodGone(gone)
		}},
		"a pod that vanished while it was assumed is given up": {refuse, func(t *testing.T, p *Plugin) {
			base(t, p)
			p.Feed.Pod(bind(x, "n"))
			p.Book.Vanish(string(x.UID))
		}, func(_ *testing.T, p *Plugin) { p.Book.Unreserve(string(x.UID)) }},
		"a report tells that a pod has gone which had vanished": {refuse, func(t *testing.T, p *Plugin) {
			base(t, p, holding(x, "16-31"))
			p.Feed.Pod(bind(x, "n"))
			p.Book.Vanish(string(x.UID))
		}, func(t *testing.T, p *Plugin) {
			p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 2, half))
		}},
		"a quarantine ends": {refuse, func(t *testing.T, p *Plugin) {
			base(t, p)
			p.Feed.Pod(bind(x, "n"))
			p.Book.Refuse(string(x.UID), place.TopologyAffinityError)
		}, func(_ *testing.T, p *Plugin) { p.Book.Pardon("n") }},
		"a silent node reports": {refuse + "\nsilentNodes: Refuse", func(t *testing.T, p *Plugin) {
			base(t, p)
			late := bind(podOf("late", "cpu=1 memory=1Gi"), "n")
			p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 2))
			p.Feed.Pod(late)
			p.Book.Admitted(string(late.UID))
			p.Book.Overdue(string(late.UID))
		}, func(t *testing.T, p *Plugin) {
			p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 3))
		}},
		"a layout that was refused is mended": {refuse, func(t *testing.T, p *Plugin) {
			bad := layout(t, "n", two, place.SingleNUMA, 2)
			bad.Machine.CPUs[1].CPUs = bad.Machine.CPUs[0].CPUs
			p.Feed.Layout(bad)
		}, func(t *testing.T, p *Plugin) { p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 3)) }},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlugin(t, c.args)
			l := newLoop(t, p, "n")
			c.before(t, p)
			l.queue = []*v1.Pod{important(cpus("waits", 16), 0)}
			l.run()
			if len(l.bound) > 0 {
				t.Fatal("the pod need not wait")
			}
			l.due = nil
			c.happens(t, p)
			for _, do := range l.due {
				do()
			}
			if n := l.run(); n != 1 || len(l.bound) != 1 {
				t.Errorf("%d attempts, want one that succeeds", n)
			}
		})
	}
}
