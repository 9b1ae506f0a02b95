package main

import (
	"fmt"
	"strings"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

const (
	gpu   = "acme.com/gpu"
	pages = "hugepages-1Gi"
)

// spec describes a machine with two sockets and n NUMA nodes. Each NUMA node has the given number of CPUs (in cores
// of two threads), 64 GiB of memory, 8 huge pages of 1 GiB among them, and two GPUs.
func spec(n, cpus int) (topo.Spec, error) {
	var b strings.Builder
	cores := cpus / 2
	for i := range n {
		fmt.Fprintf(&b, "numa %d socket %d cpus %d-%d/%d-%d l3 1 memory 64Gi hugepages-1Gi 8\n",
			i, i*2/n, i*cores, (i+1)*cores-1, (n+i)*cores, (n+i+1)*cores-1)
		fmt.Fprintf(&b, "device %s g%02d,g%02d numa %d\n", gpu, 2*i, 2*i+1, i)
	}
	text, err := topo.ParseText(strings.NewReader(b.String()))
	return text.Spec, err
}

// superchip returns a machine of 36 NUMA nodes. Two have CPUs, memory and GPUs; the others stand for the memory of
// GPU instances, and have nothing that a pod can request.
func superchip() (*topo.Machine, error) {
	var b strings.Builder
	for i := range 36 {
		fmt.Fprintf(&b, "numa %d", i)
		if i < 2 {
			fmt.Fprintf(&b, " socket %d cpus %d-%d memory 480Gi", i, i*72, i*72+71)
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "device %s g0,g1 numa 0\ndevice %s g2,g3 numa 1\n", gpu, gpu)
	return topo.ParseMachine(b.String())
}

func rules(p place.Policy) place.Rules {
	return place.Rules{Topology: place.TopologyRules{Policy: p, MaxNUMAs: 64}, CPU: place.CPURules{Static: true},
		Memory: place.MemoryRules{Static: true}}
}

// pod returns a Guaranteed pod of one container. Its requests are cpus CPUs, gigs GiB of memory, huge GiB of huge
// pages, and gpus GPUs.
func pod(cpus, gigs, huge, gpus int64) *place.Pod {
	c := place.Container{Name: "app", MilliCPU: cpus * 1000}
	if huge > 0 {
		c.Memory = append(c.Memory, place.Amount{Kind: pages, Bytes: huge << 30})
	}
	c.Memory = append(c.Memory, place.Amount{Kind: topo.Memory, Bytes: gigs << 30})
	if gpus > 0 {
		c.Devices = []place.Count{{Resource: gpu, N: gpus}}
	}
	return &place.Pod{QoS: place.Guaranteed, Containers: []place.Container{c}}
}

// withSecondContainer adds a second container to p, which requests one CPU and one GiB of memory, and returns p.
func withSecondContainer(p *place.Pod) *place.Pod {
	c := pod(1, 1, 0, 0).Containers[0]
	c.Name = "beside"
	p.Containers = append(p.Containers, c)
	return p
}

// states is the number of usages of one machine that are queried in turn, so that no result can come from a cache.
const states = 64

// fill returns [states] usages of a machine, at equal steps from empty to the first pod that does not fit.
func fill(m *topo.Machine, r place.Rules) []*place.Usage {
	all := []*place.Usage{place.NewUsage(m, r)}
	for i := 0; ; i++ {
		u := all[len(all)-1]
		v := place.Place(u, pod(int64(1+i%4), 2, int64(i%9/8), int64(i%7/6)))
		if !v.Fits() {
			break
		}
		all = append(all, u.Hold(v.Holdings...))
	}
	out := make([]*place.Usage, states)
	for i := range out {
		out[i] = all[i*(len(all)-1)/(states-1)]
	}
	return out
}

// free is the input of the plain loop, the baseline of all comparisons: for every NUMA node the number of free CPUs,
// the free bytes of memory and of huge pages, and the number of free GPUs.
type free [][4]int64

func freeOf(u *place.Usage) free {
	out := make(free, len(u.Machine.NUMAs()))
	for i, n := range u.Machine.NUMAs() {
		out[i] = [4]int64{int64(n.CPUs.AndLen(u.FreeCPUs())), u.FreeMemory(i, topo.Memory), u.FreeMemory(i, pages),
			u.FreeDevicesOn(0, 1<<uint(i))}
	}
	return out
}

func wantOf(p *place.Pod) (want [4]int64) {
	for _, c := range p.Containers {
		want[0] += c.MilliCPU / 1000
		for _, m := range c.Memory {
			if m.Kind == pages {
				want[2] += m.Bytes
			} else {
				want[1] += m.Bytes
			}
		}
		for _, d := range c.Devices {
			want[3] += d.N
		}
	}
	return want
}

// plain is the plain loop: it counts the NUMA nodes that have enough of everything by themselves.
func plain(have free, want *[4]int64) (n int) {
	cpus, memory, huge, gpus := want[0], want[1], want[2], want[3]
	for i := range have {
		if x := &have[i]; x[0] >= cpus && x[1] >= memory && x[2] >= huge && x[3] >= gpus {
			n++
		}
	}
	return n
}

// subjectsOf returns four subjects that judge one pod on many usages of one machine: the plain loop;
// [place.Question.Fits] with a question that is prepared once ("asked again"); [place.Fits], which prepares one for
// each usage ("asked once"); and [place.Place], which returns the verdict with all holdings.
func subjectsOf(us []*place.Usage, p *place.Pod) []subject {
	var have []free
	for _, u := range us {
		have = append(have, freeOf(u))
	}
	want, q := wantOf(p), place.NewQuestion(p)
	count := func(ok bool) int {
		if ok {
			return 1
		}
		return 0
	}
	each := func(name string, one func(i int) int) subject {
		return subject{name: name, batch: len(us), run: func(times int) (sum int) {
			for range times {
				for i := range us {
					sum += one(i)
				}
			}
			return sum
		}}
	}
	return []subject{
		each("plain loop", func(i int) int { return plain(have[i], &want) }),
		each("asked again", func(i int) int { return count(q.Fits(us[i])) }),
		each("asked once", func(i int) int { return count(place.Fits(us[i], p)) }),
		each("verdict", func(i int) int { return count(place.Place(us[i], p).Fits()) }),
	}
}
