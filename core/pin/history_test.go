package pin_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/pin"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

var (
	histories = flag.Int("histories", 400, "random histories to play")
	seed      = flag.Uint64("histories.seed", 0, "seed of the histories; 0: another one each time")
)

// For any history on any machine: every exclusive CPU has one owner, none is reserved, and a pod that no event is about
// keeps its CPUs. The machines have offline threads, cores and sockets of unequal size, and sparse ids.
func TestHistoriesKeepTheInvariant(t *testing.T) {
	s := *seed
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	t.Logf("%d histories, seed %d", *histories, s)
	counts := map[string]int{}
	for k := range *histories {
		h := history{T: t, r: rand.New(rand.NewPCG(s, uint64(k))), counts: counts}
		h.name = fmt.Sprintf("seed %d, history %d", s, k)
		h.play()
		if t.Failed() {
			return
		}
	}
	t.Logf("%v", counts)
	for _, what := range []string{"uneven machine", "decided", "resize refused", "resize withdrawn", "rules changed",
		"restart"} {
		if counts[what] == 0 {
			t.Errorf("no history had: %s", what)
		}
	}
}

// history plays random events on one node.
type history struct {
	*testing.T
	name   string
	r      *rand.Rand
	n      *pin.Node
	next   int
	counts map[string]int
	// withdrawn are the specs and faults of pods before a resize that was not carried out.
	withdrawn map[string]pin.Pod
}

func (h *history) play() {
	m := h.machine()
	h.n, h.withdrawn = pin.New(m, h.rules(m)), map[string]pin.Pod{}
	for step := range h.r.IntN(60) + 10 {
		before := h.n
		about := h.step()
		h.judge(before, about, step)
		if h.Failed() {
			return
		}
	}
}

// step plays one event, and returns the pods that it may move.
func (h *history) step() (about []string) {
	uid := h.anybody()
	switch h.r.IntN(10) {
	case 0, 1, 2, 3:
		h.n = h.n.With(h.arrival())
	case 4:
		h.n = h.n.Without(uid)
		delete(h.withdrawn, uid)
	case 5:
		for _, p := range h.n.Pods() {
			if p.Fault != nil {
				about = append(about, p.UID)
			}
		}
		h.n = h.n.Mended()
	case 6, 7:
		return h.resize(uid)
	case 8:
		return h.restart(h.n.Machine(), h.n.Rules(), "restart")
	default:
		m := h.n.Machine()
		if h.r.IntN(3) == 0 {
			m = h.offline(m)
		}
		return h.restart(m, h.rules(m), "rules changed")
	}
	return about
}

func (h *history) anybody() string {
	if pods := h.n.Pods(); len(pods) > 0 {
		return pods[h.r.IntN(len(pods))].UID
	}
	return "nobody"
}

// restart restores all pods. A pod may move only if what it has is not permitted any more.
func (h *history) restart(m *topo.Machine, r place.Rules, what string) (about []string) {
	h.counts[what]++
	free := m.CPUs().Minus(r.CPU.Reserved)
	for _, p := range h.n.Pods() {
		for _, x := range p.Holdings {
			if !x.CPUs.SubsetOf(free) {
				about = append(about, p.UID)
				delete(h.withdrawn, p.UID)
				break
			}
		}
	}
	h.n = pin.New(m, r).Restored(h.n.Pods())
	return about
}

// resize changes what a pod requests, or withdraws a resize that was refused: the pod is then as it was before.
func (h *history) resize(uid string) []string {
	p, ok := h.n.Pod(uid)
	if !ok {
		return nil
	}
	if old, is := h.withdrawn[uid]; is && h.r.IntN(2) == 0 {
		h.counts["resize withdrawn"]++
		delete(h.withdrawn, uid)
		h.n = h.n.Resized(uid, old.Spec)
		if now, _ := h.n.Pod(uid); !reflect.DeepEqual(now, old) {
			h.Errorf("%s: pod %s was %+v before a resize that was withdrawn, and is %+v", h.name, uid, old, now)
		}
		return nil
	}
	spec := *p.Spec
	spec.Containers = slices.Clone(spec.Containers)
	c := &spec.Containers[h.r.IntN(len(spec.Containers))]
	c.MilliCPU = int64(h.r.IntN(12)) * 1000
	h.n = h.n.Resized(uid, &spec)
	now, _ := h.n.Pod(uid)
	if now.Fault == nil || !now.Fault.Resize {
		delete(h.withdrawn, uid)
		return []string{uid}
	}
	h.counts["resize refused"]++
	if _, is := h.withdrawn[uid]; !is {
		h.withdrawn[uid] = p
	}
	return nil
}

// arrival returns a pod, with a decision that may be right, or a decision for another pod, or one with CPUs drawn at
// random.
func (h *history) arrival() pin.Arrival {
	h.next++
	p := &place.Pod{QoS: place.Guaranteed}
	for i := range h.r.IntN(3) + 1 {
		kind := []place.Kind{place.App, place.App, place.Init, place.Sidecar}[h.r.IntN(4)]
		if i == 0 && h.r.IntN(2) == 0 {
			kind = place.Sidecar
		}
		p.Containers = append(p.Containers, place.Container{Name: fmt.Sprint("c", i), Kind: kind,
			MilliCPU: int64(h.r.IntN(7)) * 1000, Memory: []place.Amount{{Kind: topo.Memory, Bytes: 1 << 20}}})
	}
	slices.SortStableFunc(p.Containers, func(a, b place.Container) int { // app containers come last
		return bit(a.Kind == place.App) - bit(b.Kind == place.App)
	})
	a := pin.Arrival{UID: fmt.Sprint("p", h.next), Spec: p}
	good := place.Place(h.n.Usage(), p).Holdings
	switch h.r.IntN(5) {
	case 0:
		a.Decision = good
	case 1:
		if other, ok := h.n.Pod(h.anybody()); ok {
			a.Decision = slices.Clone(other.Holdings)
		}
	case 2:
		a.Decision = slices.Clone(good)
		all := h.n.Machine().CPUs().List()
		for i := range a.Decision {
			n := a.Decision[i].CPUs.Len()
			h.r.Shuffle(len(all), func(x, y int) { all[x], all[y] = all[y], all[x] })
			a.Decision[i].CPUs = idset.Of(all[:n]...)
		}
	case 3: // all containers get the same CPUs
		a.Decision = slices.Clone(good)
		for i := range a.Decision {
			a.Decision[i].CPUs = a.Decision[0].CPUs
		}
	}
	return a
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// machine returns a random machine.
func (h *history) machine() *topo.Machine {
	var s topo.Spec
	id, numa := h.r.IntN(3), h.r.IntN(3)
	for socket := range h.r.IntN(3) + 1 {
		for range h.r.IntN(2) + 1 {
			s.NUMAs = append(s.NUMAs, topo.NUMA{ID: idset.NUMA(numa), Bytes: 16 << 30})
			threads := h.r.IntN(2) + 1
			for k := range h.r.IntN(5) + 1 {
				n := threads
				if h.r.IntN(4) == 0 {
					n = h.r.IntN(2) + 1 // a core of another kind, or with a thread offline
				}
				var cpus idset.Set[idset.CPU]
				for range n {
					cpus, id = cpus.With(idset.CPU(id)), id+1+h.r.IntN(2)
				}
				s.Cores = append(s.Cores, topo.CoreSpec{NUMA: idset.NUMA(numa), Socket: idset.Socket(socket * 3),
					L3: numa*4 + k/2%2, CPUs: cpus})
			}
			numa += 1 + h.r.IntN(3)
		}
	}
	m, err := topo.New(s)
	if err != nil {
		h.Fatalf("%s: %v", h.name, err)
	}
	for _, level := range []topo.Level{topo.Cores, topo.Sockets} {
		for _, g := range m.Groups(level) {
			if g.CPUs.Len() != m.Groups(level)[0].CPUs.Len() {
				h.counts["uneven machine"]++
				return m
			}
		}
	}
	return m
}

// offline returns the machine without one of its CPUs.
func (h *history) offline(m *topo.Machine) *topo.Machine {
	s := m.Spec()
	all := m.CPUs().List()
	gone := all[h.r.IntN(len(all))]
	for i := range s.Cores {
		s.Cores[i].CPUs = s.Cores[i].CPUs.Minus(idset.Of(gone))
	}
	for i := range s.NUMAs {
		s.NUMAs[i].CPUs = s.NUMAs[i].CPUs.Minus(idset.Of(gone))
	}
	s.Cores = slices.DeleteFunc(s.Cores, func(c topo.CoreSpec) bool { return c.CPUs.Empty() })
	if out, err := topo.New(s); err == nil {
		return out
	}
	return m
}

// rules returns random rules for a machine.
func (h *history) rules(m *topo.Machine) place.Rules {
	r := place.Rules{Arbiter: place.ByAgent, CPU: place.CPURules{Static: true}}
	r.Topology.Policy, r.Topology.Scope = place.Policy(h.r.IntN(4)), place.Scope(h.r.IntN(2))
	r.CPU.FullPCPUsOnly, r.CPU.StrictReservation = h.r.IntN(4) == 0, h.r.IntN(4) == 0
	r.CPU.PreferAlignByUncoreCaches, r.Memory.Static = h.r.IntN(4) == 0, h.r.IntN(2) == 0
	r.CPU.DistributeAcrossNUMA = h.r.IntN(4) == 0 && !r.CPU.PreferAlignByUncoreCaches
	all := m.CPUs().List()
	for range h.r.IntN(3) + 1 {
		r.CPU.Reserved = r.CPU.Reserved.With(all[h.r.IntN(len(all))])
	}
	if r.Memory.Static {
		r.Memory.Reserved = []place.Reserved{{NUMA: m.NUMAs()[0].ID, Kind: topo.Memory, Bytes: 1 << 30}}
	}
	if err := pin.Check(m, r); err != nil {
		r.CPU.FullPCPUsOnly, r.CPU.DistributeAcrossNUMA, r.CPU.PreferAlignByUncoreCaches = false, false, false
		r.Memory = place.MemoryRules{}
		if err := pin.Check(m, r); err != nil {
			h.Fatalf("%s: %v", h.name, err)
		}
	}
	return r
}

// judge compares the node with the invariant. From the package it reads only which pod holds what.
func (h *history) judge(before *pin.Node, about []string, step int) {
	owner := map[idset.CPU]string{}
	for _, p := range h.n.Pods() {
		h.counts["decided"] += bit(p.Decided)
		if p.Fault != nil && p.Fault.Code == pin.Refused {
			h.counts["refused"]++
			h.Errorf("%s, step %d: pod %s: %s", h.name, step, p.UID, p.Fault.Detail)
		}
		running := map[idset.CPU]bool{}
		for _, x := range p.Holdings {
			for cpu := range x.CPUs.All() {
				_, is := h.n.Machine().CPU(cpu)
				switch {
				case !is || h.n.Rules().CPU.Reserved.Has(cpu):
					h.Errorf("%s, step %d: pod %s has CPU %d, which is reserved or offline", h.name, step, p.UID, cpu)
				case owner[cpu] != "" && owner[cpu] != p.UID || running[cpu] || h.n.Shared().Has(cpu):
					h.Errorf("%s, step %d: CPU %d of pod %s %s has another owner", h.name, step, cpu, p.UID, x.Container)
				}
				owner[cpu], running[cpu] = p.UID, running[cpu] || x.Kind != place.Init
			}
		}
		old, is := before.Pod(p.UID)
		if is && !slices.Contains(about, p.UID) && !reflect.DeepEqual(old.Holdings, p.Holdings) {
			h.Errorf("%s, step %d: pod %s moved from %v to %v", h.name, step, p.UID, old.Holdings, p.Holdings)
		}
	}
}
