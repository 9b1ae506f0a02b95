package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// holding identifies one series of a pod.
type holding struct {
	desc     *prometheus.Desc
	pod      state.PodID // without UID: a pod shares the series with an ending pod of its name
	resource string
	numas    string
}

// pods sends the holdings of the first pods, up to the given number, in the order in which they were first seen. It
// also sends how many pods hold something, and how many of these it omits.
func (c collection) pods(limit int) {
	shown := c.n.Entries[:min(limit, len(c.n.Entries))]
	c.gauge(c.d.pods, float64(len(c.n.Entries)))
	c.gauge(c.d.omitted, float64(len(c.n.Entries)-len(shown)))
	sum := map[holding]float64{}
	for _, e := range shown {
		c.add(sum, e)
	}
	for h, v := range sum {
		labels := []string{valid(h.pod.Namespace), valid(h.pod.Name), h.resource, h.numas}
		if h.desc == c.d.podCPUs {
			labels = append(labels[:2], h.numas)
		}
		c.gauge(h.desc, v, labels...)
	}
}

// add adds what a pod's containers hold to the sums of its series. Memory blocks of zero bytes make no series.
func (c collection) add(sum map[holding]float64, e state.Entry) {
	pod := state.PodID{Namespace: e.Pod.Namespace, Name: e.Pod.Name}
	for _, h := range e.Holdings {
		for _, numa := range c.n.Machine.NUMAs() {
			if count := numa.CPUs.AndLen(h.CPUs); count > 0 {
				sum[holding{c.d.podCPUs, pod, "", id(numa.ID)}] += float64(count)
			}
		}
		for _, b := range h.Memory {
			if b.Bytes > 0 {
				sum[holding{c.d.podMemory, pod, b.Kind, c.list(b.NUMAs)}] += float64(b.Bytes)
			}
		}
		for _, d := range h.Devices {
			sum[holding{c.d.podDevices, pod, d.Resource, c.list(d.NUMAs)}] += float64(len(d.IDs))
		}
	}
}

// list returns the NUMA nodes of a mask in the Linux list format, or "none" if there are none.
func (c collection) list(mask topo.Mask) string {
	if mask == 0 {
		return "none"
	}
	return idset.Of(c.n.Machine.IDs(mask)...).String()
}

// valid replaces bytes that are not UTF-8, which a label cannot have.
func valid(s string) string { return strings.ToValidUTF8(s, "?") }
