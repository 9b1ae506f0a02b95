package gangs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

func enough() error { return nil }

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
	result := "waits"
	go func() {
		_, err := g.Await(ctx, b, uid)
		if result = "may be bound"; err != nil {
			result = err.Error()
		}
	}()
	return func() string {
		synctest.Wait()
		return result
	}
}

func join(g *Gangs, enough func() error, uids ...string) {
	for _, uid := range uids {
		g.Reserved("default/g", Member{ledger.Member{UID: uid}, uid != "plain"}, enough)
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
		join(g, enough, "0", "1", "plain")
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
		for _, uid := range []string{"0", "1", "plain"} {
			g.Gone(uid)
		}
		if len(g.of)+len(g.open) > 0 {
			t.Errorf("%d members and %d batches are left", len(g.of), len(g.open))
		}
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
		join(g, enough, "0", "member")
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

func TestABatchFailsAsAWhole(t *testing.T) {
	for name, fail := range map[string]func(g *Gangs, end func()){
		"the time of a member is over": func(_ *Gangs, end func()) { end() },
		"too few have nodes":           func(g *Gangs, _ func()) { g.Gone("2") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, g := booked(t, 4, "n0", "n1", "n2"), &Gangs{}
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				few := errors.New("2 of its pods have nodes, and it needs 3")
				join(g, func() error { return few }, "0", "1", "2")
				first, second := asks(ctx, g, b, "0"), asks(t.Context(), g, b, "1")
				want(t, "first", first, "waits")
				fail(g, func() { cancel(few) })
				want(t, "first", first, "gang default/g: "+few.Error())
				want(t, "second", second, "gang default/g: "+few.Error())
				if b.HadTurn("0") || b.HadTurn("1") {
					t.Error("a member of a batch that failed has its turn")
				}
				// Members that are reserved again form another batch.
				g.Gone("0")
				g.Gone("1")
				join(g, enough, "0", "1")
				first, second = asks(t.Context(), g, b, "0"), asks(t.Context(), g, b, "1")
				want(t, "first", first, "may be bound")
				want(t, "second", second, "may be bound")
			})
		})
	}
}
