package metrics

import (
	"strings"
	"testing"
	"testing/fstest"
)

const procStat = `cpu  900 0 100 7000 5 0 0 0 0 0
cpu0 100 20 30 1000 500 4 6 70 50 0
cpu1 100 0 0 1000 0 0 0 0 0 0
cpu2 0 0 0 1000 0 0 0 0 0 0
cpu3 40 0 0 1000 0 0 0 0 0 0
cpu4 7 0 0 1000 0 0 0 0 0 0
intr 123456 1 2 3
`

const meminfo = `Node 0 MemTotal:       1000 kB
Node 0 MemFree:         300 kB
Node 0 FilePages:       250 kB
Node 0 Shmem:            50 kB
Node 0 SReclaimable:     20 kB
Node 0 HugePages_Total:     4
`

// A NUMA node with a CPU that is not limitedConn has no busy time, and one without a file no memory.
func TestUseOfNUMANodes(t *testing.T) {
	m := made(t, Options{Sys: fstest.MapFS{"devices/system/node/node0/meminfo": {Data: []byte(meminfo)}},
		Proc: fstest.MapFS{"stat": {Data: []byte(procStat)}}})
	m.RecordNode(node(t), 1)
	got := scrape(t, m)
	for _, want := range []string{
		`numa_node_cpu_busy_seconds_total{node="node-a",numa_node="0"} 3` + "\n",
		`numa_node_memory_used_bytes{node="node-a",numa_node="0"} 491520` + "\n",
		`numa_node_memory_unused_bytes{node="node-a",numa_node="0"} 307200` + "\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the scrape lacks %s", want)
		}
	}
	for _, no := range []string{`busy_seconds_total{node="node-a",numa_node="8"}`, `used_bytes{node="node-a",numa_node="8"}`} {
		if strings.Contains(got, no) {
			t.Errorf("the scrape has %s", no)
		}
	}
}

func TestUseRefuses(t *testing.T) {
	for _, text := range []string{"", "cpu 1 2 3\n", "cpux 1 2 3 4 5 6 7\n", "cpu99999 1 2 3 4 5 6 7\n", "cpu0 1 2 3\n",
		"cpu0 1 2 -3 4 5 6 7\n", "cpu0 1 2 99999999999999999999 4 5 6 7\n"} {
		if got, err := parseBusy(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
	for _, text := range []string{"", "Node 0 MemTotal: 5 kB\n", strings.Replace(meminfo, "300 kB", "many kB", 1)} {
		if used, _, err := parseMeminfo(text); err == nil {
			t.Errorf("%q is %d", text, used)
		}
	}
	if used, _, err := parseMeminfo(strings.Replace(meminfo, "1000 kB", "10 kB", 1)); err != nil || used != 0 {
		t.Errorf("less memory than is free: %d, %v", used, err)
	}
}

// Whatever the kernel's files contain, amounts are no larger than the bounds of their parts allow.
func FuzzUse(f *testing.F) {
	f.Add(procStat)
	f.Add(meminfo)
	f.Fuzz(func(t *testing.T, text string) {
		if busy, err := parseBusy(text); err == nil {
			for cpu, n := range busy {
				if n > 5<<48 {
					t.Errorf("CPU %d was busy for %d ticks", cpu, n)
				}
			}
		}
		if used, unused, err := parseMeminfo(text); err == nil && max(used, unused) > 1<<54 {
			t.Errorf("%d bytes used, %d unused", used, unused)
		}
	})
}
