package score

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// one has a single container.
func one(cpus, gigs, gpus int64) *place.Pod {
	c := place.Container{Name: "c", MilliCPU: cpus * 1000}
	if gigs > 0 {
		c.Memory = []place.Amount{{Kind: topo.Memory, Bytes: gigs << 30}}
	}
	if gpus > 0 {
		c.Devices = []place.Count{{Resource: "acme.com/gpu", N: gpus}}
	}
	return &place.Pod{QoS: place.Guaranteed, Containers: []place.Container{c}}
}

func drawnPod(t *rapid.T) *place.Pod {
	return one(rapid.Int64Range(0, 9).Draw(t, "cpus"), rapid.Int64Range(1, 20).Draw(t, "gigs"),
		rapid.Int64Range(0, 3).Draw(t, "gpus"))
}

// drawnUsage is a machine of up to four NUMA nodes with some holdings.
func drawnUsage(t *rapid.T, policy place.Policy) *place.Usage {
	var b strings.Builder
	cpu := 0
	for i := range rapid.IntRange(1, 4).Draw(t, "numas") {
		n := rapid.IntRange(1, 16).Draw(t, "cpus")
		fmt.Fprintf(&b, "numa %d cpus %d-%d memory %dGi\n", 3*i, cpu, cpu+n-1, rapid.IntRange(1, 40).Draw(t, "memory"))
		cpu += n
		// no node refuses a resource that the machine lacks
		for g := range rapid.IntRange(max(0, 1-i), 4).Draw(t, "gpus") {
			fmt.Fprintf(&b, "device acme.com/gpu g%d-%d numa %d\n", i, g, 3*i)
		}
	}
	m, err := topo.ParseMachine(b.String())
	if err != nil {
		t.Fatal(err)
	}
	u := place.NewUsage(m, place.Rules{Topology: place.TopologyRules{Policy: policy,
		Scope: place.Scope(rapid.IntRange(0, 1).Draw(t, "scope"))},
		CPU: place.CPURules{Static: true}, Memory: place.MemoryRules{Static: true}})
	for range rapid.IntRange(0, 6).Draw(t, "held") {
		if v := place.Place(u, drawnPod(t)); v.Fits() {
			u = u.Hold(v.Holdings...)
		}
	}
	return u
}

// fitting returns how many pods the node admits one after the other.
func fitting(u *place.Usage, p *place.Pod) (count int64) {
	for {
		v := place.Place(u, p)
		if !v.Fits() {
			return count
		}
		u = u.Hold(v.Holdings...)
		count++
	}
}

// enough is a number of pods for which the unseen pod has no weight.
const enough = fullWeight

// Under single-numa-node, the damage to pods of one container agrees with place: the number of pods that no longer fit
// after the placement, times the worth of one.
func TestDamageAgreesWithPlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u, p, usual := drawnUsage(t, place.SingleNUMA), drawnPod(t), drawnPod(t)
		v := place.Place(u, p)
		m := NewMix([]Share{{usual, enough}})
		if !v.Fits() || len(m.Shares()) == 0 || v.NUMAs(u.Machine) == 0 {
			return
		}
		lost := fitting(u, usual) - fitting(u.Hold(v.Holdings...), usual)
		want := 2 * lost * m.shapes[0].worth * fullWeight
		if got := m.damage(u, taking{verdict: &v}, v.NUMAs(u.Machine)); got != want {
			t.Errorf("damage %d, want %d: %d pods of %s less", got, want, lost, usual.Shape())
		}
	})
}

// Under any policy, the damage is at least 0, and at most the value of all pods before.
func TestDamageIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u, p := drawnUsage(t, place.Policy(rapid.IntRange(0, 3).Draw(t, "policy"))), drawnPod(t)
		v := place.Place(u, p)
		m := NewMix([]Share{{drawnPod(t), 3 * enough}, {drawnPod(t), 2 * enough}, {drawnPod(t), enough}})
		if !v.Fits() {
			return
		}
		most := int64(0)
		s := space{mix: m}
		s.fill(u)
		for i := range m.shapes {
			most += m.shapes[i].value(place.None, s.pods(m.shapes[i].whole, 1, s.node), 0)
		}
		if got := m.damage(u, taking{verdict: &v}, v.NUMAs(u.Machine)); got < 0 || got > most {
			t.Errorf("damage %d is outside 0..%d", got, most)
		}
	})
}

// The example of docs/design/scoring.md: a pod of one GPU where four or three are left, and a cluster that runs
// pods of one and of four.
func TestDamageAsDocumented(t *testing.T) {
	m := NewMix([]Share{{one(1, 1, 1), enough}, {one(4, 4, 4), enough}})
	for text, want := range map[string]int64{
		"numa 0 cpus 0-15 memory 64Gi\ndevice acme.com/gpu a,b,c,d numa 0": 2 * 128 * (69 + 276),
		"numa 0 cpus 0-31 memory 64Gi\ndevice acme.com/gpu a,b,c numa 0":   2 * 128 * 69,
	} {
		machine, err := topo.ParseMachine(text)
		if err != nil {
			t.Fatal(err)
		}
		u := place.NewUsage(machine, place.Rules{Topology: place.TopologyRules{Policy: place.SingleNUMA},
			CPU: place.CPURules{Static: true}, Memory: place.MemoryRules{Static: true}})
		v := place.Place(u, one(1, 1, 1))
		if got := m.damage(u, taking{verdict: &v}, 1); got != want {
			t.Errorf("damage %d, want %d:\n%s", got, want, text)
		}
	}
}

// A need divides by multiplying, and gets the same quotients.
func TestNeedsDivideExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.SampledFrom([]int64{4, 1 << 20, 1 << 60}).Draw(t, "most")
		amount := rapid.Int64Range(1, most).Draw(t, "amount")
		free := rapid.OneOf(rapid.Int64Range(0, math.MaxInt64), rapid.Map(rapid.Int64Range(1, math.MaxInt64/amount),
			func(n int64) int64 { return n*amount - 1 })).Draw(t, "free")
		for _, x := range []int64{free, free / amount * amount} {
			n := needOf(0, amount)
			if got := n.times(x); got != x/amount {
				t.Fatalf("%d is in %d %d times, want %d", amount, x, got, x/amount)
			}
		}
	})
}
