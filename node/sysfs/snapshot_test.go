package sysfs_test

import (
	"bytes"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tenon-numa/tenon/node/sysfs"
)

func snapshotOf(t interface{ Fatal(...any) }, k fs.FS) fs.FS {
	var b bytes.Buffer
	if err := sysfs.Snapshot(k, &b); err != nil {
		t.Fatal(err)
	}
	snapshot, err := sysfs.ReadSnapshot(&b)
	if err != nil {
		t.Fatal(err)
	}
	return snapshot
}

// A snapshot has nothing that identifies a host or a card, even if the tree has it.
func TestSnapshotIsAnonymous(t *testing.T) {
	k := devices(t)
	secret := "00:1b:21:aa:bb:cc"
	for _, name := range []string{"proc/cpuinfo", "proc/sys/kernel/hostname", "sys/class/dmi/id/product_serial",
		"sys/devices/pci0000:00/0000:00:03.0/0000:05:00.1/net/eth0/address",
		"sys/devices/pci0000:00/0000:00:03.0/0000:05:00.1/vpd",
		"sys/devices/system/node/node0/numastat", "sys/devices/system/cpu/cpu0/topology/ppin", "proc/meminfo"} {
		k.put(name, "%s", secret)
	}
	k["sys/devices/system/node/node0/meminfo"].Data = append(k["sys/devices/system/node/node0/meminfo"].Data, secret...)
	var b bytes.Buffer
	if err := sysfs.Snapshot(k, &b); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), secret) {
		t.Errorf("%q is in the snapshot:\n%s", secret, b.String())
	}
}

// A machine that cannot be made can still be reported.
func TestSnapshotOfNoMachine(t *testing.T) {
	k := kernel{}
	k.put(cpuDir+"/online", "")
	var b bytes.Buffer
	if err := sysfs.Snapshot(k, &b); err != nil {
		t.Fatal(err)
	}
	if want := "error: machine in /sys: no CPU is online"; !strings.Contains(b.String(), want) {
		t.Errorf("%q is not in\n%s", want, b.String())
	}
	if _, err := sysfs.Read(b.Bytes()); err == nil || !strings.Contains(err.Error(), "no CPU is online") {
		t.Errorf("its snapshot gives %v", err)
	}
}

func TestSnapshotIsAFileSystem(t *testing.T) {
	k := devices(t)
	k.put("sys/bus/pci/devices/0000:00:07.0/class", "0x060000")
	s := snapshotOf(t, k)
	for _, name := range []string{"sys/devices/system/cpu/online", "sys/bus/pci/devices/0000:00:07.0/class"} {
		if data, err := fs.ReadFile(s, name); err != nil || len(data) == 0 {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
	if to, err := fs.ReadLink(s, "sys/bus/pci/devices/0000:00:06.0"); err != nil ||
		to != "../../../devices/pci0000:00/0000:00:06.0" {
		t.Errorf("link leads to %q, %v", to, err)
	}
	// fstest requires every link to have a target, and in a snapshot those to drivers have none.
	sub, err := fs.Sub(s, "sys/devices/system")
	if err != nil {
		t.Fatal(err)
	}
	if err := fstest.TestFS(sub, "cpu/online", "cpu/cpu0/topology/core_cpus_list", "node/node1/distance"); err != nil {
		t.Error(err)
	}
}

func TestReadRefuses(t *testing.T) {
	const title = "tenon machine snapshot, version 1\n"
	for text, want := range map[string]string{
		"numa x":                               "line 1",
		"tenon machine snapshot, version 2\n":  "line 1",
		"":                                     "no NUMA node",
		title:                                  "no CPU is online",
		title + "-- ../x --\n":                 `"../x" is not a path`,
		title + "-- /sys/x --\n":               `"/sys/x" is not a path`,
		title + "-- sys/x --\n-- sys/x --\n":   "sys/x: both a file and a directory, or named twice",
		title + "-- sys/x --\n-- sys/x/y --\n": "sys/x: both",
		title + "-- " + strings.Repeat("a/", 999):             "no CPU is online", // not a header: it has no end
		title + "-- " + strings.Repeat("a/", 999) + "a --\n":  "is not a path",
		title + "-- sys/devices/system/cpu/online --\n0-5000": "5001 CPUs are online, the most is 4096",
	} {
		if _, err := sysfs.Read([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text[:min(len(text), 80)], err, want)
		}
	}
	var many strings.Builder
	many.WriteString(title + "-- sys/devices/system/cpu/online --\n0\n")
	for i := range 65 {
		fmt.Fprintf(&many, "-- sys/devices/system/node/node%d/cpulist --\n%d\n", i, i)
	}
	if _, err := sysfs.Read([]byte(many.String())); err == nil ||
		!strings.Contains(err.Error(), "65 NUMA nodes, the most is 64") {
		t.Errorf("65 NUMA nodes: %v", err)
	}
}

// The caller's tree decides what is read: only Host uses the operating system.
func TestOnlyHostImportsOS(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			if i.Path.Value == `"os"` && name != "host.go" && !strings.HasSuffix(name, "_test.go") {
				t.Errorf("%s imports os", name)
			}
		}
	}
}

// Many warnings of one kind hide no other kind, and all are counted.
func TestNoKindOfWarningIsHidden(t *testing.T) {
	k := show(machine(t, "numa 0 socket 0 cpus 0-199 memory 1Gi\ndistances 10"))
	delete(k, cpuDir+"/online")
	for id := range 199 {
		k.put(fmt.Sprintf("%s/cpu%d/online", cpuDir, id+1), "")
		k.put(fmt.Sprintf("%s/cpu%d/topology/core_cpus_list", cpuDir, id), "%d", id+1)
	}
	k.put(nodeDir+"/node0/hugepages/hugepages-2048kB/nr_hugepages", "many")
	found, err := sysfs.Discover(k)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, w := range found.Warnings {
		all = append(all, w.String())
	}
	text := strings.Join(all, "\n")
	for _, want := range []string{
		`malformed: /sys/devices/system/cpu/cpu1/online: "" is not a number`,
		`(and 195 more like this)`, // cpu5 to cpu199
		`siblings: /sys/devices/system/cpu/cpu0/topology/core_cpus_list`,
		`malformed: /sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages: "many" is not a number`,
		"kubelet-blind: ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if len(all) > 30 {
		t.Errorf("%d warnings:\n%s", len(all), text)
	}
}
