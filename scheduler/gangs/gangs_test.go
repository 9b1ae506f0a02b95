package gangs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// least is a scheduler that has given nodes to the members in assumed, and needs so many.
type least struct {
	n       int
	assumed []string
	gaveUp  chan string
}

func (l *least) Enough(counts func(uid string) bool) error {
	n := 0
	for _, uid := range l.assumed {
		if counts(uid) {
			n++
		}
	}
	if n < l.n {
		return fmt.Errorf("%d have nodes", n)
	}
	return nil
}

func (l *least) GiveUp(uid string, _ error) { l.gaveUp <- uid }

// needs returns a scheduler that needs all of the members.
func needs(uids ...string) *least { return &least{len(uids), uids, make(chan string, 10)} }

// booked returns a book with nodes of six CPUs for pods, and reserves a pod of so many CPUs on each.
func booked(t *testing.T, cpus int64, nodes ...string) *ledger.Book {
	t.Helper()
	m, err := topo.ParseMachine("numa 0 cpus 0-6 memory 32Gi")
	if err != nil {
		t.Fatal(err)
	}
	b := ledger.New()
	for i, node := range nodes {
		b.Report(node, state.Layout{Machine: m, Rules: place.Rules{CPU: place.CPURules{Static: true,
			Reserved: idset.Of[idset.CPU](0)}}})
		reserve(t, b, node, fmt.Sprint(i), cpus, place.Demand{})
	}
	return b
}

func reserve(t *testing.T, b *ledger.Book, node, uid string, cpus int64, d place.Demand) {
	t.Helper()
	v, ok := b.Reserve(node, state.PodID{UID: uid, Namespace: "default", Name: uid}, &place.Pod{QoS: place.Guaranteed,
		Containers: []place.Container{{Name: "c", MilliCPU: cpus * 1000}}}, d)
	if !ok || !v.Fits() {
		t.Fatalf("pod %s: %v", uid, v.Reasons)
	}
}

// asks has a member wait in a goroutine; its result is read after the others stand still.
func asks(ctx context.Context, g *Gangs, b *ledger.Book, uid string) func() string {
	result, ended := "waits", make(chan string, 1)
	go func() {
		if _, err := g.Await(ctx, b, uid, time.Minute); err != nil {
			ended <- err.Error()
			return
		}
		ended <- "may be bound"
	}()
	return func() string {
		synctest.Wait()
		select {
		case result = <-ended:
		default:
		}
		return result
	}
}

func join(g *Gangs, s Scheduler, uids ...string) {
	for _, uid := range uids {
		g.Reserved("default/g", Member{Member: ledger.Member{UID: uid}, Booked: uid != "plain"}, s, time.Minute)
	}
}

func want(t *testing.T, who string, got func() string, want string) {
	t.Helper()
	if g := got(); g != want && (want == "" || !strings.Contains(g, want)) {
		t.Errorf("%s: %q, want %q", who, g, want)
	}
}

func TestMembersWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, g := booked(t, 4, "n0", "n1"), &Gangs{}
		join(g, needs("0", "1", "plain"), "0", "1", "plain")
		first := asks(t.Context(), g, b, "0")
		want(t, "first", first, "waits")
		plain := asks(t.Context(), g, b, "plain")
		want(t, "plain", plain, "waits")
		if b.HadTurn("0") {
			t.Error("one member has its turn, and another one has not come")
		}
		second := asks(t.Context(), g, b, "1")
		for who, got := range map[string]func() string{"first": first, "second": second, "plain": plain} {
			want(t, who, got, "may be bound")
		}
		if !b.HadTurn("0") || !b.HadTurn("1") {
			t.Error("a member may be bound and has no turn")
		}
		nothingLeft(t, g)
	})
}

// A pod of the same shape as a member had its turn on node n1. They may exchange what they get, which the member does
// not allow, so it waits until the pod is admitted. Meanwhile no member has a turn, and another pod may have its turn
// on node n0.
func TestAMemberThatWaitsHoldsUpNoOtherNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, g := booked(t, 3, "n0", "n1"), &Gangs{}
		reserve(t, b, "n1", "member", 3, place.Demand{Policy: place.SingleNUMA})
		reserve(t, b, "n0", "other", 1, place.Demand{})
		if _, wait, err := b.Turn("1", 0); wait != nil || err != nil {
			t.Fatal(wait, err)
		}
		join(g, needs("0", "member"), "0", "member")
		first, second := asks(t.Context(), g, b, "0"), asks(t.Context(), g, b, "member")
		want(t, "first", first, "waits")
		want(t, "second", second, "waits")
		if b.HadTurn("0") || b.HadTurn("member") {
			t.Error("a member has its turn, and the other one waits")
		}
		if _, wait, err := b.Turn("other", 0); wait != nil || err != nil {
			t.Errorf("another pod on node n0 waits: %v %v", wait, err)
		}
		b.Admitted("1")
		want(t, "first", first, "may be bound")
		want(t, "second", second, "may be bound")
	})
}

// While a member waits for its turn, another scheduler takes plain amounts of the other member's node. None of them has
// its turn then: the other member would be declined, and the gang would start in part.
func TestNoMemberIsBoundIfANodeHasTooLittleForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, g, s := booked(t, 3, "n0", "n1"), &Gangs{}, needs("0", "member")
		reserve(t, b, "n1", "member", 3, place.Demand{Policy: place.SingleNUMA})
		if _, wait, err := b.Turn("1", 0); wait != nil || err != nil {
			t.Fatal(wait, err)
		}
		short := ""
		for _, uid := range []string{"0", "member"} {
			g.Reserved("default/g", Member{Member: ledger.Member{UID: uid}, Booked: true, Short: func() string {
				return map[string]string{"0": short}[uid]
			}}, s, time.Minute)
		}
		first, second := asks(t.Context(), g, b, "0"), asks(t.Context(), g, b, "member")
		want(t, "second", second, "waits")
		short = "Insufficient cpu"
		b.Admitted("1")
		want(t, "first", first, "pod 0 of it no longer fits on its node: Insufficient cpu")
		want(t, "second", second, "pod 0 of it no longer fits on its node: Insufficient cpu")
		if b.HadTurn("0") || b.HadTurn("member") {
			t.Error("a member has its turn, and the other one has no room")
		}
	})
}

// The batch fails although the scheduler has not taken the node from the lost member yet. A member on its way is given
// up, and those that are reserved again form another batch, without the lost one.
func TestABatchFailsAsAWhole(t *testing.T) {
	for name, c := range map[string]struct {
		fail func(g *Gangs, end func())
		want string
		last bool // member 2 is on its way and has to be given up
	}{
		"the time of a member is over": {func(_ *Gangs, end func()) { end() }, "the node is gone", true},
		"a member is lost":             {func(g *Gangs, _ func()) { g.Lost("2") }, "2 have nodes", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, g, s := booked(t, 4, "n0", "n1", "n2"), &Gangs{}, needs("0", "1", "2")
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				join(g, s, "0", "1", "2")
				first, second := asks(ctx, g, b, "0"), asks(t.Context(), g, b, "1")
				want(t, "first", first, "waits")
				c.fail(g, func() { cancel(errors.New("the node is gone")) })
				want(t, "first", first, "gang default/g: "+c.want)
				want(t, "second", second, "gang default/g: "+c.want)
				if b.HadTurn("0") || b.HadTurn("1") {
					t.Error("a member of a batch that failed has its turn")
				}
				if c.last != (len(s.gaveUp) == 1) {
					t.Errorf("%d members were given up", len(s.gaveUp))
				}
				join(g, s, "0", "1")
				first, second = asks(t.Context(), g, b, "0"), asks(t.Context(), g, b, "1")
				want(t, "first, once more", first, "2 have nodes")
				want(t, "second, once more", second, "2 have nodes")
				join(g, s, "0", "1", "2")
				var all []func() string
				for _, uid := range []string{"0", "1", "2"} {
					all = append(all, asks(t.Context(), g, b, uid))
				}
				for _, got := range all {
					want(t, "member of the whole gang", got, "may be bound")
				}
				nothingLeft(t, g)
			})
		})
	}
}

// While two pods of a gang wait for their turns, a third one comes. It is bound if the two are, and is not if they are
// not: it would run alone.
func TestALaterMemberWaitsForThoseBeforeIt(t *testing.T) {
	for name, fails := range map[string]bool{"they have their turns": false, "their time is over": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, g := booked(t, 3, "n0", "n1", "n2"), &Gangs{}
				reserve(t, b, "n1", "member", 3, place.Demand{Policy: place.SingleNUMA})
				if _, wait, err := b.Turn("1", 0); wait != nil || err != nil {
					t.Fatal(wait, err)
				}
				s := &least{2, []string{"0", "member", "2"}, make(chan string, 10)}
				join(g, s, "0", "member")
				first, second := asks(t.Context(), g, b, "0"), asks(t.Context(), g, b, "member")
				want(t, "second", second, "waits")
				join(g, s, "2")
				later := asks(t.Context(), g, b, "2")
				want(t, "later", later, "waits")
				if b.HadTurn("2") {
					t.Error("the later pod has its turn, and the others wait")
				}
				if fails {
					time.Sleep(time.Minute)
					want(t, "first", first, "not all of its pods had their turns")
					want(t, "later", later, "1 have nodes")
				} else {
					b.Admitted("1")
					want(t, "first", first, "may be bound")
					want(t, "later", later, "may be bound")
				}
				for _, uid := range []string{"0", "member", "2"} {
					if b.HadTurn(uid) == fails {
						t.Errorf("pod %s had its turn: %t", uid, !fails)
					}
				}
				nothingLeft(t, g)
			})
		})
	}
}

func nothingLeft(t *testing.T, g *Gangs) {
	t.Helper()
	if len(g.of)+len(g.undecided) > 0 {
		t.Errorf("left are the members %v and the batches %v", g.of, g.undecided)
	}
}

// A member was refused after the group cycle, and finds no other node. Those that wait for it at Permit are given up
// after the limit, which begins again with each member that is added: others could use their room.
func TestMembersThatAreTooFewAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := &Gangs{}, needs("0", "1", "2")
		s.assumed = []string{"0", "1"}
		join(g, s, "0")
		time.Sleep(50 * time.Second)
		join(g, s, "1")
		time.Sleep(50 * time.Second)
		if len(s.gaveUp) > 0 {
			t.Errorf("pod %s is given up before the limit", <-s.gaveUp)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(s.gaveUp) != 2 {
			t.Errorf("%d pods are given up", len(s.gaveUp))
		}
		g.Lost("0")
		g.Lost("1")
		nothingLeft(t, g)
	})
}

// The time for turns begins when all members have come, however long one of them takes until then.
func TestAMemberMayComeLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, g := booked(t, 3, "n0", "n1"), &Gangs{}
		reserve(t, b, "n1", "member", 3, place.Demand{Policy: place.SingleNUMA})
		if _, wait, err := b.Turn("1", 0); wait != nil || err != nil {
			t.Fatal(wait, err)
		}
		join(g, needs("0", "member"), "0", "member")
		first := asks(t.Context(), g, b, "0")
		time.Sleep(time.Hour)
		want(t, "first", first, "waits")
		second := asks(t.Context(), g, b, "member") // waits for pod 1
		time.Sleep(59 * time.Second)
		want(t, "first", first, "waits")
		time.Sleep(2 * time.Second)
		for _, got := range []func() string{first, second} {
			want(t, "member", got, "gang default/g: not all of its pods had their turns after 1m0s")
		}
	})
}
