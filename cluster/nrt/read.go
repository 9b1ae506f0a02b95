// Package nrt reads NodeResourceTopology (topology.node.k8s.io/v1alpha2 and v1alpha1), the format in which exporters
// report the resources of each NUMA node, and Numatopology (nodeinfo.volcano.sh/v1alpha1), the format of Volcano's
// exporter.
//
// [Typed] decodes the objects of an informer, [Read] converts an object to core values, and [Reading.Counted] finds
// the pods that its amounts contain. Invariant: the cost of an object is bounded, whatever it contains, and of
// contradictory amounts the smaller one counts. An object that node/nrt wrote has the same zones after it was read
// here and written again. The format does not show which CPUs are free, which pods hold what, or which holdings
// belong together. The package does not guess these, and refuses objects whose zones are not NUMA nodes.
package nrt

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	"github.com/k8stopologyawareschedwg/podfingerprint"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/printable"
	"github.com/tenon-numa/tenon/core/topo"
)

// Bounds on objects, in addition to those of package topo.
const (
	maxZones      = 1024                // of all types
	maxResources  = 4 * topo.MaxKinds   // of one zone
	maxDevices    = 4 * topo.MaxDevices // of all resources together; each device costs memory here
	maxConditions = 16
	maxClip       = 60  // bytes of a foreign text that an error repeats
	maxMalformed  = 300 // bytes of a decoding error
)

// Reading is the content of a NodeResourceTopology: amounts on every NUMA node. It has neither the ids of CPUs and
// devices nor the pods that hold them; ids are invented so that the amounts are right.
type Reading struct {
	// Machine has the NUMA nodes of the zones. CPU ids are consecutive, NUMA node by NUMA node; every CPU is a core of
	// its own, every NUMA node a socket with one L3 cache. If no zone lists CPUs, every NUMA node has one, since every
	// machine needs CPUs. Devices are named after their NUMA node, "0-0003"; devices that are not allocatable are
	// unhealthy. A device that the producer counts on two NUMA nodes is two devices.
	Machine *topo.Machine
	// Rules has the topology manager's rules from the object, and the other managers' as the zones suggest: kubelets
	// list CPUs and memory only if a static policy assigns them. The capacity beyond the allocatable amounts is
	// reserved, for CPUs as the lowest ids of each NUMA node.
	Rules place.Rules
	// Held is one holding of everything that is allocatable but not available, or empty: the CPUs after the reserved
	// ones, one block per kind of memory and NUMA node, and the lowest devices. The object does not show whether memory
	// belongs to a group of several NUMA nodes; it counts as held on each NUMA node separately.
	Held []place.Holding
	// Pods are the UIDs of all pods whose holdings Held contains, or nil if the object does not list them.
	Pods map[string]bool
	// Whole is set if Held includes what pods keep from init containers that have ended. Tenon's agent and a koordlet
	// read the managers' own state; other producers call the kubelet's API, which omits it. See [Typed].
	Whole bool
	// Fingerprint identifies the pods that the amounts contain; it is "" if the object has none or an unreadable one.
	// Method selects the pods in the fingerprint: podfingerprint.MethodWithExclusiveResources, or
	// podfingerprint.MethodAll or "" for all pods. See Counted.
	Fingerprint, Method string
	// Conditions are notes on harmless parts that were not understood or were corrected; at most 17, each short.
	Conditions []string
	// Omitted are the resources of device plugins that Machine lacks although the object has them, and why: the object
	// has more devices of them than a machine can have, or contradicts itself. Pods may hold such devices. All is ASCII.
	Omitted map[string]string
}

// Read converts an object. It reads objects of resource-topology-exporter, of NFD's topology updater and of Tenon's
// agent, and the parts in the same format that Koordinator's koordlet and the NRI plugins write.
//
// The error names the node and the first zone, resource or attribute that is wrong: a zone that cannot represent a
// NUMA node, a NUMA node that is named twice, an amount below 0 or beyond the bounds of package topo, an unknown
// policy. If a resource of a device plugin is wrong, only this resource is left out; see Reading.Omitted. Of
// contradictory amounts the smaller one counts, with a condition: available is at most allocatable and at least 0.
// There are two exceptions. Allocatable may be above capacity, because it comes from the kubelet and not from the
// producer. Allocatable 0 with something available counts as missing, because Go clients write a quantity that they
// never set as 0; capacity then counts as allocatable. Fractions are rounded down.
func Read(o *v1alpha2.NodeResourceTopology) (*Reading, error) { return ReadOn(o, topo.New) }

// ReadOn is Read with a function of the caller that makes machines, for callers that share equal ones ([topo.Pool]).
func ReadOn(o *v1alpha2.NodeResourceTopology, machine func(topo.Spec) (*topo.Machine, error)) (*Reading, error) {
	out, err := read(o, machine)
	if err != nil {
		return nil, fmt.Errorf("%s of node %q: %w", KindOf(o), clip(o.Name), err)
	}
	return out, nil
}

// read converts an object in these steps: it checks texts, finds the zones of NUMA nodes (numas), reads their amounts
// (zone.read), reads the rules (rulesOf), and makes a machine and a holding of the amounts (building).
func read(o *v1alpha2.NodeResourceTopology, machine func(topo.Spec) (*topo.Machine, error)) (*Reading, error) {
	if text := o.Annotations[annotationMalformed]; text != "" {
		return nil, fmt.Errorf("object does not decode: %s", clipTo(maxMalformed, text))
	}
	if err := checkTexts(o); err != nil {
		return nil, err
	}
	var n notes
	zones, err := numas(o.Zones)
	if err != nil {
		return nil, err
	}
	if unset := withoutAllocatable(zones); unset {
		n.add("no zone has anything allocatable; capacity counts as allocatable")
		for i := range zones {
			zones[i].unset = true
		}
	}
	omitted := map[string]string{}
	if name, why, ok := strings.Cut(o.Annotations[annotationOmitted], " "); ok {
		omitted[name] = why
	}
	for i := range zones {
		if zones[i].amounts, err = zones[i].read(&n, omitted); err != nil {
			return nil, fmt.Errorf("zone %q: %w", clip(zones[i].Name), err)
		}
	}
	rules, pods, err := rulesOf(o, zones, &n)
	if err != nil {
		return nil, err
	}
	b := building{zones: zones, rules: rules, omitted: omitted}
	if err := b.describe(&n); err != nil {
		return nil, err
	}
	m, err := machine(b.spec)
	if err != nil {
		return nil, err
	}
	out := &Reading{Machine: m, Rules: b.rules, Pods: pods, Omitted: omitted,
		Whole: pods != nil || o.Annotations[annotationWhole] != ""}
	if !b.held.Empty() {
		out.Held = []place.Holding{b.held}
	}
	out.Fingerprint, out.Method = fingerprint(o, &n)
	out.Conditions = n.list()
	return out, nil
}

// amount is the amount of one resource in a zone, in CPUs, bytes or devices. Invariant: 0 <= available <= allocatable
// <= capacity.
type amount struct{ capacity, allocatable, available int64 }

// withoutAllocatable reports whether the producer never set allocatable amounts, which Go clients write as 0: all of
// them are 0 although something is available, or although there is memory or a device. (CPUs alone may have no
// allocatable amount: a kubelet without a static CPU manager allocates none.)
func withoutAllocatable(zones []zone) bool {
	evidence := false
	for _, z := range zones {
		for _, r := range z.Resources {
			if !r.Allocatable.IsZero() {
				return false
			}
			memoryOrDevice := r.Name != cpu && !slices.Contains(wholeNode, r.Name) && r.Capacity.Sign() > 0
			given := r.Allocatable.Format != "" // an amount that the object lacks has no format
			evidence = evidence || given && (memoryOrDevice || r.Available.Sign() > 0)
		}
	}
	return evidence
}

// read returns the amounts of a zone by resource name. Names of hugepages have the form that Kubernetes writes. A
// resource of a device plugin whose amounts are wrong is added to omitted.
func (z *zone) read(n *notes, omitted map[string]string) (map[string]amount, error) {
	if len(z.Resources) > maxResources {
		return nil, fmt.Errorf("%d resources, the most is %d", len(z.Resources), maxResources)
	}
	out := map[string]amount{}
	for _, r := range z.Resources {
		name, err := resourceName(r.Name, n)
		if err != nil {
			return nil, err
		}
		if name == "" {
			continue
		}
		a, err := z.amount(r, n)
		if _, twice := out[name]; twice {
			err = errTwice
		}
		switch {
		case err == nil:
			out[name] = a
		case name == cpu || isMemory(name):
			return nil, fmt.Errorf("resource %q: %w", clip(name), err)
		default:
			omitted[name] = fmt.Sprintf("zone %+q: %v", clip(z.Name), err)
		}
	}
	return out, nil
}

var errTwice = errors.New("named twice")

// amount checks the amounts of one resource, and corrects contradictory ones as [Read] describes. The error is about
// an amount out of bounds.
func (z *zone) amount(r v1alpha2.ResourceInfo, n *notes) (a amount, err error) {
	for _, x := range []struct {
		name string
		from resource.Quantity
		to   *int64
		// other points to the amount that counts if this one is missing, since old producers write no allocatable.
		other *int64
	}{
		{"capacity", r.Capacity, &a.capacity, new(int64)},
		{"allocatable", r.Allocatable, &a.allocatable, &a.capacity},
		{"available", r.Available, &a.available, &a.allocatable},
	} {
		if x.from.Format == "" && x.from.IsZero() || z.unset && x.to == &a.allocatable {
			*x.to = *x.other
			continue
		}
		var ok bool
		if *x.to, ok = whole(x.from); !ok || (*x.to < 0 && x.to != &a.available) {
			return a, fmt.Errorf("%s is outside 0..%d", x.name, int64(topo.MaxBytes))
		}
	}
	if a.allocatable == 0 && a.available > 0 {
		a.allocatable = max(a.capacity, a.available)
		if !z.unset {
			n.add("zone %s: %s: allocatable 0 with %d available counts as not given; %d counts",
				z.Name, r.Name, a.available, a.allocatable)
		}
	}
	if a.allocatable > a.capacity {
		if a.capacity > 0 {
			n.add("zone %s: %s: allocatable %d is above capacity %d and counts", z.Name, r.Name, a.allocatable, a.capacity)
		}
		a.capacity = a.allocatable
	}
	if inside := max(0, min(a.available, a.allocatable)); inside != a.available {
		n.add("zone %s: %s: available %d is outside 0..%d; %d counts", z.Name, r.Name, a.available, a.allocatable, inside)
		a.available = inside
	}
	return a, nil
}

// whole returns a quantity rounded down to a whole number. ok is false if its magnitude is above topo.MaxBytes.
func whole(q resource.Quantity) (v int64, ok bool) {
	// For large exponents the other methods take very long or return 0; this one returns infinity or NaN.
	if f := q.AsApproximateFloat64(); math.IsNaN(f) || math.Abs(f) > topo.MaxBytes {
		return 0, false
	}
	v = q.Value() // rounded away from 0
	if v > 0 && resource.NewQuantity(v, resource.DecimalSI).Cmp(q) > 0 {
		v--
	}
	return v, true
}

// Kubernetes' resource name of CPUs, and the prefix of the names of hugepages.
const (
	cpu       = "cpu"
	hugepages = "hugepages-"
)

// resourceName returns the name under which a resource counts, or "" if it is to be ignored: it belongs to no NUMA
// node, or no device plugin can serve it. The error is about hugepages without a valid size.
func resourceName(name string, n *notes) (string, error) {
	switch {
	case name == cpu || name == topo.Memory:
		return name, nil
	case strings.HasPrefix(name, hugepages):
		size, err := topo.ParseBytes(strings.TrimPrefix(name, hugepages))
		if err != nil || size == 0 {
			return "", fmt.Errorf("resource %q is no size of hugepages", clip(name))
		}
		return topo.Hugepages{PageSize: size}.Kind(), nil
	case slices.Contains(wholeNode, name):
		return "", nil
	case !strings.Contains(name, "/") ||
		slices.ContainsFunc(noDevices, func(d string) bool { return strings.Contains(name, d) }):
		n.add("resource %s is not one that a device plugin serves; it is passed over", name)
		return "", nil
	case !topo.IsName(name):
		n.add("resource %s has a name that no resource of a node can have; it is passed over", name)
		return "", nil
	}
	return name, nil
}

var (
	// wholeNode are resources that belong to no NUMA node.
	wholeNode = []string{"ephemeral-storage", "storage", "pods"}
	// noDevices are domains whose resources are not devices. No device plugin can serve resources in Kubernetes' own
	// domain, where Koordinator counts batch-cpu in thousandths. No device plugin does serve Koordinator's resources,
	// such as shares of GPUs.
	noDevices = []string{"kubernetes.io/", "koordinator.sh/"}
)

// fingerprint returns the fingerprint and its method. It prefers the attribute to the older annotation.
func fingerprint(o *v1alpha2.NodeResourceTopology, n *notes) (sign, method string) {
	sign = attribute(o.Attributes, podfingerprint.Attribute)
	if sign == "" {
		sign = o.Annotations[podfingerprint.Annotation]
	}
	if sign == "" {
		return "", ""
	}
	if form := podfingerprint.NewFingerprint(0).Sign(); len(sign) != len(form) || sign[:8] != form[:8] {
		n.add("fingerprint %q has a form that is not understood", sign)
		return "", ""
	}
	method = attribute(o.Attributes, podfingerprint.AttributeMethod)
	switch method {
	case "", podfingerprint.MethodAll, podfingerprint.MethodWithExclusiveResources:
		return sign, method
	}
	n.add("fingerprint method %q is not understood; it counts as %q", method, podfingerprint.MethodAll)
	return sign, podfingerprint.MethodAll
}

// attribute returns the value of the first attribute with this name, or "".
func attribute(list v1alpha2.AttributeList, name string) string {
	for _, a := range list {
		if a.Name == name {
			return a.Value
		}
	}
	return ""
}

// notes collects conditions, each once.
type notes struct {
	texts []string
	more  bool
}

// add records a condition. It clips texts among the arguments.
func (n *notes) add(format string, args ...any) {
	for i, a := range args {
		if s, ok := a.(string); ok {
			args[i] = clip(s)
		}
	}
	switch text := fmt.Sprintf(format, args...); {
	case slices.Contains(n.texts, text):
	case len(n.texts) == maxConditions:
		n.more = true
	default:
		n.texts = append(n.texts, text)
	}
}

func (n *notes) list() []string {
	if n.more {
		return append(n.texts, "and more of this kind")
	}
	return n.texts
}

// clip returns at most maxClip bytes of a text, with "?" in place of control characters.
func clip(s string) string { return clipTo(maxClip, s) }

func clipTo(limit int, s string) string {
	s = printable.Clip(s, limit)
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, s)
}
