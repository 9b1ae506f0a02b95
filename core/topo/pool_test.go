package topo

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/idset"
)

func pooledSpec(t *rapid.T) Spec {
	few := func(what string, most int) int { return rapid.IntRange(0, most).Draw(t, what) }
	var b strings.Builder
	n := 1 + few("numas", 1)
	for i := range n {
		fmt.Fprintf(&b, "numa %d socket %d cpus %d-%d l3 %d memory %dGi hugepages-1Gi %d\n",
			i+few("id", 1)*8, few("socket", 1), i*4, i*4+3, 1+few("l3", 1), 2+few("memory", 1), few("pages", 1))
	}
	text, err := ParseText(strings.NewReader(b.String()))
	if err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	s := text.Spec
	if few("distances", 1) == 1 {
		for i := range s.NUMAs {
			for range n {
				s.NUMAs[i].Distances = append(s.NUMAs[i].Distances, 10+few("distance", 1))
			}
		}
	}
	for k := range few("devices", 2) {
		d := DeviceSpec{Resource: fmt.Sprint("acme.com/", few("resource", 1)), ID: fmt.Sprint("d", k), Unhealthy: few("unhealthy", 1) == 1, Root: []string{"", "pci0000:17"}[few("root", 1)]}
		for i := range few("numas of the device", n) {
			d.NUMAs = append(d.NUMAs, s.NUMAs[i].ID)
		}
		s.Devices = append(s.Devices, d)
	}
	return s
}

// A pool gives what New gives, to equal descriptions the same, to others another.
func TestPoolMakesWhatNewMakes(t *testing.T) {
	var pool Pool
	made := map[*Machine]Spec{}
	rapid.Check(t, func(t *rapid.T) {
		for range 20 {
			s := pooledSpec(t)
			want, wantErr := New(s)
			got, err := pool.New(s)
			if fmt.Sprint(err) != fmt.Sprint(wantErr) {
				t.Fatalf("error %v, want %v", err, wantErr)
			}
			if err != nil {
				continue
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("pool makes %+v, want %+v", got.Spec(), want.Spec())
			}
			if old, ok := made[got]; ok && !reflect.DeepEqual(old, got.Spec()) {
				t.Fatalf("one machine for %+v and %+v", old, got.Spec())
			}
			made[got] = got.Spec()
			if again, err := pool.New(s); err != nil || again != got {
				t.Fatalf("the same description gives another machine: %v", err)
			}
		}
	})
}

// Thousands of nodes whose devices have names of their own share everything else, and what a pool
// remembers is bounded.
func TestPoolSharesHardware(t *testing.T) {
	var pool Pool
	var first *Machine
	for i := range 5 * maxRecent {
		m, err := pool.New(Spec{
			NUMAs:   []NUMA{{ID: 0, Bytes: 1 << 30}},
			Cores:   []CoreSpec{{CPUs: idset.Of[idset.CPU](0, 1)}},
			Devices: []DeviceSpec{{Resource: "acme.com/gpu", ID: fmt.Sprint("uuid-", i), NUMAs: []idset.NUMA{0}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = m
		}
		if &m.numas[0] != &first.numas[0] || &m.cpus[0] != &first.cpus[0] {
			t.Fatalf("machine %d has hardware of its own", i)
		}
	}
	if n := len(pool.whole.young) + len(pool.whole.old); n > 2*maxRecent {
		t.Errorf("the pool remembers %d machines, at most %d are meant", n, 2*maxRecent)
	}
}
