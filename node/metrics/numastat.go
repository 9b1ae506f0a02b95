package metrics

import (
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// counter is one of the kernel's counters of a NUMA node, in pages (mm/vmstat.c, numa_stat_item).
type counter struct{ name, help string }

func kernelCounters() []counter {
	return []counter{
		{"numa_hit", "Pages that the kernel wanted on the NUMA node and got there."},
		{"numa_miss", "Pages that the kernel wanted on another NUMA node and got on this one."},
		{"numa_foreign", "Pages that the kernel wanted on the NUMA node and got on another one."},
		{"interleave_hit", "Pages that an interleaving policy wanted on the NUMA node and got there."},
		{"local_node", "Pages on the NUMA node for a process that ran on its CPUs."},
		{"other_node", "Pages on the NUMA node for a process that ran elsewhere."},
	}
}

// maxNumastat bounds the file in bytes; kernels write some 150.
const maxNumastat = 4096

// collectNumastat sends the kernel's counters of every NUMA node. It omits a NUMA node without readable counters, for
// example if this computer is not the described machine.
func (m *Metrics) collectNumastat(c collection) {
	for _, numa := range c.n.Machine.NUMAs() {
		stat, err := readNumastat(m.o.Sys, id(numa.ID))
		if err != nil {
			m.fileErrors.Inc()
			continue
		}
		for name, d := range c.d.numastat {
			if v, ok := stat[name]; ok {
				c.ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), id(numa.ID))
			}
		}
	}
}

func readNumastat(sys fs.FS, numa string) (map[string]uint64, error) {
	path := "devices/system/node/node" + numa + "/numastat"
	text, err := readText(sys, path, maxNumastat)
	if err != nil {
		return nil, fmt.Errorf("read counters: %w", err)
	}
	out, err := parseNumastat(text)
	if err != nil {
		return nil, fmt.Errorf("counters %s: %w", path, err)
	}
	return out, nil
}

// readText returns the text of a file. A file of more than the given number of bytes is an error.
func readText(root fs.FS, path string, limit int64) (string, error) {
	f, err := root.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if int64(len(data)) > limit {
		return "", fmt.Errorf("%s has more than %d bytes", path, limit)
	}
	return string(data), nil
}

// parseNumastat reads lines of a name and a number, and ignores unknown names.
func parseNumastat(text string) (map[string]uint64, error) {
	if len(text) > maxNumastat {
		return nil, fmt.Errorf("more than %d bytes", maxNumastat)
	}
	out := map[string]uint64{}
	for line := range strings.Lines(text) {
		w := strings.Fields(line)
		if len(w) == 0 {
			continue
		}
		if len(w) != 2 {
			return nil, fmt.Errorf("line %q is not a name and a number", strings.TrimSpace(line))
		}
		if !slices.ContainsFunc(kernelCounters(), func(c counter) bool { return c.name == w[0] }) {
			continue
		}
		n, err := strconv.ParseUint(w[1], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("line %q: %w", strings.TrimSpace(line), err)
		}
		if _, ok := out[w[0]]; ok {
			return nil, fmt.Errorf("%s is there twice", w[0])
		}
		out[w[0]] = n
	}
	return out, nil
}
