package ledger

import (
	"slices"
	"testing"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// The memory manager takes an init container's memory back when the next container starts
// (memorymanager/policy_static.go, updateInitContainersMemoryBlocks). So a report has only the memory of the app
// container.
func TestInitContainersAreNotConfusedWithAppContainers(t *testing.T) {
	const mi = 1 << 20
	container := func(name string, kind place.Kind, milli, bytes int64) place.Container {
		return place.Container{Name: name, Kind: kind, MilliCPU: milli,
			Memory: []place.Amount{{Kind: topo.Memory, Bytes: bytes}}}
	}
	for _, c := range []struct {
		milli, init, app int64
	}{
		{100, 256 * mi, 256 * mi}, {100, 512 * mi, 256 * mi}, {100, 128 * mi, 256 * mi},
		{2000, 256 * mi, 256 * mi}, {2000, 512 * mi, 256 * mi},
	} {
		for _, other := range []bool{false, true} {
			p := &place.Pod{QoS: place.Guaranteed, Containers: []place.Container{
				container("first", place.Init, c.milli, c.init), container("app", place.App, c.milli, c.app)}}
			b := New()
			b.Report("n", layout(t))
			v, _ := b.Reserve("n", id(0), p, place.Demand{})
			b.Turn(id(0).UID, 0)
			uid, seen := id(0), slices.Clone(v.Holdings)
			seen[0].Memory = nil // the CPUs of an init container stay with the pod
			if other {           // of the same shape, and admitted first
				q := &place.Pod{QoS: place.Guaranteed, Containers: slices.Clone(p.Containers)}
				q.Containers[0].Name, q.Containers[1].Name = "app", "first"
				uid, seen[0].Container, seen[1].Container = id(1), "app", "first"
				b.Reserve("n", uid, q, place.Demand{})
				b.Turn(uid.UID, 0)
			}
			out := b.Report("n", layout(t, state.Entry{Pod: uid, Holdings: trimmed(seen)}))
			if len(out) != 1 || out[0].Result != state.Confirmed {
				t.Errorf("%+v, another pod %v: outcomes %+v, want confirmed", c, other, out)
			}
			seen[1].Memory = []place.Block{{Kind: topo.Memory, NUMAs: 2, Bytes: c.app}}
			b = New()
			b.Report("n", layout(t))
			b.Reserve("n", id(0), p, place.Demand{})
			b.Turn(id(0).UID, 0)
			seen[0].Container, seen[1].Container = "first", "app"
			out = b.Report("n", layout(t, state.Entry{Pod: id(0), Holdings: trimmed(seen)}))
			if len(out) != 1 || out[0].Result != state.Wrong {
				t.Errorf("%+v on another NUMA node: outcomes %+v, want wrong", c, out)
			}
		}
	}
}
