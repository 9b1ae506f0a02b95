package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file examines reports of nodes: whether they are usable, and how kubelets treat pods.

// nodes adds the findings about nodes. Estimated nodes have no layout, so only their report is examined.
func (x *examination) nodes() {
	layouts := map[string]*v1alpha1.NodeLayout{}
	for i := range x.View.Layouts {
		l := &x.View.Layouts[i]
		layouts[l.Name] = l
	}
	objects := map[string]*v1.Node{}
	for i := range x.View.Nodes {
		objects[x.View.Nodes[i].Name] = &x.View.Nodes[i]
	}
	x.unread(layouts)
	for _, n := range x.View.States {
		x.report(n, layouts[n.Name], objects[n.Name])
		if n.Quality != state.Exact {
			x.add("amounts-only", onNode(n.Name), "the node has a NodeResourceTopology and no layout: predictions are "+
				"estimates", "")
			continue
		}
		x.settings(n)
		x.startFaults(n, layouts[n.Name])
		x.reservedCPUs(n)
		x.silentKubelet(n, objects[n.Name])
		x.hardware(n, layouts[n.Name])
		x.reservation(n, objects[n.Name])
		for _, h := range n.RestartHazards() {
			pods := h.Pods
			h.Pods = nil // the pods are evidence, so that equal hazards of several nodes become one finding
			a := h.Advice()
			x.add(string(h.Code), onNode(n.Name, pods...), a.What,
				cmp.Or(a.Remedy, "drain the node before the kubelet restarts"))
		}
	}
}

// unread adds findings about the nodes without a usable report.
func (x *examination) unread(layouts map[string]*v1alpha1.NodeLayout) {
	for _, p := range x.View.Problems {
		switch {
		case layouts[p.Node] == nil && strings.Contains(strings.ToLower(p.Reason), "topology"):
			x.add("topology-refused", onNode(p.Node, p.Reason), "the node's topology object is refused", "")
		case layouts[p.Node] != nil || strings.Contains(p.Reason, "refused"):
			x.add("layout-refused", onNode(p.Node, p.Reason), "what the node reports is refused", "")
		case !x.undefined("NodeLayout"):
			x.unreported(p.Node)
		}
	}
}

// unreported adds a finding about a node that publishes no data. It adds none if an agent runs there without being
// ready, because method agent adds one.
func (x *examination) unreported(node string) {
	agent := x.agentOn(node)
	switch {
	case agent == nil:
		x.add("agent-missing", onNode(node), "no agent reports of the node: kubelets there may refuse pods", "")
	case unready(agent) == nil:
		x.add("agent-missing", onNode(node, "pod "+agent.Namespace+"/"+agent.Name+" is ready"),
			"an agent runs on the node, and nothing that it published is there",
			"see the log of the agent, and who deletes layouts")
	}
}

// report examines whether the report of a node is current and reliable.
func (x *examination) report(n *state.Node, l *v1alpha1.NodeLayout, object *v1.Node) {
	x.awaited(n)
	x.dropped(n)
	if l != nil {
		if c := meta.FindStatusCondition(l.Status.Conditions, v1alpha1.ConditionAccepted); c != nil && c.Status == "False" {
			x.add("layout-refused", onNode(n.Name, c.Message), "what the node reports is refused", "")
		}
		if object != nil && l.Kubelet.Version != "" && object.Status.NodeInfo.KubeletVersion != "" &&
			l.Kubelet.Version != object.Status.NodeInfo.KubeletVersion {
			x.add("layout-stale", onNode(n.Name, "layout: "+l.Kubelet.Version, "node: "+
				object.Status.NodeInfo.KubeletVersion), "the layout is of another release of the kubelet than the node", "")
		}
	}
	// If the rules show why the kubelet is unusable, method settings adds that finding, with a remedy.
	explained := n.Quality == state.Exact && len(n.Rules.Obstacles(n.Machine)) > 0
	for _, r := range n.Inexact {
		if r.Code == state.KubeletUnusable && explained {
			continue
		}
		x.add(string(r.Code), onNode(n.Name, r.Message), "predictions may be inexact: "+string(r.Code), "")
	}
}

// awaited examines whether a report of a node is overdue or awaited, and finds the pods that no report lists.
func (x *examination) awaited(n *state.Node) {
	if n.Quality != state.Exact {
		return
	}
	switch {
	case n.Silent:
		x.add("report-overdue", onNode(n.Name, podNames(n.Unlisted)...), "a report of the node is overdue", "")
	case len(n.Unlisted) > 0:
		x.add("pods-unlisted", onNode(n.Name, podNames(n.Unlisted)...), "pods run on the node, and no report lists them", "")
	}
	if n.Unsettled && !n.Silent {
		var pods []state.PodID
		for _, e := range n.Entries {
			if e.Source == state.Predicted && !slices.Contains(n.Unlisted, e.Pod) {
				pods = append(pods, e.Pod)
			}
		}
		x.add("report-awaited", onNode(n.Name, podNames(pods)...), "pods wait until the node reports what others got", "")
	}
}

// settings examines whether a kubelet's configuration suits its machine.
func (x *examination) settings(n *state.Node) {
	for _, u := range n.Rules.Forgotten(n.Machine) {
		x.add(string(u.Code), onNode(n.Name), u.What, u.Remedy)
	}
	if n.Rules.CPU.Static && n.Rules.CPU.Reserved.Len() == 0 {
		x.add("no-reserved-cpus", onNode(n.Name), "no CPUs are kept for the system: containers may have all of them", "")
	}
	for _, r := range n.Rules.Obstacles(n.Machine) {
		x.add("kubelet-unusable", onNode(n.Name), r.Text(), r.Remedy())
	}
	for _, r := range n.Rules.MissingPages(n.Machine) {
		x.add("hugepages-missing", onNode(n.Name, fmt.Sprintf("NUMA node %d shows no %s", r.Want, r.Resource)),
			"the kubelet panics on every Guaranteed pod that asks for "+r.Resource, r.Remedy())
	}
}

// hardware examines the machine for properties that affect pods.
func (x *examination) hardware(n *state.Node, l *v1alpha1.NodeLayout) {
	if len(n.Machine.NUMAs()) > 1 {
		x.hugepages(n)
	}
	if n.Rules.Arbiter == place.ByKubelet {
		for _, r := range n.Machine.Resources() {
			x.locality(n, r)
		}
	}
	if l == nil {
		return
	}
	var gpu []string
	for _, numa := range l.Machine.NUMAs {
		if numa.MemoryKind == string(topo.GPUMemory) && !reserved(n, numa.ID) {
			gpu = append(gpu, fmt.Sprintf("NUMA node %d", numa.ID))
		}
	}
	for _, o := range l.Machine.Oddities {
		if o.Code == "numa-balancing" {
			x.add("numa-balancing", onNode(n.Name, o.Message), "the kernel balances NUMA nodes by itself", "")
			continue
		}
		x.add("firmware", onNode(n.Name, o.Code+": "+o.Message), "firmware or kernel describe the machine oddly", "")
	}
	if len(gpu) > 0 {
		x.add("gpu-memory-numa", onNode(n.Name, gpu...), "memory of GPUs counts as memory of the node, and pods may "+
			"get it", "")
	}
}

// locality examines whether the kubelet can align the devices of a resource. If a plugin names NUMA nodes for some
// devices of the resource, restricted and single-numa-node never count its devices without a NUMA node
// (devicemanager/topology_hints.go).
func (x *examination) locality(n *state.Node, r topo.Resource) {
	// bare counts devices without a NUMA node, and foreign counts devices with a NUMA node that the machine lacks.
	bare, foreign := 0, 0
	for i := range r.Devices {
		if r.Devices[i].NUMAs == 0 {
			bare++
		}
		if r.Devices[i].List.Names() {
			foreign++
		}
	}
	policy := n.Rules.Topology.Policy
	refuses := policy.Refuses()
	count := func(k int) string { return fmt.Sprintf("%d of %d devices", k, len(r.Devices)) }
	effect := "; restricted and single-numa-node would refuse pods that need them"
	if refuses {
		effect = fmt.Sprintf("; %s refuses pods that need them", policy)
	}
	switch {
	case foreign > 0:
		x.add("device-locality", onNode(n.Name, count(foreign)), "the plugin of "+r.Name+
			" names NUMA nodes for devices that the machine lacks"+effect, "")
	case bare == 0:
	case len(n.Machine.NUMAs()) == 1 && !refuses: // there is nothing to align, and no pod is refused
	case r.NUMAs != 0 && refuses:
		x.add("devices-without-locality", onNode(n.Name, count(bare)), "devices of "+r.Name+
			" have no NUMA node, and others have one"+effect, "")
	case len(n.Machine.NUMAs()) > 1:
		x.add("devices-without-locality", onNode(n.Name, count(bare)),
			"devices of "+r.Name+" have no NUMA node: the kubelet does not align them", "")
	}
}

// reserved reports whether the kubelet keeps all memory of a NUMA node for the system.
func reserved(n *state.Node, id int32) bool {
	for i, x := range n.Machine.NUMAs() {
		if int32(x.ID) == id {
			return n.Rules.Memory.Static && n.Usage.Allocatable(i, topo.Memory) == 0
		}
	}
	return false
}

// hugepages examines whether NUMA nodes with CPUs and memory lack a kind of hugepages that other NUMA nodes have.
func (x *examination) hugepages(n *state.Node) {
	for _, kind := range n.Machine.Kinds() {
		if kind == topo.Memory {
			continue
		}
		var with, without []string
		for _, numa := range n.Machine.NUMAs() {
			switch {
			case numa.Capacity(kind) > 0:
				with = append(with, fmt.Sprint(numa.ID))
			case numa.CPUs.Len() > 0 && numa.Bytes > 0: // NUMA nodes without memory cannot have pages
				without = append(without, fmt.Sprint(numa.ID))
			}
		}
		if len(with) > 0 && len(without) > 0 {
			x.add("hugepages-uneven", onNode(n.Name, "on NUMA nodes "+strings.Join(with, ",")+", not on "+
				strings.Join(without, ",")), kind+" are on some NUMA nodes only", "")
		}
	}
}

// reservation compares the memory that the memory manager reserves with the memory that the kubelet keeps from pods.
// A kubelet refuses to start if these differ. So a running kubelet was started with another configuration, or on a
// machine with other amounts.
func (x *examination) reservation(n *state.Node, object *v1.Node) {
	if !n.Rules.Memory.Static {
		return
	}
	kept, known := kube.KeptMemory(object)
	if !known {
		return
	}
	sum := n.Rules.Memory.Reserves(topo.Memory)
	if kept != sum {
		x.add("memory-reservation", onNode(n.Name, "reservedMemory: "+place.Quantity(topo.Memory, sum),
			"kept from pods: "+place.Quantity(topo.Memory, kept)),
			"reservedMemory is not what the kubelet keeps from pods", "")
	}
}

// wholeCores returns the names of the nodes whose kubelets assign whole cores only, by the number of threads per
// core. It leaves out nodes with one thread per core, which have no smaller parts.
func (x *examination) wholeCores() map[int64][]string {
	out := map[int64][]string{}
	for _, n := range x.View.States {
		if n.Quality == state.Exact && n.Rules.CPU.Static && n.Rules.CPU.FullPCPUsOnly {
			if threads := int64(n.Machine.CPUs().Len() / max(1, len(n.Machine.Cores()))); threads > 1 {
				out[threads] = append(out[threads], n.Name)
			}
		}
	}
	for _, names := range out {
		slices.Sort(names)
	}
	return out
}
