package score

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
)

// TestLargeVerdictsCountOnceToo: what several containers hold one after the other counts for the first of them only,
// for any number of containers and devices.
func TestLargeVerdictsCountOnceToo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var hs []place.Holding
		for range rapid.IntRange(1, 2*fewHoldings).Draw(t, "holdings") {
			h := place.Holding{}
			for range rapid.IntRange(0, 6).Draw(t, "cpus") {
				h.CPUs = h.CPUs.With(idset.CPU(rapid.IntRange(0, 20).Draw(t, "cpu")))
			}
			b := place.DeviceBlock{Resource: "acme.com/gpu"}
			for id := range rapid.IntRange(0, fewDevices).Draw(t, "devices") {
				b.IDs = append(b.IDs, fmt.Sprint("g", id))
			}
			h.Devices = append(h.Devices, b)
			hs = append(hs, h)
		}
		few, many := firsts{hs: hs}, firsts{hs: hs, large: true}
		for i := range hs {
			if a, b := few.ofCPUs(i), many.ofCPUs(i); !a.Equal(b) {
				t.Fatalf("holding %d: CPUs %v and %v of %v", i, a, b, hs)
			}
			for _, id := range hs[i].Devices[0].IDs {
				if a, b := few.ofDevice(i, "acme.com/gpu", id), many.ofDevice(i, "acme.com/gpu", id); a != b {
					t.Fatalf("holding %d: device %s first: %v and %v of %v", i, id, a, b, hs)
				}
			}
		}
	})
}
