package metrics

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// descs are the descriptions of the metrics that are computed at a scrape.
type descs struct {
	count, cpus, memory, hugepages, devices, distance *prometheus.Desc
	rules, inexact, sequence, observed, pods, omitted *prometheus.Desc
	podCPUs, podMemory, podDevices                    *prometheus.Desc
	containers, containerMemory, remote, containerCPU *prometheus.Desc
	busy, used, unused                                *prometheus.Desc
	numastat                                          map[string]*prometheus.Desc // by the kernel's name
}

func newDescs() descs {
	d := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	out := descs{
		count: d("numa_node_cpus_count",
			"CPUs of the NUMA node, under the name that dashboards of other NUMA exporters know.", "numa_node"),
		cpus:      d("numa_node_cpus", "CPUs of the NUMA node.", "numa_node", "type"),
		memory:    d("numa_node_memory_bytes", "Memory of the NUMA node; capacity includes hugepages.", "numa_node", "type"),
		hugepages: d("numa_node_hugepages_bytes", "Hugepages of the NUMA node.", "numa_node", "page_size", "type"),
		devices: d("numa_node_devices",
			"Devices near the NUMA node; one near several counts on each, one near none has numa_node none.", "numa_node",
			"resource", "type"),
		distance: d("numa_node_distance", "Distance between two NUMA nodes as the firmware says; 10 is local.", "numa_node",
			"target_numa_node"),
		rules: d("tenon_rules_info", "The kubelet's policies; always 1.",
			"topology_policy", "topology_scope", "cpu_policy", "memory_policy"),
		inexact: d("tenon_agent_inexact",
			"Reasons why predictions for the node may differ from what its kubelet does, by code.", "code"),
		sequence: d("tenon_agent_layout_sequence", "Sequence of the published NodeLayout."),
		observed: d("tenon_agent_last_look_timestamp_seconds", "When the kubelet was last observed, in Unix time."),
		pods:     d("tenon_agent_pods", "Pods that hold CPUs, memory or devices of their own."),
		omitted:  d("tenon_agent_pods_omitted", "Pods that hold something but have no tenon_pod_* metrics."),
		podCPUs:  d("tenon_pod_cpus", "CPUs that the pod holds on the NUMA node.", "namespace", "pod", "numa_node"),
		podMemory: d("tenon_pod_memory_bytes", "Memory and hugepages that the pod holds on the NUMA nodes together.",
			"namespace", "pod", "resource", "numa_nodes"),
		podDevices: d("tenon_pod_devices", "Devices that the pod holds, by the NUMA nodes that they are near.",
			"namespace", "pod", "resource", "numa_nodes"),
		containers: d("tenon_agent_containers", "Running containers, by what came of asking for their memory.", "state"),
		containerMemory: d("tenon_container_memory_numa_bytes",
			"Memory on the NUMA node that the container is charged with, without hugepages.", "namespace", "pod", "container",
			"numa_node", "kind"),
		remote: d("tenon_container_memory_remote_ratio",
			"Share, 0 to 1, of the container's anon and file memory on other NUMA nodes than the CPUs on which it may run.",
			"namespace", "pod", "container"),
		containerCPU: d("tenon_container_cpu_seconds_total",
			"CPU time that the container used, with the NUMA nodes of the CPUs on which it may run.", "namespace", "pod",
			"container", "numa_nodes"),
		busy: d("numa_node_cpu_busy_seconds_total",
			"Time that CPUs of the NUMA node were busy, with the kernel's own and without time stolen by a hypervisor.",
			"numa_node"),
		used: d("numa_node_memory_used_bytes",
			"Memory of the NUMA node that the kernel cannot drop, hugepages included.", "numa_node"),
		unused:   d("numa_node_memory_unused_bytes", "Memory of the NUMA node with nothing in it.", "numa_node"),
		numastat: map[string]*prometheus.Desc{},
	}
	for _, c := range kernelCounters() {
		out.numastat[c.name] = d("numa_node_memory_"+c.name+"_total", c.help, "numa_node")
	}
	return out
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	d := m.descs
	for _, x := range []*prometheus.Desc{d.count, d.cpus, d.memory, d.hugepages, d.devices, d.distance, d.rules, d.inexact,
		d.sequence, d.observed, d.pods, d.omitted, d.podCPUs, d.podMemory, d.podDevices, d.containers, d.containerMemory,
		d.remote, d.containerCPU, d.busy, d.used, d.unused} {
		ch <- x
	}
	for _, c := range kernelCounters() {
		ch <- d.numastat[c.name]
	}
	m.fileErrors.Describe(ch)
	m.cgroupErrors.Describe(ch)
}

// Collect implements prometheus.Collector. It collects nothing before the agent has recorded a node.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	s := m.last.Load()
	if s == nil {
		return
	}
	c := collection{ch: ch, d: m.descs, n: s.node}
	c.gauge(c.d.sequence, float64(s.sequence))
	c.gauge(c.d.observed, float64(s.at.UnixMilli())/1000)
	c.rules()
	c.inexact()
	for i, numa := range c.n.Machine.NUMAs() {
		c.numa(i, numa)
	}
	c.devices()
	c.pods(m.o.Pods)
	if m.o.Sys != nil {
		m.collectNumastat(c)
		m.collectMeminfo(c)
	}
	if m.o.Proc != nil {
		m.collectBusy(c)
	}
	if m.o.Memory != nil {
		m.collectMemory(c)
	}
	m.fileErrors.Collect(ch) // last, so that the counters include the failures of this scrape
	m.cgroupErrors.Collect(ch)
}

// collection is one scrape.
type collection struct {
	ch chan<- prometheus.Metric
	d  descs
	n  *state.Node
}

func (c collection) gauge(d *prometheus.Desc, v float64, labels ...string) {
	c.ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

// states sends an amount once for each type: capacity, allocatable, allocated and free. labels are the values of all
// labels but the last one, which is type.
func (c collection) states(d *prometheus.Desc, capacity, allocatable, free int64, labels ...string) {
	for _, x := range []struct {
		state string
		v     int64
	}{{"capacity", capacity}, {"allocatable", allocatable}, {"allocated", allocatable - free}, {"free", free}} {
		c.gauge(d, float64(x.v), append(labels[:len(labels):len(labels)], x.state)...)
	}
}

func (c collection) rules() {
	r := c.n.Rules
	cpu, memory := "none", "None"
	if r.CPU.Static {
		cpu = "static"
	}
	if r.Memory.Static {
		memory = "Static"
	}
	c.gauge(c.d.rules, 1, r.Topology.Policy.String(), r.Topology.Scope.String(), cpu, memory)
}

// inexact sends how many reasons of each code there are.
func (c collection) inexact() {
	count := map[state.InexactCode]int{}
	for _, why := range c.n.Inexact {
		count[why.Code]++
	}
	for _, code := range slices.Sorted(maps.Keys(count)) {
		c.gauge(c.d.inexact, float64(count[code]), string(code))
	}
}

func id(n idset.NUMA) string { return strconv.Itoa(int(n)) }

// numa sends the CPUs, memory, hugepages and distances of the NUMA node at position i.
func (c collection) numa(i int, numa topo.NUMA) {
	u, name := c.n.Usage, id(numa.ID)
	c.gauge(c.d.count, float64(numa.CPUs.Len()), name)
	c.states(c.d.cpus, int64(numa.CPUs.Len()), int64(numa.CPUs.Minus(c.n.Rules.CPU.Reserved).Len()),
		int64(numa.CPUs.AndLen(u.FreeCPUs())), name)
	c.states(c.d.memory, numa.Bytes, u.Allocatable(i, topo.Memory), u.FreeMemory(i, topo.Memory), name)
	for _, h := range numa.Hugepages {
		kind := h.Kind()
		size := strings.TrimPrefix(kind, "hugepages-")
		c.states(c.d.hugepages, numa.Capacity(kind), u.Allocatable(i, kind), u.FreeMemory(i, kind), name, size)
	}
	for j, distance := range numa.Distances {
		c.gauge(c.d.distance, float64(distance), name, id(c.n.Machine.NUMAs()[j].ID))
	}
}

// devices sends how many devices of each resource are near each NUMA node, and near none. It sends nothing for a NUMA
// node without such devices.
func (c collection) devices() {
	for _, r := range c.n.Machine.Resources() {
		free := c.n.Usage.FreeDevices(r.Name)
		for i, numa := range c.n.Machine.NUMAs() {
			c.near(r, free, id(numa.ID), func(d topo.Device) bool { return d.NUMAs.Has(i) })
		}
		c.near(r, free, "none", func(d topo.Device) bool { return d.NUMAs == 0 })
	}
}

// near sends the devices of a resource for which selects returns true. free are the free devices of the resource, and
// name is the value of the label numa_node.
func (c collection) near(r topo.Resource, free []topo.Device, name string, selects func(topo.Device) bool) {
	var capacity, healthy, unheld int64
	for _, d := range r.Devices {
		if selects(d) {
			capacity++
			if !d.Unhealthy {
				healthy++
			}
		}
	}
	for _, d := range free {
		if selects(d) {
			unheld++
		}
	}
	if capacity > 0 {
		c.states(c.d.devices, capacity, healthy, unheld, name, r.Name)
	}
}
