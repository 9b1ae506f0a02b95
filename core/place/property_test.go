package place_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// Properties that hold for every machine, rules and pods; see TestPlaceProperties.

// drawnMachine makes a machine: sparse NUMA node ids, threads, L3 groups, NUMA nodes without CPUs, hugepages,
// devices of none, one or several NUMA nodes, some unhealthy. Its sockets are equal: on machines with unequal
// ones the kubelet itself gives out CPUs that are held (testdata/unequal_sockets_give_out_reserved_cpus.txt).
func drawnMachine(t *rapid.T) *topo.Machine {
	n := rapid.IntRange(1, 4).Draw(t, "numas with CPUs")
	all := min(4, n+rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "numas without"))
	threads := rapid.SampledFrom([]int{1, 2, 2, 4}).Draw(t, "threads")
	cores := rapid.SampledFrom([]int{1, 2, 4, 6}).Draw(t, "cores")
	perSocket := rapid.SampledFrom([]int{1, n}).Draw(t, "numas per socket")
	ids := []int{0, 3, 8, 40}
	var b strings.Builder
	next := 0
	for i := range all {
		fmt.Fprintf(&b, "numa %d", ids[i])
		if i < n {
			var lanes []string
			for range threads {
				lanes = append(lanes, fmt.Sprintf("%d-%d", next, next+cores-1))
				next += cores
			}
			l3 := 1 + rapid.IntRange(0, 1).Draw(t, "l3")*(1-cores%2)
			fmt.Fprintf(&b, " socket %d cpus %s l3 %d", i/perSocket, strings.Join(lanes, "/"), l3)
		}
		fmt.Fprintf(&b, " memory %dGi hugepages-1Gi %d\n",
			rapid.IntRange(4, 16).Draw(t, "memory"), rapid.IntRange(0, 2).Draw(t, "pages"))
	}
	last := ids[all-1]
	for _, resource := range []string{"acme.com/gpu", "acme.com/nic"} {
		for k := range rapid.IntRange(0, 5).Draw(t, resource) {
			where := rapid.SampledFrom([]string{
				"none", "0", fmt.Sprint(last), fmt.Sprint(last), fmt.Sprintf("0,%d", last)}).Draw(t, "where")
			health := rapid.SampledFrom([]string{"", "", "", " unhealthy"}).Draw(t, "health")
			fmt.Fprintf(&b, "device %s d%d numa %s%s\n", resource, k, where, health)
		}
	}
	m, err := topo.ParseMachine(b.String())
	if err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	return m
}

func drawnRules(t *rapid.T, m *topo.Machine) (r place.Rules) {
	r.Topology.Policy = rapid.SampledFrom([]place.Policy{
		place.None, place.BestEffort, place.Restricted, place.SingleNUMA}).Draw(t, "policy")
	r.Topology.Scope = rapid.SampledFrom([]place.Scope{place.PerContainer, place.PerPod}).Draw(t, "scope")
	r.CPU.Static = rapid.IntRange(0, 4).Draw(t, "static CPUs") > 0
	r.CPU.Reserved = idset.Of(m.CPUs().List()[:rapid.IntRange(0, 2).Draw(t, "reserved")%m.CPUs().Len()]...)
	c := &r.CPU
	for _, option := range []*bool{
		&c.FullPCPUsOnly, &c.DistributeAcrossNUMA, &c.AlignBySocket, &c.DistributeAcrossCores, &c.PreferAlignByUncoreCaches} {
		*option = rapid.IntRange(0, 4).Draw(t, "option") == 4
	}
	// The kubelet refuses options that contradict each other (cpumanager/policy_options.go).
	c.AlignBySocket = c.AlignBySocket && r.Topology.Policy != place.SingleNUMA
	c.DistributeAcrossCores = c.DistributeAcrossCores && !c.FullPCPUsOnly &&
		!c.DistributeAcrossNUMA && !c.PreferAlignByUncoreCaches
	c.PreferAlignByUncoreCaches = c.PreferAlignByUncoreCaches && !c.DistributeAcrossNUMA
	r.Memory.Static = rapid.IntRange(0, 3).Draw(t, "static memory") > 0
	for _, n := range m.NUMAs() {
		r.Memory.Reserved = append(r.Memory.Reserved, place.Reserved{NUMA: n.ID, Kind: topo.Memory, Bytes: 1 << 30})
	}
	return r
}

func drawnPod(t *rapid.T) *place.Pod {
	p := &place.Pod{QoS: rapid.SampledFrom([]place.QoS{
		place.Guaranteed, place.Guaranteed, place.Guaranteed, place.Burstable}).Draw(t, "qos")}
	p.PodLevel = rapid.IntRange(0, 9).Draw(t, "pod level") == 0
	for i := range rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "inits") {
		kind := rapid.SampledFrom([]place.Kind{place.Init, place.Init, place.Sidecar}).Draw(t, "kind")
		p.Containers = append(p.Containers, drawnContainer(t, fmt.Sprint("i", i), kind))
	}
	for i := range rapid.SampledFrom([]int{1, 1, 2}).Draw(t, "apps") {
		p.Containers = append(p.Containers, drawnContainer(t, fmt.Sprint("c", i), place.App))
	}
	return p
}

func drawnContainer(t *rapid.T, name string, kind place.Kind) place.Container {
	c := place.Container{Name: name, Kind: kind, MilliCPU: int64(rapid.IntRange(0, 8).Draw(t, "cpus")) * 1000}
	if rapid.IntRange(0, 7).Draw(t, "fraction") == 0 {
		c.MilliCPU += 500
	}
	if rapid.IntRange(0, 3).Draw(t, "pages") == 0 {
		c.Memory = append(c.Memory, place.Amount{Kind: "hugepages-1Gi", Bytes: 1 << 30})
	}
	c.Memory = append(c.Memory, place.Amount{Kind: topo.Memory,
		Bytes: int64(rapid.SampledFrom([]int{1, 2, 4, 10}).Draw(t, "memory")) << 30})
	for _, resource := range []string{"acme.com/gpu", "acme.com/nic", "acme.com/unknown"} {
		if n := rapid.SampledFrom([]int{-1, -1, -1, 0, 1, 1, 2}).Draw(t, resource); n >= 0 {
			c.Devices = append(c.Devices, place.Count{Resource: resource, N: int64(n)})
		}
	}
	return c
}

// picture has everything that the methods of a usage return.
type picture struct {
	CPUs    string
	Memory  []int64
	Devices [][]topo.Device
}

func pictureOf(u *place.Usage) (p picture) {
	p.CPUs = u.FreeCPUs().String()
	for i := range u.Machine.NUMAs() {
		for _, k := range u.Machine.Kinds() {
			p.Memory = append(p.Memory, u.FreeMemory(i, k), u.Allocatable(i, k))
		}
	}
	for _, r := range u.Machine.Resources() {
		p.Devices = append(p.Devices, u.FreeDevices(r.Name))
	}
	return p
}

func clonePod(p *place.Pod) *place.Pod {
	out := *p
	out.Containers = slices.Clone(p.Containers)
	for i := range out.Containers {
		out.Containers[i].Memory = slices.Clone(p.Containers[i].Memory)
		out.Containers[i].Devices = slices.Clone(p.Containers[i].Devices)
	}
	return &out
}

// For every input: neither argument changes, the same question has the same answer, a refusal has a reason, holdings
// were free and match the request, and they can be held and given back.
func TestPlaceProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawnMachine(t)
		rules := drawnRules(t, m)
		var held [][]place.Holding
		u := place.NewUsage(m, rules)
		for range rapid.IntRange(1, 6).Draw(t, "pods") {
			p := drawnPod(t)
			before, pod := pictureOf(u), clonePod(p)
			v := place.Place(u, p)
			if !reflect.DeepEqual(before, pictureOf(u)) || !reflect.DeepEqual(pod, p) {
				t.Fatalf("Place changed an argument: pod %+v, was %+v; usage %+v, was %+v", p, pod, pictureOf(u), before)
			}
			if again := place.Place(u, p); !reflect.DeepEqual(v, again) {
				t.Fatalf("the same question has two answers: %+v and %+v", v, again)
			}
			if !v.Fits() {
				checkRefusal(t, v)
				continue
			}
			checkGrant(t, u, p, v)
			after := u.Hold(v.Holdings...)
			if !reflect.DeepEqual(before, pictureOf(u)) {
				t.Fatalf("Hold changed the usage that it was called on")
			}
			checkBooked(t, u, after, v)
			held, u = append(held, v.Holdings), after
		}
		again := place.NewUsage(m, rules)
		for _, hs := range held {
			again = again.Hold(hs...)
		}
		if !reflect.DeepEqual(pictureOf(u), pictureOf(again)) {
			t.Fatalf("the same holdings give two usages: %+v and %+v", pictureOf(u), pictureOf(again))
		}
	})
}

func checkRefusal(t *rapid.T, v place.Verdict) {
	if len(v.Reasons) == 0 || len(v.Holdings) > 0 {
		t.Fatalf("refused with %s: reasons %v, holdings %v", v.Refusal, v.Reasons, v.Holdings)
	}
	for _, r := range v.Reasons {
		if text := r.Text(); r.Code == "" || !strings.HasPrefix(text, "cannot align ") {
			t.Fatalf("reason %+v reads %q", r, text)
		}
	}
}

// checkGrant: holdings come in the order of the containers, are exactly what was asked for, and were free. No two
// containers that run together share a CPU or device.
func checkGrant(t *rapid.T, u *place.Usage, p *place.Pod, v place.Verdict) {
	if len(v.Reasons) > 0 {
		t.Fatalf("admitted with reasons %v", v.Reasons)
	}
	byName := map[string]place.Holding{}
	for _, h := range v.Holdings {
		byName[h.Container] = h
		if h.Empty() {
			t.Fatalf("container %s has an empty holding", h.Container)
		}
		if !h.CPUs.SubsetOf(u.FreeCPUs()) {
			t.Fatalf("container %s gets CPUs %s of free %s", h.Container, h.CPUs, u.FreeCPUs())
		}
		for _, d := range h.Devices {
			free := map[string]bool{}
			for _, dev := range u.FreeDevices(d.Resource) {
				free[dev.ID] = true
			}
			for _, id := range d.IDs {
				if !free[id] {
					t.Fatalf("container %s gets %s %s, which is not free", h.Container, d.Resource, id)
				}
			}
		}
	}
	for _, c := range p.Containers {
		checkAmounts(t, u, p, c, byName[c.Name])
		delete(byName, c.Name)
	}
	if len(byName) > 0 {
		t.Fatalf("holdings of containers that the pod does not have: %v", byName)
	}
	checkApart(t, p, v)
}

func checkAmounts(t *rapid.T, u *place.Usage, p *place.Pod, c place.Container, h place.Holding) {
	cpus := 0
	if u.Rules.CPU.Static && u.Rules.Serves(p) && c.MilliCPU%1000 == 0 {
		cpus = int(c.MilliCPU / 1000)
	}
	if h.CPUs.Len() != cpus {
		t.Fatalf("container %s asks for %d exclusive CPUs and gets %s", c.Name, cpus, h.CPUs)
	}
	for _, want := range c.Devices {
		got := 0
		for _, d := range h.Devices {
			if d.Resource == want.Resource {
				got += len(d.IDs)
			}
		}
		if _, served := u.Machine.Resource(want.Resource); served && int64(got) != want.N {
			t.Fatalf("container %s asks for %d %s and gets %d", c.Name, want.N, want.Resource, got)
		}
	}
	for _, want := range c.Memory {
		var got int64
		blocks := 0
		for _, b := range h.Memory {
			if b.Kind == want.Kind {
				got += b.Bytes
				blocks++
			}
		}
		pinned := u.Rules.Memory.Static && u.Rules.Serves(p)
		// Later containers may have taken an init container's memory over.
		if pinned && (blocks != 1 || got > want.Bytes || (c.Kind != place.Init && got != want.Bytes)) ||
			!pinned && blocks > 0 {
			t.Fatalf("container %s asks for %d of %s and gets %d in %d blocks", c.Name, want.Bytes, want.Kind, got, blocks)
		}
	}
}

// checkApart: app containers and sidecars run together.
func checkApart(t *rapid.T, p *place.Pod, v place.Verdict) {
	var cpus idset.Set[idset.CPU]
	devices := map[string]bool{}
	for _, h := range v.Holdings {
		if h.Kind == place.Init {
			continue
		}
		if cpus.AndLen(h.CPUs) > 0 {
			t.Fatalf("container %s gets CPUs %s; other containers of the pod hold %s", h.Container, h.CPUs, cpus.And(h.CPUs))
		}
		cpus = cpus.Union(h.CPUs)
		for _, d := range h.Devices {
			for _, id := range d.IDs {
				if devices[d.Resource+" "+id] {
					t.Fatalf("container %s gets %s %s, which another container of the pod holds", h.Container, d.Resource, id)
				}
				devices[d.Resource+" "+id] = true
			}
		}
	}
}

// checkBooked: what is held is no longer free, to the CPU, byte and device.
func checkBooked(t *rapid.T, before, after *place.Usage, v place.Verdict) {
	for _, k := range before.Machine.Kinds() {
		var was, is, held int64
		for i := range before.Machine.NUMAs() {
			was += before.FreeMemory(i, k)
			is += after.FreeMemory(i, k)
			if after.FreeMemory(i, k) < 0 {
				t.Fatalf("NUMA node at %d has %d bytes of %s free", i, after.FreeMemory(i, k), k)
			}
		}
		for _, h := range v.Holdings {
			for _, b := range h.Memory {
				if b.Kind == k {
					held += b.Bytes
				}
			}
		}
		if was-is != held {
			t.Fatalf("%d bytes of %s are held, but %d went from what was free", held, k, was-is)
		}
	}
	for _, h := range v.Holdings {
		if after.FreeCPUs().AndLen(h.CPUs) > 0 {
			t.Fatalf("CPUs %s are held by %s and free", after.FreeCPUs().And(h.CPUs), h.Container)
		}
		for _, d := range h.Devices {
			for _, dev := range after.FreeDevices(d.Resource) {
				if slices.Contains(d.IDs, dev.ID) {
					t.Fatalf("%s %s is held by %s and free", d.Resource, dev.ID, h.Container)
				}
			}
		}
	}
}

// Under single-numa-node with CPU and memory pinned, every admitted app container is on one NUMA node.
func TestSingleNUMAUsesOneNUMANode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawnMachine(t)
		rules := drawnRules(t, m)
		rules.Topology.Policy = place.SingleNUMA
		rules.CPU.AlignBySocket = false // the kubelet refuses this combination of options
		u := place.NewUsage(m, rules)
		for range rapid.IntRange(1, 4).Draw(t, "pods") {
			v := place.Place(u, drawnPod(t))
			for _, h := range v.Holdings {
				if n := (place.Holding{CPUs: h.CPUs}).NUMAs(m).Len(); n > 1 {
					t.Fatalf("container %s has CPUs %s on %d NUMA nodes", h.Container, h.CPUs, n)
				}
			}
			u = u.Hold(v.Holdings...)
		}
	})
}
