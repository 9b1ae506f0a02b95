package ledger

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

var promiseRuns = flag.Int("promises.n", 400, "how many random nodes promise room")

// keeper is a node that promises room, with pods that come, promised or not, and end. Its kubelet admits pods by place,
// in any order, and reports from time to time.
type keeper struct {
	rand   *rand.Rand
	book   *Book
	layout state.Layout
	node   node
	flying []comer // bound, and not admitted
	list   []state.Promised
	uid    int

	promised, came, strangers, refused, broken, lost, expired int
}

func newKeeper(t *testing.T, seed uint64) *keeper {
	k := &keeper{rand: rand.New(rand.NewPCG(seed, 8)), book: New()}
	k.layout = randomNode(t, k.rand)
	k.node = node{usage: place.NewUsage(k.layout.Machine, k.layout.Rules)}
	k.book.Report("n", k.layout)
	return k
}

func (k *keeper) now() *state.Node { return k.book.Snapshot().Node("n") }

func (k *keeper) draw() (state.PodID, *place.Pod) {
	k.uid++
	p := pod(1+k.rand.Int64N(5), 1)
	if k.rand.IntN(6) == 0 {
		p = withNICs(p, 1)
	}
	return state.PodID{UID: fmt.Sprint("u", k.uid), Namespace: "ml", Name: fmt.Sprint("p", k.uid)}, p
}

// promise promises room for pods of a new request, if the node has it.
func (k *keeper) promise() {
	list, request := k.list, fmt.Sprint("ml/r", k.uid)
	next := k.now()
	_, p := k.draw()
	for range 1 + k.rand.IntN(3) {
		id, other := k.draw()
		if k.rand.IntN(2) == 0 {
			p = other
		}
		if next.Unsettled || !next.Takes(p, place.Demand{}) {
			return
		}
		next, _ = next.With(id, p)
		list = append(list[:len(list):len(list)], state.Promised{ID: id, For: request, Pod: p})
	}
	k.book.Promise("n", list)
	if !k.now().Keeps() {
		k.book.Promise("n", k.list)
		return
	}
	k.promised += len(list) - len(k.list)
	k.list = list
}

// bind has a pod reserved, and bound when its turn comes. It returns whether the pod was bound.
func (k *keeper) bind(t *testing.T, id state.PodID, p *place.Pod) bool {
	v, _ := k.book.Reserve("n", id, p, place.Demand{})
	if !v.Fits() {
		return false
	}
	for tries := 0; ; tries++ {
		v, wait, err := k.book.Turn(id.UID, 0)
		if err != nil || tries > 3 {
			t.Fatalf("turn of %s after %d tries: %v, waits %v", id, tries, err, wait)
		}
		if wait == nil && v.Fits() {
			break
		}
		if wait == nil {
			return false
		}
		k.settle()
	}
	k.book.Assume("n", id, p)
	k.flying = append(k.flying, comer{id: id, pod: p})
	return true
}

// come has the next pod of a request come. It has to get its room.
func (k *keeper) come(t *testing.T) {
	request := k.list[k.rand.IntN(len(k.list))].For
	at := slices.IndexFunc(k.list, func(x state.Promised) bool { return x.For == request })
	if k.now().Unsettled || len(k.now().Others) > 0 {
		k.settle()
	}
	if !k.keeps() {
		return
	}
	x := k.list[at]
	if _, used, ok := k.now().Redeem(request, x.Pod, x.Demand, ""); !ok || used.ID != x.ID {
		t.Fatalf("pod %s of request %s redeems %v, promised are %v", x.ID, request, used, k.list)
	}
	k.list = slices.Delete(slices.Clone(k.list), at, at+1)
	k.book.Promise("n", k.list)
	if k.bind(t, x.ID, x.Pod) {
		k.came++
	} else {
		k.lost++
	}
}

// settle has the kubelet admit what is bound, in any order, and report it.
func (k *keeper) settle() {
	k.rand.Shuffle(len(k.flying), func(a, b int) { k.flying[a], k.flying[b] = k.flying[b], k.flying[a] })
	for _, x := range k.flying {
		v := place.Place(k.node.usage, x.pod)
		if !v.Fits() {
			k.refused++
			k.book.Refuse(x.id.UID, v.Refusal)
			continue
		}
		if len(v.Holdings) > 0 {
			k.node.admit(state.Entry{Pod: x.id, Source: state.Observed, Holdings: observed(v.Holdings)})
		}
	}
	k.flying = nil
	l := k.layout
	l.Entries = slices.Clone(k.node.entries)
	k.book.Report("n", l)
}

// keeps drops what the node cannot keep any more, and reports whether nothing had to be dropped. Only the end of a pod
// may have that effect: the next pod then gets other CPUs than it would have got.
func (k *keeper) keeps() bool {
	if k.now().Keeps() {
		return true
	}
	k.broken += len(k.list)
	k.list = nil
	k.book.Promise("n", nil)
	return false
}

func (k *keeper) end() {
	k.settle()
	if len(k.node.entries) == 0 {
		return
	}
	i := k.rand.IntN(len(k.node.entries))
	k.book.Release(k.node.entries[i].Pod.UID)
	k.node.entries = slices.Delete(slices.Clone(k.node.entries), i, i+1)
	k.node.usage = place.NewUsage(k.layout.Machine, k.layout.Rules).Hold(state.Holdings(k.node.entries)...)
	k.settle()
	k.keeps()
}

// expire drops the promises for one request, or restarts the scheduler, which keeps all of them.
func (k *keeper) expire() {
	if k.rand.IntN(3) == 0 {
		k.settle()
		k.book = New()
		k.book.Promise("n", k.list)
		k.settle()
		return
	}
	request := k.list[0].For
	before := len(k.list)
	k.list = slices.DeleteFunc(slices.Clone(k.list), func(x state.Promised) bool { return x.For == request })
	k.expired += before - len(k.list)
	k.book.Promise("n", k.list)
}

func (k *keeper) step(t *testing.T) {
	switch n := k.rand.IntN(10); {
	case n < 2:
		k.promise()
	case n < 5:
		if id, p := k.draw(); k.bind(t, id, p) {
			k.strangers++
		}
		if k.now().Unsettled { // the pod gets devices that cannot be predicted
			k.settle()
		}
		if !k.now().Keeps() {
			t.Fatalf("a pod that was not promised room took it: %v, promised %v", k.now().Entries, k.list)
		}
	case n < 7 && len(k.list) > 0:
		k.come(t)
	case n == 7:
		k.settle()
	case n == 8:
		k.end()
	case n == 9 && len(k.list) > 0:
		k.expire()
	}
}

// Nodes promise room for pods, and other pods come, and end, in any order, with expiry and restarts of the scheduler.
// What is promised is there: no promised pod finds no room, and no kubelet refuses a pod.
func TestPromisedRoomIsThere(t *testing.T) {
	var sum keeper
	for seed := range uint64(*promiseRuns) {
		k := newKeeper(t, seed)
		for range 60 {
			k.step(t)
			if k.lost+k.refused > 0 {
				t.Fatalf("seed %d: %d promised pods found no room, kubelets refused %d", seed, k.lost, k.refused)
			}
		}
		sum.promised, sum.came, sum.strangers = sum.promised+k.promised, sum.came+k.came, sum.strangers+k.strangers
		sum.broken, sum.expired = sum.broken+k.broken, sum.expired+k.expired
	}
	t.Logf("%d pods were promised room: %d came, %d expired, %d lost it by the end of other pods; %d pods came besides",
		sum.promised, sum.came, sum.expired, sum.broken, sum.strangers)
	if sum.came < sum.promised/4 || sum.strangers == 0 || sum.broken > sum.promised/20 {
		t.Error("the test shows too little")
	}
}

// Other schedulers take room that is promised. A pod that was reserved before has its turn nevertheless: it takes
// nothing that is still there for others.
func TestLostRoomHoldsUpNoOtherPod(t *testing.T) {
	b := New()
	b.Report("n", layout(t))
	b.Promise("n", []state.Promised{{ID: id(9), For: "ml/r", Pod: pod(28, 1)}})
	if v, _ := b.Reserve("n", id(0), pod(4, 1), place.Demand{}); !v.Fits() {
		t.Fatalf("a pod does not fit beside what is promised: %v", v)
	}
	b.Assume("n", id(1), pod(20, 1))
	b.Assume("n", id(2), pod(20, 1))
	if b.Snapshot().Node("n").Keeps() {
		t.Fatal("the promise is not lost")
	}
	if !turns(t, b, 0) {
		t.Error("a pod waits for its turn because of a promise that is lost")
	}
}
