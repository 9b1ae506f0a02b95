package score

import (
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
)

// firsts finds the CPUs and devices of a verdict's holdings that no earlier holding has. An init container leaves its
// CPUs and devices to later containers, which then hold them, too. In a small verdict, firsts compares the holdings
// pair by pair, which takes no memory. In a large one it remembers what it has seen, so the work grows with the size
// of the verdict and not with its square.
type firsts struct {
	hs      []place.Holding
	large   bool
	cpus    idset.Bits[idset.CPU]
	devices map[device]bool
}

type device struct{ resource, id string }

// A verdict with more holdings or more devices than these is large.
const (
	fewHoldings = 8
	fewDevices  = 64
)

func newFirsts(hs []place.Holding) firsts {
	devices := 0
	for i := range hs {
		for j := range hs[i].Devices {
			devices += len(hs[i].Devices[j].IDs)
		}
	}
	return firsts{hs: hs, large: len(hs) > fewHoldings || devices > fewDevices}
}

// ofCPUs returns the CPUs of the holding at a position that no earlier one has. It must be called once for each
// holding, in order.
func (f *firsts) ofCPUs(at int) idset.Set[idset.CPU] {
	own := f.hs[at].CPUs
	if !f.large {
		for i := range f.hs[:at] {
			if f.hs[i].CPUs.AndLen(own) > 0 {
				own = own.Minus(f.hs[i].CPUs)
			}
		}
		return own
	}
	first := own
	if f.cpus.AndLen(own) > 0 {
		first = own.Minus(f.cpus.Set())
	}
	f.cpus.Add(own)
	return first
}

// ofDevice reports whether no earlier holding has this device of the holding at a position. It must be called once
// for each device of each holding, in order.
func (f *firsts) ofDevice(at int, resource, id string) bool {
	if !f.large {
		return !holdsDevice(f.hs[:at], resource, id)
	}
	d := device{resource, id}
	if f.devices == nil {
		f.devices = map[device]bool{}
	}
	seen := f.devices[d]
	f.devices[d] = true
	return !seen
}
