package sysfs

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file reads /sys/bus/pci/devices (Documentation/ABI/testing/sysfs-bus-pci).

// Nowhere is the NUMA node of a function without a known one. It is never treated as NUMA node 0.
const Nowhere idset.NUMA = -1

// Function is one PCI function.
type Function struct {
	Address string // domain:bus:device.function, in hexadecimal
	// Class has 24 bits: base class, subclass and programming interface (PCI Code and ID Assignment).
	Class          uint32
	Vendor, Device uint16
	Driver         string     // empty where none is bound
	NUMA           idset.NUMA // of the function, or of the nearest bridge above it that has one
	// Root is the host bridge above the function, such as "pci0000:17"; empty if unknown.
	Root string
	// Physical is the address of the physical function of a virtual one (SR-IOV), or empty.
	Physical string
	Kind     Kind
}

// Kind is the kind of a PCI function.
type Kind string

// The kinds of PCI functions.
const (
	GPU         Kind = "gpu"
	Accelerator Kind = "accelerator"
	NIC         Kind = "nic"
	InfiniBand  Kind = "infiniband"
	NVMe        Kind = "nvme"
	Other       Kind = "other"
)

const maxFunctions = 1 << 14

// PCI reads the PCI functions of a tree in ascending order of address. A function on a NUMA node that m lacks counts
// as on none. If m is nil, every NUMA node is accepted.
func PCI(fsys fs.FS, m *topo.Machine) ([]Function, []Warning, error) {
	return NewSurvey(fsys).Functions(m)
}

// functions reads all PCI functions; too many are an error.
func (t *tree) functions(m *topo.Machine) ([]Function, error) {
	names := t.names(pciDir)
	if len(names) > maxFunctions {
		return nil, fmt.Errorf("PCI functions in /%s: %d, the most is %d", pciDir, len(names), maxFunctions)
	}
	var out []Function
	for _, name := range names {
		if !isAddress(name) {
			t.warn(Malformed, pciDir, "%q is not the address of a PCI function", clip(name))
			continue
		}
		out = append(out, t.function(name, m))
	}
	slices.SortFunc(out, func(a, b Function) int { return compareAddress(a.Address, b.Address) })
	return out, nil
}

// compareAddress puts short domains first, which gives numerical order.
func compareAddress(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return slices.Compare([]byte(a), []byte(b))
}

func (t *tree) function(address string, m *topo.Machine) Function {
	// The link leads through the bridges above the function.
	dir := path.Join(pciDir, address)
	if target, ok := t.link(dir, "sys/devices"); ok {
		dir = target
	}
	t.seen.directory(dir)
	f := Function{
		Address: address,
		Class:   t.hex(dir+"/class", 24),
		Vendor:  uint16(t.hex(dir+"/vendor", 16)),
		Device:  uint16(t.hex(dir+"/device", 16)),
		NUMA:    t.numaNode(dir, m),
		Root:    rootOf(dir),
	}
	if driver, ok := t.link(dir+"/driver", "sys/bus/pci/drivers"); ok {
		f.Driver = path.Base(driver)
	}
	if physical, ok := t.link(dir+"/physfn", "sys"); ok && isAddress(path.Base(physical)) {
		f.Physical = path.Base(physical)
	}
	f.Kind = kindOf(f)
	return f
}

// rootOf finds the outermost host bridge in the path to a function. A storage controller (VMD) may create further
// domains below a host bridge.
func rootOf(dir string) string {
	for name := range strings.SplitSeq(dir, "/") {
		domain, bus, ok := strings.Cut(strings.TrimPrefix(name, "pci"), ":")
		if ok && strings.HasPrefix(name, "pci") && len(domain) >= 4 && len(domain) <= 8 && len(bus) == 2 &&
			isHex(domain+bus) {
			return name
		}
	}
	return ""
}

func (t *tree) hex(file string, bits int) uint32 {
	n, ok := value(t, file, func(s string) (uint32, error) { return parseHex(s, bits) })
	if !ok {
		t.warn(Missing, file, "counts as 0")
	}
	return n
}

// numaNode returns the NUMA node of a function or, if it has none, of the nearest bridge above it that has one. A
// NUMA node that m lacks counts as none. The kernel writes -1 for none.
func (t *tree) numaNode(dir string, m *topo.Machine) idset.NUMA {
	for ; isAddress(path.Base(dir)); dir = path.Dir(dir) {
		id := idset.NUMA(t.number(dir+"/numa_node", -1, -1, idset.Max))
		if id < 0 {
			continue
		}
		if m != nil {
			if _, ok := m.Position(id); !ok {
				t.warn(UnknownNUMA, dir+"/numa_node", "the machine has no NUMA node %d: counts as none", id)
				continue
			}
		}
		return id
	}
	return Nowhere
}

// Vendors of functions whose class does not show their kind.
const (
	intel  = 0x8086
	amazon = 0x1d0f
)

// isDisplay reports whether display functions of a vendor only show a console, because the vendor makes baseboard
// controllers or virtual machines. Pods do not request such functions, so they are no GPUs here.
func isDisplay(vendor uint16) bool {
	return slices.Contains([]uint16{0x102b, 0x1a03, 0x1013, 0x1234, 0x1af4, 0x1b36, 0x15ad}, vendor)
}

// kindOf returns the kind of a function by its base class and subclass (PCI Code and ID Assignment Specification),
// and by its vendor where these are not enough.
func kindOf(f Function) Kind {
	switch f.Class >> 8 {
	case 0x0300, 0x0302, 0x0380: // VGA, 3D controller, other display
		if isDisplay(f.Vendor) {
			return Other
		}
		return GPU
	case 0x1200, 0x0b40: // processing accelerator, co-processor
		return Accelerator
	case 0x0880: // system peripheral, which Neuron and DSA call themselves
		if f.Vendor == amazon || f.Vendor == intel && f.Device == 0x0b25 {
			return Accelerator
		}
	case 0x0200, 0x0280: // Ethernet, other network
		return NIC
	case 0x0207, 0x0c06: // InfiniBand, as a network or (older) as a serial bus
		return InfiniBand
	case 0x0108:
		if f.Class&0xff == 0x02 {
			return NVMe
		}
	}
	return Other
}
