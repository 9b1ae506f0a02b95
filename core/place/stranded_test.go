package place

import (
	"fmt"
	"testing"

	"github.com/tenon-numa/tenon/core/topo"
)

// A device that counts as stranded is in no verdict, and one that does not is in some.
func TestStrandedDevicesAreNeverGivenOut(t *testing.T) {
	for _, list := range []string{"", " list empty", " list negative", " list unknown"} {
		for _, near := range []string{"", "device a/nic n-0 numa 0\n", "device a/nic n-0 numa 0\ndevice a/nic n-1 numa 1\n",
			"device a/nic n-0,n-1 numa 0-1\n"} {
			m, err := topo.ParseMachine("numa 0 cpus 0-3 memory 8Gi\nnuma 1 socket 1 cpus 4-7 memory 8Gi\n" + near +
				"device a/nic x-0 numa none" + list + "\n")
			if err != nil {
				t.Fatal(err)
			}
			for policy := None; policy <= SingleNUMA; policy++ {
				for _, scope := range []Scope{PerContainer, PerPod} {
					r := Rules{Topology: TopologyRules{Policy: policy, Scope: scope}, CPU: CPURules{Static: true}}
					what := fmt.Sprintf("%q beside %q under %s per %s", list, near, policy, scope)
					checkStranded(t, what, m, r)
				}
			}
		}
	}
}

// checkStranded places pods of one and two containers one after the other, and alone.
func checkStranded(t *testing.T, what string, m *topo.Machine, r Rules) {
	given := map[string]bool{}
	for first := int64(1); first <= 3; first++ {
		for second := range int64(3) {
			for cpus := int64(1); cpus <= 5; cpus++ {
				container := func(name string, n int64) Container {
					return Container{Name: name, MilliCPU: cpus * 1000, Devices: []Count{{Resource: "a/nic", N: n}}}
				}
				p := &Pod{QoS: Guaranteed, Containers: []Container{container("a", first)}}
				if second > 0 {
					p.Containers = append(p.Containers, container("b", second))
				}
				for u, ok := NewUsage(m, r), true; ok; {
					v := Place(u, p)
					ok = v.Fits()
					u = u.Hold(v.Holdings...)
					for _, h := range v.Holdings {
						for _, d := range h.Devices {
							for _, id := range d.IDs {
								given[id] = true
							}
						}
					}
				}
			}
		}
	}
	for _, d := range m.Resources()[0].Devices {
		if stranded := r.Stranded(m, "a/nic", d); stranded == given[d.ID] {
			t.Errorf("%s: device %s is stranded: %t, given out: %t", what, d.ID, stranded, given[d.ID])
		}
	}
}
