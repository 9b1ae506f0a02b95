package metrics

import (
	"errors"
	"io/fs"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/node/cgroup"
)

// Memory lists the containers of the node, and reads where their memory is.
type Memory interface {
	// Running returns the containers that run, oldest first.
	Running() []cgroup.Container
	// Memory reads where the memory of one container is; the error is fs.ErrNotExist if it has no cgroup.
	Memory(cgroup.Container) (cgroup.Memory, error)
}

// maxReading bounds how long a scrape reads cgroups. The kernel sums their counters during the read, which takes long
// with many CPUs; Prometheus' default limit for a whole scrape is 10 s.
const maxReading = 3 * time.Second

// collectMemory sends the memory of the first containers, at most Options.Containers, and how many containers were
// shown, omitted, missing or unreadable. Containers beyond that number or after maxReading are omitted. So is a
// second container of the same name, because two series may not have equal labels.
func (m *Metrics) collectMemory(c collection) {
	type key struct{ namespace, pod, name string }
	sent := map[key]bool{}
	var shown, omitted, missing, unreadable int
	end := time.Now().Add(maxReading)
	for i, x := range m.o.Memory.Running() {
		k := key{valid(x.Namespace), valid(x.Pod), valid(x.Name)}
		if i >= m.o.Containers || sent[k] || time.Now().After(end) {
			omitted++
			continue
		}
		memory, err := m.o.Memory.Memory(x)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			missing++
		case err != nil:
			unreadable++
			m.cgroupErrors.Inc()
		default:
			shown++
			sent[k] = true
			c.memory(memory, k.namespace, k.pod, k.name)
		}
	}
	for state, n := range map[string]int{"shown": shown, "omitted": omitted, "missing": missing,
		"unreadable": unreadable} {
		c.gauge(c.d.containers, float64(n), state)
	}
}

// memory sends one container's memory and CPU time. NUMA nodes that the machine lacks get no series, because their
// number would be unbounded, but their memory counts as remote. The remote share is missing if the container's CPUs
// are unknown.
func (c collection) memory(m cgroup.Memory, labels ...string) {
	for _, numa := range c.n.Machine.NUMAs() {
		a, ok := m.NUMAs[numa.ID]
		if !ok {
			continue
		}
		l := append(labels[:len(labels):len(labels)], id(numa.ID))
		c.gauge(c.d.containerMemory, float64(a.Anon), append(l[:len(l):len(l)], "anon")...)
		c.gauge(c.d.containerMemory, float64(a.File), append(l[:len(l):len(l)], "file")...)
		c.gauge(c.d.containerMemory, float64(a.Kernel), append(l[:len(l):len(l)], "kernel")...)
	}
	if m.CPUTime >= 0 {
		numas := "unknown"
		if mask := c.n.Machine.MaskOfCPUs(m.CPUs); mask != 0 {
			numas = c.list(mask)
		}
		c.ch <- prometheus.MustNewConstMetric(c.d.containerCPU, prometheus.CounterValue, m.CPUTime.Seconds(),
			append(labels[:len(labels):len(labels)], numas)...)
	}
	home := idset.Of(c.n.Machine.IDs(c.n.Machine.MaskOfCPUs(m.CPUs))...)
	if home.Empty() {
		return
	}
	if share, ok := m.Remote(home); ok {
		c.gauge(c.d.remote, share, labels...)
	}
}
