package place

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/topo"
)

// machineWith has NUMA nodes with these ids, four CPUs and 8 GiB each.
func machineWith(t *testing.T, distances bool, ids ...int) *topo.Machine {
	var b strings.Builder
	for i, id := range ids {
		fmt.Fprintf(&b, "numa %d socket 0 cpus %d-%d memory 8Gi\n", id, 4*i, 4*i+3)
	}
	if distances {
		for i := range ids {
			b.WriteString("distances")
			for j := range ids {
				fmt.Fprint(&b, " ", 10+10*min(1, max(i-j, j-i)))
			}
			b.WriteByte('\n')
		}
	}
	m, err := topo.ParseMachine(b.String())
	if err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	return m
}

func upTo(n int) (out []int) {
	for i := range n {
		out = append(out, i)
	}
	return out
}

func TestObstaclesNameWhatAKubeletCannotServe(t *testing.T) {
	const panics = "its kubelet panics: NUMA node id 252 is above 63, under "
	rules := func(p Policy, memory bool, most int) Rules {
		return Rules{Topology: TopologyRules{Policy: p, MaxNUMAs: most}, CPU: CPURules{Static: true},
			Memory: MemoryRules{Static: memory}}
	}
	guaranteed := &Pod{QoS: Guaranteed, Containers: []Container{{Name: "c", MilliCPU: 1000,
		Memory: []Amount{{Kind: topo.Memory, Bytes: 1 << 30}}}}}
	burstable := &Pod{QoS: Burstable, Containers: guaranteed.Containers}
	for _, c := range []struct {
		what                  string
		ids                   []int
		rules                 Rules
		says                  string // of the node
		guaranteed, burstable bool   // whether such a pod is admitted
	}{
		{"high ids, policy none", []int{0, 252}, rules(None, false, 0), "", true, true},
		{"high ids, static memory", []int{0, 252}, rules(None, true, 0), panics + "the static memory manager", false, true},
		{"high ids, best-effort", []int{0, 252}, rules(BestEffort, false, 0),
			panics + "topology policy best-effort", false, false},
		{"high ids, restricted", []int{0, 252}, rules(Restricted, true, 0),
			panics + "topology policy restricted", false, false},
		{"high ids, single-numa-node", []int{0, 252}, rules(SingleNUMA, false, 0),
			panics + "topology policy single-numa-node", false, false},
		{"the highest id that works", []int{0, 63}, rules(Restricted, true, 0), "", true, true},
		{"nine NUMA nodes, policy none", upTo(9), rules(None, true, 0), "", true, true},
		{"nine NUMA nodes", upTo(9), rules(Restricted, true, 0),
			"cannot align pod (machine has 9 NUMA nodes, its kubelet handles 8)", false, false},
		{"nine NUMA nodes that are allowed", upTo(9), rules(Restricted, true, 9), "", true, true},
		{"twenty NUMA nodes, static memory", upTo(20), rules(None, true, 0), "", true, true},
		{"24 NUMA nodes, static memory", upTo(24), rules(None, true, 0),
			"cannot align pod (its kubelet would try all sets of 24 NUMA nodes under the static memory manager)", false, true},
		{"24 NUMA nodes, policy none", upTo(24), rules(None, false, 0), "", true, true},
	} {
		m := machineWith(t, false, c.ids...)
		said := ""
		for _, r := range c.rules.Obstacles(m) {
			said += r.Text()
		}
		if said != c.says {
			t.Errorf("%s: %q, want %q", c.what, said, c.says)
		}
		u := NewUsage(m, c.rules)
		for p, want := range map[*Pod]bool{guaranteed: c.guaranteed, burstable: c.burstable} {
			v := Place(u, p)
			if v.Fits() != want || Fits(u, p) != want || NewQuestion(p).Fits(u) != want {
				t.Errorf("%s: QoS %d: %+v, Fits %v; want %v", c.what, p.QoS, v, Fits(u, p), want)
			}
			if !want && (len(v.Reasons) != 1 || v.Reasons[0].Text() != c.says) {
				t.Errorf("%s: QoS %d: refused for %+v", c.what, p.QoS, v.Reasons)
			}
		}
	}
}

func TestObstaclesWithPreferClosest(t *testing.T) {
	r := Rules{Topology: TopologyRules{Policy: Restricted, PreferClosest: true}}
	for _, c := range []struct {
		m    *topo.Machine
		says Code
	}{
		{machineWith(t, true, 0, 1), ""},
		{machineWith(t, false, 0, 1), NoDistances},
		{machineWith(t, true, 0, 8), NUMAID},
	} {
		got := Code("")
		for _, x := range r.Obstacles(c.m) {
			got = x.Code
		}
		if got != c.says {
			t.Errorf("NUMA nodes %v: %q, want %q", c.m.IDs(c.m.All()), got, c.says)
		}
	}
}

func TestPodsOfTooManyContainersAreRefusedAlike(t *testing.T) {
	pod := func(q QoS, count int, c Container) *Pod {
		p := &Pod{QoS: q}
		for range count {
			p.Containers = append(p.Containers, c)
		}
		return p
	}
	own, device := Container{MilliCPU: 1000}, Container{Devices: []Count{{"acme.com/gpu", 0}}}
	for _, c := range []struct {
		what string
		p    *Pod
		says string
	}{
		{"as many as may be", pod(Guaranteed, MaxContainers, own), ""},
		{"one more", pod(Guaranteed, MaxContainers+1, own),
			"pod has 129 containers that need alignment, more than 128; use fewer containers"},
		{"with devices", pod(Burstable, 8000, device),
			"pod has 8000 containers that need alignment, more than 128; use fewer containers"},
		{"that ask for nothing of their own", pod(Burstable, 8000, own), ""},
	} {
		said := ""
		for _, r := range c.p.TooLarge() {
			said += r.Text()
		}
		if said != c.says {
			t.Errorf("%s: %q, want %q", c.what, said, c.says)
		}
		for _, policy := range []Policy{None, Restricted} {
			u := NewUsage(machineWith(t, false, upTo(2)...), Rules{Topology: TopologyRules{Policy: policy}})
			want := c.says == ""
			if v := Place(u, c.p); v.Fits() != want || Fits(u, c.p) != want || NewQuestion(c.p).Fits(u) != want {
				t.Errorf("%s: %+v", c.what, v)
			}
		}
	}
}
