package topo

import (
	"fmt"
	"slices"
	"strings"
)

// NUMAList is the kind of list of NUMA nodes that a device plugin announces for a device. The kubelet treats a device
// with an unusual list differently from a device without a list (pkg/kubelet/cm/devicemanager, topology_hints.go and
// filterByAffinity of manager.go).
type NUMAList uint8

// The kinds of lists. Their names, for String and ParseNUMAList, are "", "empty", "negative" and "unknown". A list
// with an unknown and a negative id is UnknownID.
const (
	UsualList  NUMAList = iota // only NUMA nodes of the machine, or no list
	EmptyList                  // a list without any NUMA node
	NegativeID                 // an id below 0: /sys has -1 for a PCI device without a NUMA node
	UnknownID                  // the id of a NUMA node that the machine lacks
)

var numaLists = [...]string{"", "empty", "negative", "unknown"}

// String returns the name of the list.
func (l NUMAList) String() string {
	if int(l) >= len(numaLists) {
		return fmt.Sprintf("list %d", l)
	}
	return numaLists[l]
}

// ParseNUMAList reads the name of a list; the second result is false for any other text.
func ParseNUMAList(s string) (NUMAList, bool) {
	i := slices.Index(numaLists[:], s)
	return NUMAList(max(0, i)), i >= 0
}

// Names reports whether the list has an id that is no NUMA node of the machine. A list with any id makes the kubelet
// align the resource, so it does that even if none of the devices is on a NUMA node.
func (l NUMAList) Names() bool { return l == NegativeID || l == UnknownID }

// Device is one allocatable unit of a device plugin.
type Device struct {
	ID        string
	NUMAs     Mask // zero: no affinity
	Unhealthy bool
	List      NUMAList
	// Root is the name of the PCI host bridge above the device, such as "pci0000:17"; empty if unknown. Devices below
	// one host bridge reach each other without passing through CPUs.
	Root string
}

// Resource is a device plugin's resource with its devices, in ascending order of id.
type Resource struct {
	Name    string
	Devices []Device
	NUMAs   Mask // the NUMA nodes that some device is on
	Rooted  bool // the PCI root of some device is known
}

// DeviceRoom returns how many bytes of [MaxSize] the machine's hardware leaves for devices. The devices that the
// machine already has are not subtracted.
func (m *Machine) DeviceRoom() int {
	if m.bare != nil {
		return MaxSize - m.bare.size
	}
	return MaxSize - m.size
}

// DeviceSize returns how many bytes of [MaxSize] a device with this id takes at most, whatever its PCI root.
func DeviceSize(id string) int { return deviceSize + len(id) + MaxRoot }

func (m *Machine) addDevices(in []DeviceSpec) error {
	byName := map[string][]Device{}
	for _, d := range in {
		if err := m.grow(deviceSize + len(d.ID) + len(d.Root)); err != nil {
			return err
		}
		if err := checkName("resource", d.Resource); err != nil {
			return err
		}
		if err := checkName("device", d.ID); err != nil {
			return fmt.Errorf("resource %s: %w", d.Resource, err)
		}
		if d.Root != "" {
			if err := checkName("root", d.Root); err != nil || len(d.Root) > MaxRoot {
				return fmt.Errorf("device %s %s: PCI root of %d bytes is not a name of at most %d", d.Resource, d.ID,
					len(d.Root), MaxRoot)
			}
		}
		if int(d.List) >= len(numaLists) || d.List == EmptyList && len(d.NUMAs) > 0 {
			return fmt.Errorf("device %s %s: its list of NUMA nodes cannot be %v and have %d of them", d.Resource, d.ID,
				d.List, len(d.NUMAs))
		}
		dev := Device{ID: d.ID, Unhealthy: d.Unhealthy, List: d.List, Root: d.Root}
		for _, id := range d.NUMAs {
			at, ok := m.Position(id)
			if !ok {
				return fmt.Errorf("device %s %s: machine has no NUMA node %d", d.Resource, d.ID, id)
			}
			dev.NUMAs |= 1 << uint(at)
		}
		byName[d.Resource] = append(byName[d.Resource], dev)
	}
	if len(byName) > MaxKinds {
		return fmt.Errorf("machine has %d device resources, the most is %d", len(byName), MaxKinds)
	}
	for name, devs := range byName {
		if len(devs) > MaxDevices {
			return fmt.Errorf("resource %s has %d devices, the most is %d", name, len(devs), MaxDevices)
		}
		slices.SortFunc(devs, func(a, b Device) int { return strings.Compare(a.ID, b.ID) })
		for i := 1; i < len(devs); i++ {
			if devs[i].ID == devs[i-1].ID {
				return fmt.Errorf("resource %s: device %s is named twice", name, devs[i].ID)
			}
		}
		r := Resource{Name: name, Devices: slices.Clone(devs)} // without spare capacity
		for i := range devs {
			r.NUMAs |= devs[i].NUMAs
			r.Rooted = r.Rooted || devs[i].Root != ""
		}
		m.resources = append(m.resources, r)
	}
	slices.SortFunc(m.resources, func(a, b Resource) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// Device returns the device with this id, or the zero Device if the resource has no such device.
func (r Resource) Device(id string) Device {
	i, ok := slices.BinarySearchFunc(r.Devices, id, func(d Device, id string) int { return strings.Compare(d.ID, id) })
	if !ok {
		return Device{}
	}
	return r.Devices[i]
}

// IsName reports whether a resource or a device can have a name: 1 to MaxName bytes of visible ASCII.
func IsName(s string) bool { return checkName("", s) == nil }

func checkName(what, s string) error {
	if s == "" || len(s) > MaxName {
		return fmt.Errorf("%s name of %d bytes is outside 1..%d", what, len(s), MaxName)
	}
	for _, r := range s {
		if r <= ' ' || r > '~' {
			return fmt.Errorf("%s name %q has a character that is not printable ASCII", what, s)
		}
	}
	return nil
}
