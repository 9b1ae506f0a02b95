package sysfs

import (
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

func TestParseMask(t *testing.T) {
	for text, want := range map[string]string{
		"0": "", "1": "0", "ff": "0-7", "00000001,80000000": "31-32", "3,00000000,00000000": "64-65",
	} {
		if got, err := parseMask(text); err != nil || got.String() != want {
			t.Errorf("%q is %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", ",", "g", "100000000", "1,", "-1", "0x1", strings.Repeat("0,", 512) + "0"} {
		if got, err := parseMask(text); err == nil {
			t.Errorf("%q is %s", text, got)
		}
	}
}

func TestParseMeminfo(t *testing.T) {
	for text, want := range map[string]int64{
		"Node 0 MemTotal:       16 kB\nNode 0 MemFree: 1 kB": 16 << 10,
		"MemTotal: 0 kB": 0,
		"MemFree: 1 kB\nNode 250 MemTotal: 7 kB\n\x00": 7 << 10,
	} {
		if got, err := parseMeminfo(text); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "MemTotal: 5", "MemTotal: -5 kB", "MemTotal: 99999999999999 kB", "MemTotal: 5 MB"} {
		if got, err := parseMeminfo(text); err == nil {
			t.Errorf("%q: %d", text, got)
		}
	}
}

func TestParseNames(t *testing.T) {
	for name, want := range map[string]bool{
		"0000:00:1f.7": true, "10000:00:04.0": true, "0008:01:00.0": true,
		"0000:00:1f.8": false, "000:00:00.0": false, "0000:00:1f": false, "0000:0:1f.0": false, "0000:00:1g.0": false,
		"":              false,
		"0000:00:00.00": false, "pci0000:00": false,
	} {
		if got := isAddress(name); got != want {
			t.Errorf("isAddress(%q) is %v", name, got)
		}
	}
	for name, want := range map[string]int64{"hugepages-2048kB": 2 << 20, "hugepages-64kB": 64 << 10} {
		if got, err := parseHugepagesName(name); err != nil || got != want {
			t.Errorf("%q: %d, %v", name, got, err)
		}
	}
	for _, name := range []string{"hugepages-0kB", "hugepages-2048", "2048kB", "hugepages--1kB",
		"hugepages-99999999999999999kB"} {
		if got, err := parseHugepagesName(name); err == nil {
			t.Errorf("%q: %d", name, got)
		}
	}
	for text, want := range map[string]idset.NUMA{"Node: 255\nStatus: online": 255, "Node: -1\n": -1} {
		if got, err := parseNumaStatus(text); err != nil || got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}

func FuzzMask(f *testing.F) {
	f.Add("ff,00000001")
	f.Fuzz(func(t *testing.T, s string) {
		if set, err := parseMask(s); err == nil && (set.Max() > idset.Max || set.Len() > 4*len(s)) {
			t.Errorf("%q is %s", s, set)
		}
	})
}

func FuzzMeminfo(f *testing.F) {
	f.Add("Node 0 MemTotal: 16 kB")
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := parseMeminfo(s); err == nil && (n < 0 || n > topo.MaxBytes || n%1024 != 0) {
			t.Errorf("%q: %d", s, n)
		}
	})
}

func FuzzDistance(f *testing.F) {
	f.Add("10 21 21")
	f.Fuzz(func(t *testing.T, s string) {
		row, err := parseDistance(s)
		for _, d := range row {
			if err == nil && (d < 1 || d > topo.MaxDist) {
				t.Errorf("%q: %v", s, row)
			}
		}
	})
}

func FuzzHugepagesName(f *testing.F) {
	f.Add("hugepages-2048kB")
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := parseHugepagesName(s); err == nil && (n <= 0 || n > topo.MaxBytes) {
			t.Errorf("%q: %d", s, n)
		}
	})
}

func FuzzHex(f *testing.F) {
	f.Add("0x030200")
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := parseHex(s, 24); err == nil && n >= 1<<24 {
			t.Errorf("%q: %d", s, n)
		}
	})
}

func FuzzAddress(f *testing.F) {
	f.Add("0000:00:1f.0")
	f.Fuzz(func(t *testing.T, s string) {
		if isAddress(s) && (len(s) < 12 || len(s) > 16 || strings.ContainsAny(s, "/ \n")) {
			t.Errorf("%q is an address", s)
		}
	})
}

func FuzzNumaStatus(f *testing.F) {
	f.Add("Node: 255\nStatus: online")
	f.Fuzz(func(t *testing.T, s string) {
		if id, err := parseNumaStatus(s); err == nil && id != -1 && !idset.Valid(int(id)) {
			t.Errorf("%q: %d", s, id)
		}
	})
}

// The snapshot of any file that makes a machine makes the same machine.
func FuzzRead(f *testing.F) {
	f.Add([]byte("numa 0 cpus 0-3 memory 1Gi\ndistances 10"))
	f.Add([]byte(snapshotTitle + "\n-- sys/devices/system/cpu/online --\n0-1\n" +
		"-- sys/bus/pci/devices/0000:00:00.0 -> x --\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		found, err := Read(data)
		if err != nil || !IsSnapshot(data) {
			return
		}
		fsys, err := ReadSnapshot(strings.NewReader(string(data)))
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := Snapshot(fsys, &b); err != nil {
			return
		}
		again, err := Read([]byte(b.String()))
		if err != nil {
			t.Fatal(err)
		}
		if a, b := found.Machine.Spec(), again.Machine.Spec(); len(a.NUMAs) != len(b.NUMAs) || len(a.Cores) != len(b.Cores) {
			t.Errorf("%+v, and of its snapshot %+v", a, b)
		}
	})
}
