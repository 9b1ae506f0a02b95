package kube

import (
	"fmt"
	"strings"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// Describe writes an outcome in one line; the machine is that of its node, or nil.
func Describe(m *topo.Machine, o ledger.Outcome) string {
	predicted := Holdings(m, o.Predicted)
	if o.Result == ledger.Rejected {
		return fmt.Sprintf("pod %s on node %s: refused (%s): predicted %s", o.Pod, o.Node, o.Error, predicted)
	}
	return fmt.Sprintf("pod %s on node %s: %s: predicted %s, seen %s", o.Pod, o.Node, o.Result, predicted, Holdings(m, o.Seen))
}

// Holdings writes holdings in one line, in the order of containers. NUMA nodes are named by their ids, and by
// their positions among those of the machine where the machine is nil.
func Holdings(m *topo.Machine, hs []place.Holding) string {
	var parts []string
	for _, h := range hs {
		s := h.Container + ":"
		if !h.CPUs.Empty() {
			s += " cpus " + h.CPUs.String()
		}
		for _, b := range h.Memory {
			s += fmt.Sprintf(" %s numas %s", place.Quantity(b.Kind, b.Bytes), numas(m, b.NUMAs))
		}
		for _, d := range h.Devices {
			s += " " + d.Resource + " " + strings.Join(d.IDs, ",")
		}
		parts = append(parts, s)
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, "; ")
}

func numas(m *topo.Machine, mask topo.Mask) string {
	if m != nil {
		return idset.Of(m.IDs(mask)...).String()
	}
	return idset.Of(mask.Positions()...).String()
}
