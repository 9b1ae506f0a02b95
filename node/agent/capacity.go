package agent

import (
	"errors"
	"fmt"

	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/node/desired"
)

// memoryShare sets the tolerance in comparing memory: the amounts may differ by one memoryShare-th of the Node's
// memory, because what the kernel keeps for itself differs from boot to boot.
const memoryShare = 16

// compareCapacity compares the CPUs and memory of a machine with the kubelet's Node.status.capacity. It returns an
// error that names each difference, or nil if there is none. It ignores amounts that the kubelet has not reported
// yet.
func compareCapacity(m *topo.Machine, n desired.Node) error {
	var errs []error
	if cpus := int64(m.CPUs().Len()); n.CPUs != 0 && cpus != n.CPUs {
		errs = append(errs, fmt.Errorf("%d CPUs, the node has %d", cpus, n.CPUs))
	}
	var memory int64
	for _, numa := range m.NUMAs() {
		memory += numa.Bytes
	}
	if n.Memory != 0 && max(memory, n.Memory)-min(memory, n.Memory) > n.Memory/memoryShare {
		errs = append(errs, fmt.Errorf("%s memory, the node has %s", topo.FormatBytes(memory), topo.FormatBytes(n.Memory)))
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("the machine file contradicts Node.status.capacity, nothing is published: %w", errors.Join(errs...))
}
