package hardware

import (
	"fmt"
	"strings"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/node/sysfs"
)

// memoryShare sets the tolerance in comparing memory: the amounts of a NUMA node may differ by one memoryShare-th of
// the host's, because what the kernel keeps for itself differs from boot to boot.
const memoryShare = 16

// Verify returns an error that names each difference between the machine file and the machine of Root. It returns nil
// if there is no machine file, or if Root describes no machine that it could be compared with.
func (s *Source) Verify() error {
	if s.File == "" {
		return nil
	}
	described, _, err := s.read()
	if err != nil {
		return err
	}
	root := s.Root
	if root == nil {
		root = sysfs.Host()
	}
	found, err := sysfs.NewSurvey(root).Machine()
	if err != nil {
		return nil
	}
	if all := differences(described.Machine, found.Machine); len(all) > 0 {
		return fmt.Errorf("machine file %s contradicts /sys of this host: %s", s.File, strings.Join(all, "; "))
	}
	return nil
}

// differences returns how a description differs from a machine. It compares single NUMA nodes only if all CPUs and the
// ids of all NUMA nodes are equal.
func differences(described, found *topo.Machine) (out []string) {
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if a, b := described.CPUs(), found.CPUs(); a.Len() != b.Len() {
		add("it has %d CPUs, the host %d", a.Len(), b.Len())
	} else if !a.Equal(b) {
		add("it has CPUs %s, the host %s", a, b)
	}
	if a, b := ids(described), ids(found); !a.Equal(b) {
		add("it has NUMA nodes %s, the host %s", a, b)
	}
	if len(out) > 0 {
		return out
	}
	for _, a := range described.NUMAs() {
		i, _ := found.Position(a.ID)
		b := found.NUMAs()[i]
		if !a.CPUs.Equal(b.CPUs) {
			add("its NUMA node %d has CPUs %s, the host's %s", a.ID, a.CPUs, b.CPUs)
		}
		if max(a.Bytes, b.Bytes)-min(a.Bytes, b.Bytes) > b.Bytes/memoryShare {
			add("its NUMA node %d has %s memory, the host's %s", a.ID, topo.FormatBytes(a.Bytes), topo.FormatBytes(b.Bytes))
		}
	}
	return out
}

func ids(m *topo.Machine) idset.Set[idset.NUMA] { return idset.Of(m.IDs(m.All())...) }
