package wake

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// toy is a pod; nodes answer pods of one size alike.
type toy struct {
	uid            string
	size, priority int
}

func order(a, b toy) int {
	return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.uid, b.uid))
}

// world has nodes with places, and a scheduler that tries one pod after the other.
type world struct {
	q       *Queue[int, int, toy]
	free    map[string]int
	queue   []toy
	placed  map[string]string // node of each pod by UID
	pods    map[string]toy
	vetoes  map[string]map[string]bool // nodes that something else excludes, by UID
	tries   map[string]int
	overdue []Woken[int, toy]
	held    map[string]bool
	// deaf: the queue does not learn how attempts end; unheard are these.
	deaf    bool
	unheard map[string]int
}

func newWorld(free map[string]int) *world {
	w := &world{free: free, placed: map[string]string{}, pods: map[string]toy{}, vetoes: map[string]map[string]bool{},
		tries: map[string]int{}, held: map[string]bool{}, unheard: map[string]int{}}
	w.q = New[int, int, toy](w, order)
	return w
}

// at has the rules of one node.
type at struct {
	*world
	node string
}

func (w *world) At(node string) Node[int, toy] { return at{w, node} }
func (at) Bars(toy) bool                       { return false }
func (a at) Room(size, most int) int           { return min(most, a.free[a.node]/size) }
func (at) Forces(int, toy, int) bool           { return false }
func (w *world) nodes() []string               { return slices.Sorted(maps.Keys(w.free)) }
func (w *world) waiting() (out map[string]bool) {
	out = map[string]bool{}
	w.q.Each(func(uid string, _ int, waits bool) { out[uid] = waits })
	return out
}

func (w *world) change(node string, by int) {
	w.free[node] += by
	if w.q.Change(node) {
		w.held[node] = true
	}
}

func (w *world) observe() {
	for node := range w.held {
		w.q.Observed(node)
	}
	clear(w.held)
}

// lapse has attempts end that are not reported.
func (w *world) lapse() {
	for uid, attempt := range w.unheard {
		w.q.Lapse(uid, attempt)
	}
	clear(w.unheard)
}

// run tries pods until there is none to try.
func (w *world) run() {
	for {
		for woken, more := w.q.Next(); more; woken, more = w.q.Next() {
			for _, x := range woken {
				w.queue = append(w.queue, x.Pod)
			}
			w.overdue = append(w.overdue, woken...)
		}
		if len(w.queue) == 0 {
			return
		}
		p := w.queue[0]
		w.queue = w.queue[1:]
		w.try(p)
	}
}

func (w *world) try(p toy) {
	w.tries[p.uid]++
	w.q.Begin(p.uid, p.size, p.size, p)
	others, refused := &Nodes{Names: map[string]bool{}}, false
	for _, n := range w.nodes() {
		switch {
		case w.vetoes[p.uid][n]:
			others.Names[n] = true
		case w.free[n] < p.size:
			refused = true
		default:
			w.placed[p.uid] = n
			w.q.Remove(p.uid)
			w.change(n, -p.size)
			return
		}
	}
	if w.deaf {
		w.unheard[p.uid] = w.q.Attempt(p.uid)
		return
	}
	if !refused {
		others = nil
	}
	w.q.Fail(p.uid, p, w.q.Attempt(p.uid), others)
}

func TestAsManyAreWokenAsThereIsRoomFor(t *testing.T) {
	w := newWorld(map[string]int{"n": 0})
	for i := range 10 {
		w.queue = append(w.queue, toy{fmt.Sprint("p", i), 2, i % 3})
	}
	w.run()
	clear(w.tries)
	w.change("n", 5)
	w.run()
	if len(w.tries) > 0 {
		t.Errorf("%v are tried before the change is observed", w.tries)
	}
	w.observe()
	woken, _ := w.q.Next()
	if len(woken) != 2 || woken[0].UID != "p2" || woken[1].UID != "p5" {
		t.Errorf("%v are woken, want the two most important pods", woken)
	}
	if again, _ := w.q.Next(); len(again) > 0 {
		t.Errorf("%v are woken for room that others are tried for", again)
	}
	// p2 takes its place, and p5 is excluded from the node, so the next pod is woken.
	w.vetoes["p5"] = map[string]bool{"n": true}
	w.queue = []toy{woken[0].Pod, woken[1].Pod}
	w.run()
	w.observe()
	w.run()
	if w.placed["p2"] != "n" || w.placed["p8"] != "n" || len(w.placed) != 2 {
		t.Errorf("placed are %v, want p2 and p8", w.placed)
	}
}

func TestAPodThatIsNeverTriedBlocksNoOtherPod(t *testing.T) {
	w := newWorld(map[string]int{"n": 0})
	w.queue = []toy{{"first", 2, 1}, {"second", 2, 0}}
	w.run()
	w.change("n", 2)
	w.observe()
	woken, _ := w.q.Next()
	if len(woken) != 1 || woken[0].UID != "first" {
		t.Fatalf("%v are woken, want the first", woken)
	}
	w.q.Overdue(woken[0].UID, woken[0].Attempt, woken[0].Node)
	if woken, _ = w.q.Next(); len(woken) != 1 || woken[0].UID != "second" {
		t.Errorf("%v are woken, want the second", woken)
	}
}

func TestOneEventCountsOnce(t *testing.T) {
	w := newWorld(map[string]int{"n": 0})
	w.queue = []toy{{"p", 2, 0}}
	w.run()
	w.q.Touch("n", "one")
	w.run()
	w.q.Touch("n", "one")
	if w.q.Pending() {
		t.Error("an event that was reported twice asks again")
	}
	w.q.Touch("n", "two")
	if !w.q.Pending() {
		t.Error("another event does not ask")
	}
}

func TestReconsiderTriesAllNodes(t *testing.T) {
	w := newWorld(map[string]int{"n": 4, "m": 0})
	p := toy{"p", 2, 0}
	w.q.Begin(p.uid, p.size, p.size, p)
	w.q.Reconsider(p.uid, w.nodes())
	w.q.Fail(p.uid, p, w.q.Attempt(p.uid), &Nodes{})
	w.run()
	if w.placed["p"] != "n" {
		t.Errorf("placed are %v", w.placed)
	}
}

// A pod that waits is tried at once, on nodes that have not changed since its attempt.
func TestReconsiderWakesAPodThatWaits(t *testing.T) {
	w := newWorld(map[string]int{"n": 4, "m": 0})
	p := toy{"p", 2, 0}
	w.q.Begin(p.uid, p.size, p.size, p)
	w.q.Fail(p.uid, p, w.q.Attempt(p.uid), &Nodes{})
	if w.run(); w.placed["p"] != "" {
		t.Fatalf("nothing has changed, and placed are %v", w.placed)
	}
	w.q.Reconsider(p.uid, w.nodes())
	if w.run(); w.placed["p"] != "n" {
		t.Errorf("placed are %v", w.placed)
	}
}

func TestALateReportOfAnEndDoesNotEndTheNextAttempt(t *testing.T) {
	w := newWorld(map[string]int{"n": 0})
	w.deaf = true
	w.queue = []toy{{"p", 2, 0}}
	w.run()
	old := w.unheard["p"]
	w.q.Begin("p", 2, 2, toy{"p", 2, 0})
	w.q.Lapse("p", old)
	if w.waiting()["p"] {
		t.Error("the pod waits while it is being tried")
	}
	w.q.Lapse("p", w.q.Attempt("p"))
	if !w.waiting()["p"] {
		t.Error("the pod does not wait after its attempt has lapsed")
	}
}

// For any sequence, no pod waits that a node has room for, and no pod is tried more often than nodes have changed.
func TestNoPodIsForgotten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(map[string]int{})
		for i := range rapid.IntRange(1, 3).Draw(t, "nodes") {
			w.free[fmt.Sprint("n", i)] = rapid.IntRange(0, 8).Draw(t, "free")
		}
		changes, begun := 0, map[string]int{}
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			steps := []string{"pod", "pod", "pod", "end", "end", "delete", "observe", "tick", "deaf"}
			switch rapid.SampledFrom(steps).Draw(t, "step") {
			case "pod":
				p := toy{fmt.Sprint("p", i), rapid.IntRange(1, 4).Draw(t, "size"), rapid.IntRange(0, 2).Draw(t, "priority")}
				w.vetoes[p.uid] = map[string]bool{}
				for _, n := range w.nodes() {
					w.vetoes[p.uid][n] = rapid.IntRange(0, 3).Draw(t, "veto") == 0
				}
				w.pods[p.uid], begun[p.uid] = p, changes
				w.queue = append(w.queue, p)
			case "end":
				if len(w.placed) > 0 {
					uid := rapid.SampledFrom(slices.Sorted(maps.Keys(w.placed))).Draw(t, "ends")
					node := w.placed[uid]
					delete(w.placed, uid)
					w.change(node, w.pods[uid].size)
					changes++
				}
			case "delete":
				if waiting := w.waiting(); len(waiting) > 0 {
					uid := rapid.SampledFrom(slices.Sorted(maps.Keys(waiting))).Draw(t, "deleted")
					w.q.Remove(uid)
					w.queue = slices.DeleteFunc(w.queue, func(p toy) bool { return p.uid == uid })
				}
			case "observe":
				w.observe()
			case "deaf":
				w.deaf = !w.deaf
			case "tick":
				w.lapse()
				for _, x := range w.overdue {
					w.q.Overdue(x.UID, x.Attempt, x.Node)
				}
				w.overdue = nil
			}
			if rapid.Bool().Draw(t, "run") {
				before := len(w.placed)
				w.run()
				changes += len(w.placed) - before
			}
		}
		for range 3 { // placements of one round change nodes for the next
			w.run()
			w.lapse()
			w.observe()
		}
		w.deaf = false
		w.run()
		for uid, waits := range w.waiting() {
			if !waits {
				t.Fatalf("pod %s is taken to be tried", uid)
			}
			for _, n := range w.nodes() {
				if !w.vetoes[uid][n] && w.free[n] >= w.pods[uid].size {
					t.Fatalf("pod %s waits and fits node %s", uid, n)
				}
			}
		}
		for uid, n := range w.tries {
			if n > 1+changes-begun[uid]+len(w.placed) {
				t.Fatalf("pod %s was tried %d times, and %d changes came", uid, n, changes-begun[uid])
			}
		}
	})
}
