// Package nrt reads NodeResourceTopology (topology.node.k8s.io/v1alpha2 and v1alpha1), the format in which exporters
// report what a node has on each NUMA node.
//
// [Typed] makes typed objects of what an informer receives, [Read] makes values of an object, and [Reading.Counted]
// finds the pods that its amounts account for. Invariant: nothing that an object says costs more than a bound, and of
// amounts that contradict each other, the one that promises less counts. An object that node/nrt wrote, read here and
// written again has the same zones. The format cannot say which CPUs are free, who holds what, or what belongs
// together; the package refuses to guess it, and refuses objects whose zones are not NUMA nodes.
package nrt

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	"github.com/k8stopologyawareschedwg/podfingerprint"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// Bounds on what an object may say, beside those of package topo.
const (
	maxZones      = 1024                // of all types
	maxResources  = 4 * topo.MaxKinds   // of one zone
	maxDevices    = 4 * topo.MaxDevices // of all resources together: every one costs memory here
	maxConditions = 16
	maxClip       = 60  // bytes of a foreign text that are repeated in an error
	maxMalformed  = 300 // bytes of why an object does not decode
)

// Reading is what a NodeResourceTopology tells of a node: amounts on every NUMA node, and neither which CPUs
// and devices these are nor who holds them. Ids are made up so that the amounts are right.
type Reading struct {
	// Machine has the NUMA nodes of the zones. CPU ids are consecutive, NUMA node by NUMA node; every CPU is a core of
	// its own, every NUMA node a socket with one L3 cache. Where no zone lists CPUs, every NUMA node has one, since
	// a machine cannot be without. Devices are named after their NUMA node, "0-0003"; those that are not
	// allocatable are unhealthy. A device that the producer counts on two NUMA nodes is two devices.
	Machine *topo.Machine
	// Rules are the topology manager's as the object says, and the other managers' as the zones suggest:
	// kubelets list CPUs and memory only where a static policy gives them out. What is capacity but not
	// allocatable is reserved, CPUs as the lowest ids of each NUMA node.
	Rules place.Rules
	// Held is one holding of everything that is allocatable but not available, or empty: the CPUs next to
	// the reserved ones, one block per kind of memory and NUMA node, the lowest devices. Whether memory belongs
	// to a group of several NUMA nodes is not in the object; it counts as held on each NUMA node by itself.
	Held []place.Holding
	// Pods are the UIDs of all pods that Held accounts for, where the object tells; otherwise nil.
	Pods map[string]bool
	// Whole is set where Held has what pods keep from their init containers: Tenon's agent and a koordlet read
	// the managers' own state, where others ask for lists that lack it. See [Typed].
	Whole bool
	// Fingerprint is of the pods that the amounts account for, "" where the object has none or none that
	// can be read. Method says which pods it is of: podfingerprint.MethodWithExclusiveResources, or
	// podfingerprint.MethodAll or "" for all of them. See Counted.
	Fingerprint, Method string
	// Conditions say what was not understood or put right, and does no harm; at most 17, each short.
	Conditions []string
}

// Read takes an object apart. It understands those of resource-topology-exporter, of NFD's topology
// updater and of this package, and what Koordinator's koordlet and the NRI plugins say in the same words.
//
// The error names the node and the zone, resource or attribute that is wrong, and is the first of those
// that there are: a zone that cannot stand for a NUMA node, a NUMA node that is named twice, an amount beyond the
// bounds of package topo or below 0, an unknown policy. Of amounts that contradict each other, the one
// that promises less counts, with a condition: what is available is at most what is allocatable and at
// least 0. There are two exceptions. Allocatable may be above capacity, since the kubelet is trusted more than
// the producer. Allocatable 0 with something available counts as missing, since Go clients write a quantity that
// they never set as 0; capacity then counts as allocatable. Fractions are rounded down.
func Read(o *v1alpha2.NodeResourceTopology) (*Reading, error) { return ReadOn(o, topo.New) }

// ReadOn is Read with machines made by the caller, who may have equal ones already ([topo.Pool]).
func ReadOn(o *v1alpha2.NodeResourceTopology, machine func(topo.Spec) (*topo.Machine, error)) (*Reading, error) {
	out, err := read(o, machine)
	if err != nil {
		return nil, fmt.Errorf("NodeResourceTopology of node %q: %w", clip(o.Name), err)
	}
	return out, nil
}

func read(o *v1alpha2.NodeResourceTopology, machine func(topo.Spec) (*topo.Machine, error)) (*Reading, error) {
	if text := o.Annotations[annotationMalformed]; text != "" {
		return nil, fmt.Errorf("object does not decode: %s", clipTo(maxMalformed, text))
	}
	if err := printable(o); err != nil {
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
	for i := range zones {
		if zones[i].amounts, err = zones[i].read(&n); err != nil {
			return nil, fmt.Errorf("zone %q: %w", clip(zones[i].Name), err)
		}
	}
	rules, pods, err := rulesOf(o, zones, &n)
	if err != nil {
		return nil, err
	}
	b := building{zones: zones, rules: rules}
	if err := b.describe(&n); err != nil {
		return nil, err
	}
	m, err := machine(b.spec)
	if err != nil {
		return nil, err
	}
	out := &Reading{Machine: m, Rules: b.rules, Pods: pods, Whole: pods != nil || o.Annotations[annotationWhole] != ""}
	if !b.held.Empty() {
		out.Held = []place.Holding{b.held}
	}
	out.Fingerprint, out.Method = fingerprint(o, &n)
	out.Conditions = n.list()
	return out, nil
}

// amount is what a zone has of one resource, in CPUs, bytes or devices.
// Invariant: 0 <= available <= allocatable <= capacity.
type amount struct{ capacity, allocatable, available int64 }

// withoutAllocatable reports whether the producer never set allocatable amounts, which Go clients write as 0:
// all of them are 0 though something is available, or though there is memory or a device. (CPUs alone may have
// no allocatable amount: a kubelet without a static CPU manager allocates none.)
func withoutAllocatable(zones []zone) bool {
	evidence := false
	for _, z := range zones {
		for _, r := range z.Resources {
			if !r.Allocatable.IsZero() {
				return false
			}
			counts := r.Name != cpu && !slices.Contains(wholeNode, r.Name) && r.Capacity.Sign() > 0
			given := r.Allocatable.Format != "" // an amount that is not in the object has no format
			evidence = evidence || given && (counts || r.Available.Sign() > 0)
		}
	}
	return evidence
}

// read returns the amounts of a zone by name of the resource; sizes of hugepages are as Kubernetes
// writes them.
func (z *zone) read(n *notes) (map[string]amount, error) {
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
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("resource %q is named twice", clip(name))
		}
		if out[name], err = z.amount(r, n); err != nil {
			return nil, fmt.Errorf("resource %q: %w", clip(name), err)
		}
	}
	return out, nil
}

// amount checks the amounts of one resource, and puts right what contradicts itself.
func (z *zone) amount(r v1alpha2.ResourceInfo, n *notes) (a amount, err error) {
	for _, x := range []struct {
		name string
		from resource.Quantity
		to   *int64
		// other is taken where the amount is missing: old producers have no allocatable.
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

// whole rounds a quantity down; ok is false where it is beyond every bound.
func whole(q resource.Quantity) (v int64, ok bool) {
	// Of large exponents the other methods make work without end, or 0; this one makes infinity or NaN.
	if f := q.AsApproximateFloat64(); math.IsNaN(f) || math.Abs(f) > topo.MaxBytes {
		return 0, false
	}
	v = q.Value() // rounded away from 0
	if v > 0 && resource.NewQuantity(v, resource.DecimalSI).Cmp(q) > 0 {
		v--
	}
	return v, true
}

// Kubernetes' name of CPUs, and the beginning of those of hugepages.
const (
	cpu       = "cpu"
	hugepages = "hugepages-"
)

// resourceName returns the name under which a resource counts, "" where it is none that a NUMA node has.
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
	}
	return name, nil
}

var (
	// wholeNode are resources that belong to no NUMA node.
	wholeNode = []string{"ephemeral-storage", "storage", "pods"}
	// noDevices are domains whose resources no device plugin can serve (Kubernetes' own, in which
	// Koordinator counts batch-cpu by the thousandth) or does serve (shares of GPUs).
	noDevices = []string{"kubernetes.io/", "koordinator.sh/"}
)

// fingerprint returns the fingerprint and its method. An attribute is preferred to the annotation that
// came before it.
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

// attribute returns the value of the first attribute with a name, "" where there is none.
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

// add notes a condition; texts of the object among the arguments are clipped.
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

// clip keeps texts short and on one line when the input is not.
func clip(s string) string { return clipTo(maxClip, s) }

func clipTo(most int, s string) string {
	if len(s) > most {
		s = s[:most] + "..."
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, s)
}
