package nrt

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2/helper"

	"github.com/tenon-numa/tenon/api/nrt"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file reads forms that only some producers write. The dialects are:
//
//   - resource-topology-exporter and NFD: zones of type Node; policy and scope as attributes. A kubelet without a
//     static CPU manager allocates no CPUs; its zones then have no CPUs, or CPUs without allocatable amounts.
//   - Their predecessors, and Koordinator's koordlet: policy and scope as one word in topologyPolicies.
//   - Koordinator's koordlet: every zone lists CPUs and memory, whatever the kubelet's managers do. An annotation has
//     the CPU manager's policy; the memory manager's policy is missing. All that is allocatable counts as available,
//     even if pods hold it; annotations also list which pods hold which CPUs (koordlet.go).
//   - The NRI plugins: a tree of zones. A NUMA node that is the only one of its die or socket has no zone of its own.
//     The amounts are those that the plugin assigns while the kubelet's managers are off.

// zone is a zone that represents a NUMA node.
type zone struct {
	*v1alpha2.Zone
	id      idset.NUMA
	amounts map[string]amount
	unset   bool // the object has no allocatable amounts; see withoutAllocatable
}

// Types of zones of the NRI plugin topology-aware that are NUMA nodes, and parts of NUMA nodes.
const (
	zoneTypeNUMA = "numa node"
	zoneTypeL3   = "L3 cache"
)

// outerTypes are the types of zones that contain NUMA nodes. Such a zone repeats the amounts of the NUMA nodes in it.
var outerTypes = []string{"virtual node", "socket", "Socket", "die"}

// attributeMemorySet is the attribute of the NRI plugins that lists the NUMA nodes of a zone.
const attributeMemorySet = "memory set"

// numas returns the zones that represent NUMA nodes, in ascending order of id.
func numas(in v1alpha2.ZoneList) ([]zone, error) {
	if len(in) == 0 {
		return nil, fmt.Errorf("object has no zone")
	}
	if len(in) > maxZones {
		return nil, fmt.Errorf("object has %d zones, the most is %d", len(in), maxZones)
	}
	found := map[idset.NUMA]*v1alpha2.Zone{}
	var others []*v1alpha2.Zone
	for i := range in {
		z := &in[i]
		if z.Type == zoneTypeL3 {
			continue
		}
		if slices.Contains(outerTypes, z.Type) {
			others = append(others, z)
			continue
		}
		id, err := numaID(z)
		if err != nil {
			return nil, err
		}
		if _, twice := found[id]; twice {
			return nil, fmt.Errorf("zone %q: NUMA node %d is named twice", clip(z.Name), id)
		}
		found[id] = z
	}
	if err := substitute(found, others); err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no zone stands for a NUMA node")
	}
	if len(found) > topo.MaxNUMAs {
		return nil, fmt.Errorf("object has %d NUMA nodes, the most is %d", len(found), topo.MaxNUMAs)
	}
	var out []zone
	for _, id := range slices.Sorted(maps.Keys(found)) {
		out = append(out, zone{Zone: found[id], id: id})
	}
	return out, nil
}

// numaID returns the NUMA node that a zone represents, from its type and name.
func numaID(z *v1alpha2.Zone) (idset.NUMA, error) {
	prefix := "node-"
	switch z.Type {
	case helper.ZoneTypeNUMANode:
	case zoneTypeNUMA:
		prefix = "NUMA node #"
	default:
		return 0, fmt.Errorf("zone %q: type %q does not say which NUMA node it is", clip(z.Name), clip(z.Type))
	}
	digits, ok := strings.CutPrefix(z.Name, prefix)
	id, err := strconv.Atoi(digits)
	if !ok || err != nil || !idset.Valid(id) || strconv.Itoa(id) != digits {
		return 0, fmt.Errorf("zone %q: want a name of the form %sN, N in 0..%d", clip(z.Name), prefix, idset.Max)
	}
	return idset.NUMA(id), nil
}

// substitute adds to found a zone for each NUMA node without a zone of its own: the one of others whose memory set
// has only this NUMA node. A NUMA node that is only in memory sets with several NUMA nodes is an error, because the
// machine would lack it.
func substitute(found map[idset.NUMA]*v1alpha2.Zone, others []*v1alpha2.Zone) error {
	covered := map[idset.NUMA]bool{}
	for id, z := range found {
		covered[id] = true
		set, err := memorySet(z)
		if err != nil {
			return err
		}
		for id := range set.All() {
			covered[id] = true // a NUMA node without CPUs, whose memory the plugins add to the closest zone
		}
	}
	sets := make([]idset.Set[idset.NUMA], len(others))
	for i, z := range others {
		var err error
		if sets[i], err = memorySet(z); err != nil {
			return err
		}
		if sets[i].Len() != 1 {
			continue
		}
		id := sets[i].Min()
		// If a zone and its parent have the same NUMA node, the inner zone is closer to it.
		if old := found[id]; !covered[id] || (old != nil && slices.Contains(others, old) && z.Parent == old.Name) {
			found[id], covered[id] = z, true
		}
	}
	for i, z := range others {
		for id := range sets[i].All() {
			if !covered[id] {
				return fmt.Errorf("zone %q: NUMA node %d of its memory set has no zone", clip(z.Name), id)
			}
		}
	}
	return nil
}

func memorySet(z *v1alpha2.Zone) (set idset.Set[idset.NUMA], err error) {
	if set, err = idset.Parse[idset.NUMA](attribute(z.Attributes, attributeMemorySet)); err != nil {
		return set, fmt.Errorf("zone %q: attribute %q: %w", clip(z.Name), attributeMemorySet, err)
	}
	return set, nil
}

// defaultMaxNUMAs is the kubelet's limit if an object has none.
const defaultMaxNUMAs = nrt.DefaultMaxNUMAs

// Names of attributes, labels and annotations by which the dialects differ.
const (
	attributeOptions      = "topologyManagerPolicyOptions"
	attributeOptionPrefix = "topologyManagerOption"
	attributeNRIPolicy    = "TopologyPolicy" // of the NRI plugins: the plugin's own policy
	labelManagedBy        = "app.kubernetes.io/managed-by"
	koordinator           = "Koordinator"
	annotationCPUManager  = "kubelet.koordinator.sh/cpu-manager-policy"
)

// rulesOf returns the rules of the node without reservations, and corrects the amounts of a koordlet's zones. pods
// are the UIDs of the pods whose CPUs the zones count, or nil if the object does not list them.
func rulesOf(o *v1alpha2.NodeResourceTopology, zones []zone, n *notes) (
	r place.Rules, pods map[string]bool, err error,
) {
	if policy := attribute(o.Attributes, attributeNRIPolicy); policy != "" {
		n.add("policy %s of an NRI plugin decides on this node, not the kubelet: "+
			"nothing counts as held or aligned", policy)
		return r, nil, nil
	}
	if r.Topology, err = topologyRules(o, len(zones), n); err != nil {
		return r, nil, err
	}
	for _, z := range zones {
		r.CPU.Static = r.CPU.Static || z.amounts[cpu].allocatable > 0
		for name, a := range z.amounts {
			r.Memory.Static = r.Memory.Static || (isMemory(name) && a.capacity > 0)
		}
	}
	if o.Labels[labelManagedBy] == koordinator {
		pods, err = koordletRules(o, zones, &r, n)
	}
	return r, pods, err
}

func isMemory(name string) bool { return name == topo.Memory || strings.HasPrefix(name, hugepages) }

// koordletRules corrects the rules and the amounts of CPUs that a koordlet's zones show wrongly, and returns the UIDs
// of the pods that hold CPUs. pods is nil if no manager assigns CPUs.
func koordletRules(o *v1alpha2.NodeResourceTopology, zones []zone, r *place.Rules, n *notes) (
	pods map[string]bool, err error,
) {
	var manager managerPolicy
	if text := o.Annotations[annotationCPUManager]; text != "" {
		if err := json.Unmarshal([]byte(text), &manager); err != nil {
			n.add("annotation %s is not understood; the CPU manager counts as none", annotationCPUManager)
		}
	}
	r.CPU.Static = r.CPU.Static && manager.Policy == "static"
	r.Memory.Static = false
	if r.CPU.Static {
		if pods, err = koordletHeld(o, zones); err != nil {
			return nil, err
		}
	}
	if r.CPU.Static || r.Topology.Policy != place.None {
		n.add("a koordlet says nothing of the memory manager: memory counts as not aligned")
	}
	return pods, nil
}

// topologyRules reads the topology manager's rules from attributes or, if these have no policy, from the older field
// topologyPolicies. numas is the number of NUMA nodes. An unknown policy or scope is an error, since predictions
// under another one would be wrong.
func topologyRules(o *v1alpha2.NodeResourceTopology, numas int, n *notes) (t place.TopologyRules, err error) {
	policy, scope := attribute(o.Attributes, nrt.AttributePolicy), attribute(o.Attributes, nrt.AttributeScope)
	if len(o.TopologyPolicies) > 1 {
		n.add("topologyPolicies has %d entries; the first counts", len(o.TopologyPolicies))
	}
	if policy == "" && len(o.TopologyPolicies) > 0 {
		word := o.TopologyPolicies[0]
		former, ok := formerRules(word)
		if !ok {
			return t, fmt.Errorf("topologyPolicies: unknown value %q", clip(word))
		}
		t.Policy, t.Scope = former.Policy, former.Scope
	} else if policy == "" {
		n.add("object says no topology manager policy; it counts as none")
	}
	var ok bool
	if policy != "" {
		if t.Policy, ok = place.ParsePolicy(policy); !ok {
			return t, fmt.Errorf("attribute %s: unknown value %q", nrt.AttributePolicy, clip(policy))
		}
	}
	if scope != "" {
		if t.Scope, ok = place.ParseScope(scope); !ok {
			return t, fmt.Errorf("attribute %s: unknown value %q", nrt.AttributeScope, clip(scope))
		}
	}
	topologyOptions(o.Attributes, &t, n)
	// A kubelet with a policy other than none does not start on a machine with more NUMA nodes than its limit, and
	// producers do not publish the limit.
	if t.Policy != place.None && cmp.Or(t.MaxNUMAs, defaultMaxNUMAs) < numas {
		t.MaxNUMAs = numas
	}
	return t, nil
}

// formerRules reads a value of topologyPolicies, which names policy and scope in one word; ok is false for an unknown
// value. A policy without a scope has the kubelet's default. Early producers wrote the kubelet's own names.
func formerRules(word string) (t place.TopologyRules, ok bool) {
	if t.Policy, ok = place.ParsePolicy(word); ok {
		return t, true
	}
	switch v1alpha2.TopologyManagerPolicy(word) {
	case v1alpha2.Restricted:
		return place.TopologyRules{Policy: place.Restricted}, true
	case v1alpha2.BestEffort:
		return place.TopologyRules{Policy: place.BestEffort}, true
	}
	for _, policy := range []place.Policy{place.None, place.BestEffort, place.Restricted, place.SingleNUMA} {
		for _, scope := range []place.Scope{place.PerContainer, place.PerPod} {
			if string(nrt.FormerPolicy(policy, scope)) == word {
				return place.TopologyRules{Policy: policy, Scope: scope}, true
			}
		}
	}
	return place.TopologyRules{}, false
}

// topologyOptions reads the topology manager's options, from separate attributes or from the list in the form of the
// kubelet's flag ("name=value,name=value").
func topologyOptions(list v1alpha2.AttributeList, t *place.TopologyRules, n *notes) {
	if limit := attribute(list, nrt.AttributeMaxNUMAs); limit != "" {
		topologyOption(nrt.AttributeMaxNUMAs, "max-allowable-numa-nodes", limit, t, n)
	}
	if options := attribute(list, attributeOptions); options != "" {
		for option := range strings.SplitSeq(options, ",") {
			name, value, _ := strings.Cut(option, "=")
			topologyOption(attributeOptions, strings.TrimSpace(name), strings.TrimSpace(value), t, n)
		}
	}
	for _, a := range list {
		if strings.HasPrefix(a.Name, attributeOptionPrefix) {
			n.add("attribute %s is not understood", a.Name)
		}
	}
}

// topologyOption reads one option into t. A value that it does not understand only adds a note, because the kubelet's
// default then counts.
func topologyOption(attribute, name, value string, t *place.TopologyRules, n *notes) {
	switch name {
	case "max-allowable-numa-nodes":
		if limit, err := strconv.Atoi(value); err == nil && limit > 0 && limit <= v1alpha1.MaxAllowable {
			t.MaxNUMAs = limit
			return
		}
	case "prefer-closest-numa-nodes":
		if on, err := strconv.ParseBool(value); err == nil {
			t.PreferClosest = on
			return
		}
	}
	n.add("attribute %s: %s=%s is not understood", attribute, name, value)
}
