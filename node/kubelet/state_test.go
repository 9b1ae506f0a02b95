package kubelet

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/idset"
)

const (
	cpuV1   = `{"policyName":"static","defaultCpuSet":"0-1,8-9","entries":{"9fd1c0":"2,10"},"checksum":1}`
	cpuV2   = `{"policyName":"static","defaultCpuSet":"0-1,8-9","entries":{"uid-a":{"main":"2,10","init":"2-3,10-11"}},"checksum":2}`
	cpuV3   = `{"policyName":"static","defaultCpuSet":"0-1,8-9","entries":{"uid-a":{"main":"2,10"}},"podEntries":{"uid-p":{"cpuSet":"4-5"}},"checksum":3}`
	memory  = `{"policyName":"Static","machineState":{"0":{"numberOfAssignments":2,"memoryMap":{"memory":{"total":16,"systemReserved":1,"allocatable":15,"reserved":3,"free":12}},"cells":[0,1]},"1":{"numberOfAssignments":1,"memoryMap":{},"cells":[1]}},"entries":{"uid-a":{"main":[{"numaAffinity":[0,1],"type":"memory","size":3072},{"numaAffinity":[0],"type":"hugepages-1Gi","size":0}]}},"podEntries":{"uid-p":{"memoryBlocks":[{"numaAffinity":[1],"type":"memory","size":7}]}},"checksum":4}`
	devices = `{"Data":{"PodDeviceEntries":[{"PodUID":"uid-a","ContainerName":"init","ResourceName":"x.io/gpu","DeviceIDs":{"1":["g1","g2"],"0":["g1"]},"AllocResp":"AAEC"},{"PodUID":"uid-a","ContainerName":"main","ResourceName":"x.io/any","DeviceIDs":{"-1":["a"]},"AllocResp":null}],"RegisteredDevices":{"x.io/gpu":["g1","g2"]}},"Checksum":5}`
)

func TestCPUStateOfEveryVersion(t *testing.T) {
	for _, c := range []struct{ text, pod, whole, legacy string }{
		{cpuV1, "", "", "2,10"}, {cpuV2, "2,10", "", ""}, {cpuV3, "2,10", "4-5", ""},
	} {
		s, err := ParseCPUState([]byte(c.text))
		if err != nil {
			t.Fatal(err)
		}
		if s.Policy != "static" || s.Shared.String() != "0-1,8-9" || s.Containers["uid-a"]["main"].String() != c.pod ||
			s.Pods["uid-p"].String() != c.whole || s.ByContainerID["9fd1c0"].String() != c.legacy {
			t.Errorf("%s is read as %+v", c.text, s)
		}
	}
}

// wrapped is a file as 1.37 writes it: all in one text, beside the parts that older kubelets know.
func wrapped(t *testing.T, old, all string) []byte {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal([]byte(old), &out); err != nil {
		t.Fatal(err)
	}
	delete(out, "podEntries")
	out["data"], out["dataChecksum"] = all, 7
	text, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestStateOf137(t *testing.T) {
	c, err := ParseCPUState(wrapped(t, cpuV2, cpuV3))
	if err != nil || c.Pods["uid-p"].String() != "4-5" || c.Containers["uid-a"]["main"].String() != "2,10" {
		t.Errorf("CPU manager: read as %+v, %v", c, err)
	}
	m, err := ParseMemoryState(wrapped(t, memory, memory))
	if want, _ := ParseMemoryState([]byte(memory)); err != nil || !reflect.DeepEqual(m, want) {
		t.Errorf("memory manager: read as %+v, %v", m, err)
	}
	if _, err := ParseCPUState([]byte(`{"data":"{"}`)); err == nil {
		t.Error("a damaged text is read")
	}
}

// The memory manager writes what is left of a pod's memory for containers that share, and that may have wrapped.
func TestPartsOfAPodsMemoryAreNotRead(t *testing.T) {
	s, err := ParseMemoryState([]byte(`{"entries":{"u":{"c":[{"numaAffinity":[0],"type":"hugepages-2Mi",` +
		`"size":18446744073172680704}]}},"podEntries":{"u":{"memoryBlocks":[{"numaAffinity":[0],"type":"memory","size":9}]}}}`))
	if err != nil || len(s.Pods["u"]) != 1 || len(s.Containers["u"]) != 0 {
		t.Errorf("read as %+v, %v", s, err)
	}
}

func TestMemoryState(t *testing.T) {
	s, err := ParseMemoryState([]byte(memory))
	if err != nil {
		t.Fatal(err)
	}
	numas := idset.Of[idset.NUMA]
	want := &MemoryState{Policy: "Static",
		Cells:    map[idset.NUMA]idset.Set[idset.NUMA]{0: numas(0, 1), 1: numas(1)},
		Reserved: map[string]uint64{"memory": 3},
		Free:     map[idset.NUMA]map[string]uint64{0: {"memory": 12}, 1: {}},
		Used:     map[idset.NUMA]map[string]uint64{0: {"memory": 3}, 1: {}},
		Containers: map[string]map[string][]MemoryBlock{"uid-a": {"main": {
			{Kind: "memory", NUMAs: numas(0, 1), Bytes: 3072}, {Kind: "hugepages-1Gi", NUMAs: numas(0)}}}},
		Pods: map[string][]MemoryBlock{"uid-p": {{Kind: "memory", NUMAs: numas(1), Bytes: 7}}}}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("read as %+v", s)
	}
}

func TestDeviceState(t *testing.T) {
	s, err := ParseDeviceState([]byte(devices))
	if err != nil {
		t.Fatal(err)
	}
	numas := idset.Of[idset.NUMA]
	want := map[string]map[string][]Device{"uid-a": {
		"init": {{Resource: "x.io/gpu", ID: "g1", NUMAs: numas(0, 1)}, {Resource: "x.io/gpu", ID: "g2", NUMAs: numas(1)}},
		"main": {{Resource: "x.io/any", ID: "a"}}}}
	if !reflect.DeepEqual(s.Containers, want) {
		t.Errorf("read as %+v", s.Containers)
	}
}

func TestBadStateNamesTheFile(t *testing.T) {
	cpu := func(b []byte) error { _, err := ParseCPUState(b); return err }
	mem := func(b []byte) error { _, err := ParseMemoryState(b); return err }
	dev := func(b []byte) error { _, err := ParseDeviceState(b); return err }
	for _, c := range []struct {
		parse      func([]byte) error
		text, want string
	}{
		{cpu, `{`, CPUStateFile},
		{cpu, `{"defaultCpuSet":"x"}`, "defaultCpuSet"},
		{cpu, `{"entries":{"u":{"c":"1-99999"}}}`, "99999"},
		{cpu, `{"entries":{"u":7}}`, CPUStateFile},
		{cpu, `{"podEntries":{"u":{"cpuSet":"-"}}}`, "podEntries"},
		{mem, `[]`, MemoryStateFile},
		{mem, `{"machineState":{"x":{}}}`, "machineState"},
		{mem, `{"machineState":{"0":null}}`, "machineState"},
		{mem, `{"machineState":{"0":{"cells":[-1]}}}`, "cells"},
		{mem, `{"entries":{"u":{"c":[{"type":"cpu"}]}}}`, "cpu"},
		{mem, `{"entries":{"u":{"c":[{"type":"memory","size":18446744073709551615}]}}}`, "18446744073709551615"},
		{mem, `{"entries":{"u":{"c":[{"type":"memory","numaAffinity":[70000]}]}}}`, "70000"},
		{dev, `{"Data":{"PodDeviceEntries":[{"DeviceIDs":{"x":["a"]}}]}}`, DeviceStateFile},
		{dev, `{"Data":{"RegisteredDevices":{"r":"a"}}}`, DeviceStateFile},
		{dev, `{"Data":{"PodDeviceEntries":[{"DeviceIDs":["a"]}]}}`, DeviceStateFile},
	} {
		if err := c.parse([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v does not say %q", c.text, err, c.want)
		}
	}
}

func FuzzParseState(f *testing.F) {
	for _, s := range []string{cpuV1, cpuV2, cpuV3, memory, devices} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		// None may panic, and accepted files have no name or number out of bounds.
		_, _ = ParseCPUState(data)
		if s, err := ParseMemoryState(data); err == nil {
			for _, byName := range s.Containers {
				for _, blocks := range byName {
					for _, b := range blocks {
						if b.Bytes < 0 || b.Bytes > maxBytes {
							t.Fatalf("block %+v", b)
						}
					}
				}
			}
		}
		if s, err := ParseDeviceState(data); err == nil {
			for _, byName := range s.Containers {
				for _, devs := range byName {
					for _, d := range devs {
						if d.ID == "" || d.Resource == "" {
							t.Fatalf("device %+v", d)
						}
					}
				}
			}
		}
	})
}
