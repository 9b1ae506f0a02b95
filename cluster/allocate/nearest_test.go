package allocate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/core/whatif"
)

// laidOut has it known where the CPUs of node a are.
func laidOut(v *kube.View) *kube.View {
	v.States = []*state.Node{{Name: "a", Machine: &topo.Machine{}}}
	return v
}

// got returns the names of the devices that a pod gets.
func got(all *Cluster, uid string, site whatif.Site) (out []string) {
	d, _ := all.Of(types.UID(uid))
	of, _ := d.(*kind)
	for _, id := range of.at(site).devices {
		out = append(out, id.Device.String())
	}
	slices.Sort(out)
	return out
}

// The devices of a pod are those that the scheduler gives it: on as few NUMA nodes as possible for a pod that is
// nowhere, of these on the ones with the fewest free devices, and near a pod first, also if they need not be near.
func TestDevicesAreThoseOfTheScheduler(t *testing.T) {
	for name, x := range map[string]struct {
		numas string
		wants int
		near  whatif.Near
		known bool
		want  string
	}{
		"on one NUMA node":            {"011", 2, whatif.Near{}, true, "[d1 d2]"},
		"in order, of a node unknown": {"011", 2, whatif.Near{}, false, "[d0 d1]"},
		"where few are free":          {"0001", 1, whatif.Near{}, true, "[d3]"},
		"on two of three":             {"01122", 3, whatif.Near{}, true, "[d0 d1 d2]"},
		"on two, not the fewest":      {"01122", 4, whatif.Near{}, true, "[d1 d2 d3 d4]"},
		"near":                        {"1010", 1, whatif.Near{NUMAs: []int{0}}, true, "[d1]"},
		"near ones first":             {"1101", 2, whatif.Near{NUMAs: []int{0}}, true, "[d0 d2]"},
	} {
		c := &cluster{waiting: [][]demand{{{requests: [][]ask{{{count: x.wants}}}}}}, request: []string{""}}
		for i, numa := range x.numas {
			c.devices = append(c.devices, device{name: fmt.Sprint("d", i), model: "x", numa: int(numa - '0')})
		}
		v := c.view()
		if x.known {
			laidOut(v)
		}
		if out := fmt.Sprint(got(New(v, time.Now), "waiting-0", whatif.Site{Node: "a", Near: x.near})); out != x.want {
			t.Errorf("%s: %s, want %s", name, out, x.want)
		}
	}
}

// A pod that is nowhere gets devices on one NUMA node wherever an exhaustive search finds some there, and otherwise any
// that are free.
func TestFewNUMANodes(t *testing.T) {
	one, several := 0, 0
	for k := range uint64(*cases) {
		r := rand.New(rand.NewPCG(*seed+k, 7))
		c := draw(r)
		list := c.waiting[0]
		all := New(laidOut(c.view()), time.Now)
		d, _ := all.Of("waiting-0")
		of, _ := d.(*kind)
		result := of.at(whatif.Site{Node: "a"})
		free := slices.DeleteFunc(slices.Clone(c.devices), func(x device) bool {
			return x.holder != "" || x.kept != "" && x.kept != c.request[0]
		})
		if fits := len(result.why) == 0; fits != can(list, free) {
			t.Fatalf("seed %d: fits %t", *seed+k, fits)
		} else if !fits {
			continue
		}
		on := func(numa int) []device {
			return slices.DeleteFunc(slices.Clone(free), func(x device) bool { return x.numa >= 0 && x.numa != numa })
		}
		within := func(from []device) bool {
			return !slices.ContainsFunc(result.devices, func(id structured.DeviceID) bool {
				return !slices.ContainsFunc(from, func(x device) bool { return x.name == id.Device.String() })
			})
		}
		located := slices.ContainsFunc(free, func(x device) bool { return x.numa == 0 }) &&
			slices.ContainsFunc(free, func(x device) bool { return x.numa == 1 })
		if !located || !can(list, on(0)) && !can(list, on(1)) {
			several++
			continue
		}
		if one++; !within(on(0)) && !within(on(1)) {
			t.Fatalf("seed %d: %+v of %+v", *seed+k, result.devices, free)
		}
	}
	t.Logf("%d on one NUMA node, %d others", one, several)
	if min(one, several) < *cases/50 {
		t.Error("the clusters test too little")
	}
}

// The scheduler may compare NUMA nodes for a claim with alternatives, so what such a pod gets is not certain.
func TestAlternativesOfAPodThatIsNowhere(t *testing.T) {
	c := &cluster{waiting: [][]demand{{{requests: [][]ask{{{model: "y", count: 1}, {model: "x", count: 1}}}}},
		{{requests: [][]ask{{{count: 1}}}}}}, request: []string{"", ""}}
	c.devices = []device{{name: "d0", model: "x"}, {name: "d1", model: "y", numa: 1}, {name: "d2", model: "x", numa: 1}}
	all := New(laidOut(c.view()), time.Now)
	first, _ := all.Of("waiting-0")
	if why := first.Lacks(whatif.Site{Node: "a"}); why != nil || first.Unsure() {
		t.Fatalf("lacks %v", why)
	}
	second, _ := all.Of("waiting-1")
	site := whatif.Site{Node: "a", Given: []whatif.Given{{Devices: first}}}
	if second.Lacks(site); !second.Unsure() {
		t.Error("a pod after it is judged")
	}
}
