package topo

import (
	"fmt"
	"reflect"
	"runtime"
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
		d := DeviceSpec{Resource: fmt.Sprint("acme.com/", few("resource", 1)), ID: fmt.Sprint("d", k),
			Unhealthy: few("unhealthy", 1) == 1, Root: []string{"", "pci0000:17"}[few("root", 1)]}
		for i := range few("numas of the device", n) {
			d.NUMAs = append(d.NUMAs, s.NUMAs[i].ID)
		}
		s.Devices = append(s.Devices, d)
	}
	return s
}

// A pool returns the same machines as New: one for equal descriptions, different ones otherwise.
func TestPoolAgreesWithNew(t *testing.T) {
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

// Thousands of nodes with different device names share everything else.
func TestPoolSharesHardware(t *testing.T) {
	var pool Pool
	var first *Machine
	for i := range 2000 {
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
		if i%100 == 0 {
			runtime.GC() // first keeps the hardware alive; the other machines are not in use
		}
	}
	runtime.KeepAlive(first)
	if n := len(pool.withDevices.machines); n > 4*minSweep+200 {
		t.Errorf("the pool has %d machines; one is in use", n)
	}
}

// manyCPUs describes count CPUs with ids from first on, each a core and an L3 group of its own.
func manyCPUs(first, count int, threads ...int) Spec {
	s := Spec{NUMAs: []NUMA{{ID: 0, Bytes: 1 << 30}}}
	for i := range count {
		ids := []idset.CPU{idset.CPU(first + i)}
		for _, d := range threads {
			ids = append(ids, idset.CPU(first+i+d))
		}
		s.Cores = append(s.Cores, CoreSpec{L3: i, CPUs: idset.Of(ids...)})
	}
	return s
}

func heap() int64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

// For any description, the machine takes little memory or is refused. Machines that exist are not refused.
func TestTheSizeOfAMachineIsBounded(t *testing.T) {
	devices := func(n int, id string) (out []DeviceSpec) {
		for i := range n {
			out = append(out, DeviceSpec{Resource: fmt.Sprint("acme.com/", i/MaxDevices), ID: fmt.Sprint(id, i)})
		}
		return out
	}
	full := manyCPUs(0, 4096)
	full.Devices = devices(6000, "uuid-")
	packed := manyCPUs(0, 512)
	packed.Devices = devices(MaxKinds*MaxDevices, "x")
	for _, c := range []struct {
		name string
		spec Spec
		ok   bool
	}{
		{"4096 CPUs", manyCPUs(0, 4096), true},
		{"4096 CPUs in cores of two", manyCPUs(0, 2048, 2048), true},
		{"4096 CPUs and 6000 devices", full, true},
		{"1024 CPUs with high ids", manyCPUs(7168, 1024), true},
		{"4096 CPUs with high ids", manyCPUs(12288, 4096), false},
		{"cores with CPUs far apart", manyCPUs(0, 2048, 14000), false},
		{"262144 devices", packed, false},
	} {
		before := heap()
		m, err := New(c.spec)
		size := heap() - before
		if (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), "machine takes more than") {
			t.Errorf("%s: error %v", c.name, err)
		}
		if most := int64(MaxSize + MaxSize/4); size > most {
			t.Errorf("%s: %d bytes are in use, want at most %d", c.name, size, most)
		}
		t.Logf("%s: %d bytes, %v", c.name, size, err)
		runtime.KeepAlive(m)
		runtime.KeepAlive(c.spec)
	}
}

// Earlier descriptions take no memory: thousands of descriptions take as much as the last one.
func TestAPoolFreesUnusedMachines(t *testing.T) {
	var pool Pool
	var last *Machine
	var sizes []int64
	for i := range 300 {
		s := manyCPUs(0, 512)
		s.NUMAs[0].Bytes += int64(i)
		m, err := pool.New(s)
		if err != nil {
			t.Fatal(err)
		}
		if last = m; i == 9 || i == 299 {
			sizes = append(sizes, heap())
		}
	}
	runtime.KeepAlive(last)
	if grown, most := sizes[1]-sizes[0], int64(64<<10); grown > most {
		t.Errorf("290 descriptions more take %d bytes more, want at most %d", grown, most)
	}
}
