package kubelet_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/place/scenario"
	"github.com/tenon-numa/tenon/core/topo"
)

// next draws the next step on the node, mostly an admission.
func (d *drawing) next(n *scenario.Node) scenario.Step {
	ends := 5
	if d.refused {
		ends = 2
	}
	switch {
	case len(n.Pods) > 0 && d.chance(ends):
		d.refused = false
		do := pick(d.r, scenario.Remove, scenario.Remove, scenario.Remove, scenario.End)
		return scenario.Step{Do: do, Name: n.Pods[d.r.IntN(len(n.Pods))].Name}
	case len(n.Pods) > 0 && d.chance(40):
		return scenario.Step{Do: scenario.Restart}
	case len(d.waiting) > 0 && d.chance(3):
		name := d.waiting[0]
		d.waiting = d.waiting[1:]
		return scenario.Step{Do: scenario.Start, Name: name}
	case len(n.Machine.Resources()) > 0 && d.chance(12):
		return d.health(n.Machine)
	}
	d.names++
	st := scenario.Step{Do: scenario.Admit, Name: fmt.Sprintf("p%d", d.names), Pod: d.pod(n.Usage())}
	if pod, err := d.write(st.Name, &st.Pod); err == nil {
		d.written[st.Name], st.Pod = pod, *asTheKubeletReads(pod)
	}
	if slices.ContainsFunc(st.Pod.Containers, func(c place.Container) bool { return c.Kind == place.Init }) {
		d.waiting = append(d.waiting, st.Name)
	}
	return st
}

// health draws devices of a resource that fail or recover.
func (d *drawing) health(m *topo.Machine) scenario.Step {
	r := pick(d.r, m.Resources()...)
	st := scenario.Step{Do: pick(d.r, scenario.Unhealthy, scenario.Healthy, scenario.Healthy), Resource: r.Name}
	all := d.chance(5)
	for _, dev := range r.Devices {
		if all || d.chance(3) || len(st.Devices) == 0 {
			st.Devices = append(st.Devices, dev.ID)
		}
	}
	return st
}

// wants bounds the requests of the containers of one pod.
type wants struct {
	qos     place.QoS
	apps    int
	cpu     [2]int // most free CPUs of a NUMA node, and of all
	memory  [2]int64
	edge    int   // CPUs of some NUMA node, including held and reserved ones: where widths change
	edgeMem int64 // memory of some NUMA node without its reservations
	pair    int64 // memory that two NUMA nodes have free
	devices []string
	pages   []string
	free    map[string]int // healthy devices that are not held
	all     map[string]int // devices
}

// pod draws a pod to suit what is free: mostly Guaranteed, some with init containers and sidecars.
func (d *drawing) pod(u *place.Usage) (p place.Pod) {
	p.QoS = pick(d.r, place.Guaranteed, place.Guaranteed, place.Guaranteed, place.Guaranteed, place.Guaranteed,
		place.Guaranteed,
		place.Guaranteed, place.Guaranteed, place.Burstable, place.BestEffortQoS)
	seldom := 15
	if d.managers {
		seldom = 2
	}
	p.PodLevel = p.QoS != place.BestEffortQoS && d.chance(seldom)
	w := wants{qos: p.QoS, apps: pick(d.r, 1, 1, 1, 2, 2, 3), free: map[string]int{}, all: map[string]int{}}
	for i, n := range u.Machine.NUMAs() {
		w.cpu[0] = max(w.cpu[0], u.FreeCPUs().AndLen(n.CPUs))
		w.memory[0] = max(w.memory[0], u.FreeMemory(i, topo.Memory))
		w.memory[1] += u.FreeMemory(i, topo.Memory)
	}
	w.cpu[1] = u.FreeCPUs().Len()
	at := d.r.IntN(len(u.Machine.NUMAs()))
	w.edge, w.edgeMem = u.Machine.NUMAs()[at].CPUs.Len(), u.Allocatable(at, topo.Memory)
	for _, i := range d.r.Perm(len(u.Machine.NUMAs()))[:min(2, len(u.Machine.NUMAs()))] {
		w.pair += u.FreeMemory(i, topo.Memory)
	}
	d.choose(u, &w)
	for i := range pick(d.r, 0, 0, 0, 0, 1, 1, 2, 3) {
		c := d.container(fmt.Sprintf("i%d", i), &w)
		c.Kind = pick(d.r, place.Init, place.Init, place.Sidecar)
		p.Containers = append(p.Containers, c)
	}
	for i := range w.apps {
		p.Containers = append(p.Containers, d.container(fmt.Sprintf("c%d", i), &w))
	}
	for i := range p.Containers {
		p.Containers[i].Unequal = d.managers && p.PodLevel && d.chance(2)
	}
	return p
}

// choose draws the kinds of resources that a pod requests, as many as the managers can merge.
func (d *drawing) choose(u *place.Usage, w *wants) {
	left := d.kinds
	if w.qos == place.Guaranteed && u.Rules.CPU.Static {
		left--
	}
	if w.qos == place.Guaranteed && u.Rules.Memory.Static {
		left--
	}
	var others []string
	if w.qos != place.BestEffortQoS {
		others = append(others, u.Machine.Kinds()[1:]...)
	}
	if d.wide && left > 0 && len(others) > 0 {
		w.pages = append(w.pages, others[0])
		others, left = others[1:], left-1
	}
	for _, r := range u.Machine.Resources() {
		w.free[r.Name], w.all[r.Name] = len(u.FreeDevices(r.Name)), len(r.Devices)
		others = append(others, r.Name, r.Name)
	}
	d.r.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	for _, name := range others[:min(len(others), max(0, left), pick(d.r, 0, 1, 1, 2, 3))] {
		if strings.Contains(name, "/") {
			w.devices = append(w.devices, name)
		} else {
			w.pages = append(w.pages, name)
		}
	}
	slices.Sort(w.devices)
	w.devices = slices.Compact(w.devices)
	if d.chance(30) {
		w.devices = append(w.devices, "acme.com/unknown")
	}
}

func (d *drawing) container(name string, w *wants) place.Container {
	c := place.Container{Name: name}
	if w.qos != place.BestEffortQoS {
		c.MilliCPU = d.milli(w)
		for _, kind := range w.pages {
			if !d.wide && d.chance(2) {
				continue
			}
			n := int64(pick(d.r, 1, 1, 1, 2)) << 30
			if kind == "hugepages-2Mi" {
				n = int64(pick(d.r, 0, 2, 128, 256, 512, 600)) << 20
			}
			c.Memory = append(c.Memory, place.Amount{Kind: kind, Bytes: n})
		}
		c.Memory = append(c.Memory, place.Amount{Kind: topo.Memory, Bytes: d.bytes(w)})
		slices.SortFunc(c.Memory, func(a, b place.Amount) int { return strings.Compare(a.Kind, b.Kind) })
	}
	for _, r := range w.devices {
		if d.chance(3) {
			continue
		}
		n := int64(1 + d.r.IntN(max(1, w.free[r]/2)))
		switch d.r.IntN(12) {
		case 0:
			n = 0
		case 1, 2:
			n = int64(1 + d.r.IntN(max(1, w.free[r]+1)))
		case 3:
			n = int64(1 + d.r.IntN(max(1, w.all[r])))
		}
		c.Devices = append(c.Devices, place.Count{Resource: r, N: n})
	}
	return c
}

// milli draws a CPU request: mostly a part of what some NUMA node has free.
func (d *drawing) milli(w *wants) int64 {
	part := func(n int) int { return 1 + d.r.IntN(max(1, n)) }
	var n int
	switch d.r.IntN(10) {
	case 0, 1, 2, 3, 4:
		n = part(w.cpu[0] / (w.apps + 1))
	case 5, 6:
		n = part(min(3, w.cpu[0]))
	case 7:
		n = part(w.cpu[0] / w.apps)
	case 8:
		n = part(w.cpu[1] / (w.apps + 1))
	default:
		n = pick(d.r, part(w.cpu[1]+2), w.edge, w.edge, max(1, w.edge-1), w.edge+1)
	}
	if d.spread && d.chance(2) {
		n = part(w.cpu[1])
	}
	if threads := d.s.Machine.CPUs().Len() / len(d.s.Machine.Cores()); d.s.Rules.CPU.FullPCPUsOnly && !d.chance(8) {
		n = (n + threads - 1) / threads * threads
	}
	n = max(1, n)
	if d.chance(15) {
		return int64(n)*1000 - 500
	}
	return int64(n) * 1000
}

// bytes draws a memory request: mostly small beside what some NUMA node has free.
func (d *drawing) bytes(w *wants) int64 {
	part := func(n int64) int64 { return (1 + d.r.Int64N(max(1, n>>28))) << 28 }
	if d.wide && !d.chance(3) {
		return pick(d.r, part(w.memory[1]/int64(w.apps)), max(1, w.pair))
	}
	switch d.r.IntN(12) {
	case 0, 1:
		return part(w.memory[0] / int64(2*w.apps))
	case 2:
		return part(w.memory[1] / int64(w.apps))
	case 3:
		return pick(d.r, part(w.memory[1]+1<<30), max(1, w.edgeMem), w.edgeMem+1)
	case 4:
		return int64(1+d.r.IntN(1<<20)) << 10
	}
	return part(w.memory[0] / int64(6*w.apps))
}
