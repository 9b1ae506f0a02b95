package metrics

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenon-numa/tenon/core/idset"
)

// This file measures how much of each NUMA node all processes use.

// Bounds on files of the kernel, in bytes. maxProc leaves room for the line of all interrupts in /proc/stat, which is
// longer than all others.
const (
	maxMeminfo = 16 << 10
	maxProc    = 8 << 20
)

// ticksPerSecond is the unit of times in /proc/stat: USER_HZ, 100 on all architectures that run Kubernetes (time(7)).
const ticksPerSecond = 100

// collectBusy sends how long the CPUs of each NUMA node were busy. It omits a NUMA node if the kernel does not report
// every CPU of it, for example because this computer is not the described machine.
func (m *Metrics) collectBusy(c collection) {
	text, err := readText(m.o.Proc, "stat", maxProc)
	if err == nil {
		var busy map[idset.CPU]uint64
		if busy, err = parseBusy(text); err == nil {
			c.busy(busy)
		}
	}
	if err != nil {
		m.fileErrors.Inc()
	}
}

// busy sends the sums for the NUMA nodes whose CPUs are all known. ticks has the busy time of each CPU.
func (c collection) busy(ticks map[idset.CPU]uint64) {
	for _, numa := range c.n.Machine.NUMAs() {
		var sum uint64
		whole := !numa.CPUs.Empty()
		for cpu := range numa.CPUs.All() {
			n, ok := ticks[cpu]
			sum, whole = sum+n, whole && ok
		}
		if whole {
			c.ch <- prometheus.MustNewConstMetric(c.d.busy, prometheus.CounterValue,
				float64(sum)/ticksPerSecond, id(numa.ID))
		}
	}
}

// parseBusy reads lines such as "cpu0 user nice system idle iowait irq softirq steal guest guest_nice", and returns how
// long each CPU was busy, in ticks. It does not add guest and guest_nice, because user and nice include them, nor idle,
// iowait and steal.
func parseBusy(text string) (map[idset.CPU]uint64, error) {
	out := map[idset.CPU]uint64{}
	for line := range strings.Lines(text) {
		w := strings.Fields(line)
		if len(w) == 0 || !strings.HasPrefix(w[0], "cpu") {
			break // the CPUs come first
		}
		if w[0] == "cpu" {
			continue
		}
		n, err := strconv.Atoi(w[0][len("cpu"):])
		if err != nil || !idset.Valid(n) || len(w) < 8 {
			return nil, fmt.Errorf("line %.40q is not of a CPU", line)
		}
		var sum uint64
		for _, at := range []int{1, 2, 3, 6, 7} {
			v, err := strconv.ParseUint(w[at], 10, 48)
			if err != nil {
				return nil, fmt.Errorf("line %.40q: %w", line, err)
			}
			sum += v
		}
		out[idset.CPU(n)] = sum
	}
	if len(out) == 0 {
		return nil, errors.New("no CPU is there")
	}
	return out, nil
}

// collectMeminfo sends the memory of every NUMA node whose file can be read.
func (m *Metrics) collectMeminfo(c collection) {
	for _, numa := range c.n.Machine.NUMAs() {
		text, err := readText(m.o.Sys, "devices/system/node/node"+id(numa.ID)+"/meminfo", maxMeminfo)
		if err == nil {
			var used, unused uint64
			if used, unused, err = parseMeminfo(text); err == nil {
				c.gauge(c.d.used, float64(used), id(numa.ID))
				c.gauge(c.d.unused, float64(unused), id(numa.ID))
			}
		}
		if err != nil {
			m.fileErrors.Inc()
		}
	}
}

// parseMeminfo reads lines such as "Node 0 MemTotal: 16 kB". It returns, in bytes, the memory that the kernel cannot
// drop, and the free memory. Page cache can be dropped, but not shared memory and tmpfs, which the kernel counts as
// page cache.
func parseMeminfo(text string) (used, unused uint64, err error) {
	kb := map[string]uint64{}
	for line := range strings.Lines(text) {
		w := strings.Fields(line)
		if len(w) != 5 || w[4] != "kB" {
			continue
		}
		n, err := strconv.ParseUint(w[3], 10, 44)
		if err != nil {
			return 0, 0, fmt.Errorf("line %.60q: %w", strings.TrimSpace(line), err)
		}
		kb[strings.TrimSuffix(w[2], ":")] = n
	}
	for _, name := range []string{"MemTotal", "MemFree", "FilePages", "Shmem"} {
		if _, ok := kb[name]; !ok {
			return 0, 0, fmt.Errorf("%s is not there", name)
		}
	}
	dropped := kb["FilePages"] - min(kb["Shmem"], kb["FilePages"]) + kb["SReclaimable"]
	held := kb["MemTotal"] - min(kb["MemFree"]+dropped, kb["MemTotal"])
	return held << 10, kb["MemFree"] << 10, nil
}
