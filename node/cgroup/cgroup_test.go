package cgroup

import (
	"errors"
	"io/fs"
	"maps"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/tools/txtar"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/idset"
)

// fixture returns the tree of a file in testdata.
func fixture(t *testing.T, name string) fs.FS {
	t.Helper()
	a, err := txtar.ParseFile("testdata/" + name + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	out, err := txtar.FS(a)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func open(t *testing.T, name, kubeletRoot string) *Tree {
	t.Helper()
	out, err := Open(fixture(t, name), kubeletRoot)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

const (
	guaranteed = "0a1b2c3d-0000-4000-8000-000000000001"
	burstable  = "0a1b2c3d-0000-4000-8000-000000000002"
	bestEffort = "0a1b2c3d-0000-4000-8000-000000000003"
	static     = "d41d8cd98f00b204e9800998ecf8427e"
)

// Every container has the same memory, whatever the driver and the runtime.
func TestMemoryOfBothDrivers(t *testing.T) {
	for _, driver := range []string{"systemd", "cgroupfs"} {
		tree := open(t, driver, "/")
		for _, c := range []struct {
			c    Container
			cpus string
			want map[idset.NUMA]Amount
		}{
			{Container{UID: guaranteed, QOS: v1.PodQOSGuaranteed, ID: "containerd://aaaa1111"}, "1-3",
				map[idset.NUMA]Amount{0: {Anon: 3000, Kernel: 5596}, 8: {Anon: 1000, Kernel: 24}}},
			{Container{UID: burstable, QOS: v1.PodQOSBurstable, ID: "cri-o://bbbb2222"}, "0,4-7",
				map[idset.NUMA]Amount{0: {Anon: 10, File: 20, Kernel: 21980}, 8: {Anon: 30, File: 40, Kernel: 24}}},
			{Container{UID: bestEffort, QOS: v1.PodQOSBestEffort, ID: "docker://cccc3333"}, "",
				map[idset.NUMA]Amount{0: {Kernel: 5596}, 8: {Kernel: 24}}},
			{Container{UID: static, QOS: v1.PodQOSBurstable, ID: "containerd://dddd4444"}, "0-7",
				map[idset.NUMA]Amount{0: {Anon: 2048, File: 4096, Kernel: 5596}, 8: {Anon: 2048, Kernel: 24}}},
		} {
			got, err := tree.Memory(c.c)
			if err != nil {
				t.Errorf("%s: %s: %v", driver, c.c.ID, err)
				continue
			}
			if got.CPUs.String() != c.cpus || !maps.Equal(got.NUMAs, c.want) {
				t.Errorf("%s: %s is on CPUs %q with %v, want %q with %v", driver, c.c.ID, got.CPUs, got.NUMAs, c.cpus, c.want)
			}
		}
	}
}

func TestMemoryUnderAnotherRoot(t *testing.T) {
	c := Container{UID: guaranteed, QOS: v1.PodQOSGuaranteed, ID: "containerd://aaaa1111"}
	if _, err := open(t, "kind", "/kubelet").Memory(c); err != nil {
		t.Error(err)
	}
	if _, err := open(t, "kind", "/").Memory(c); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without the root: error %v", err)
	}
}

func TestRemote(t *testing.T) {
	home := idset.Of[idset.NUMA]
	m := Memory{NUMAs: map[idset.NUMA]Amount{0: {Anon: 2, File: 4, Kernel: 100}, 8: {Anon: 2}}}
	for _, c := range []struct {
		home idset.Set[idset.NUMA]
		want float64
	}{{home(0), .25}, {home(8), .75}, {home(0, 8), 0}, {home(1), 1}} {
		if got, ok := m.Remote(c.home); !ok || got != c.want {
			t.Errorf("remote of %s is %v, %v, want %v", c.home, got, ok, c.want)
		}
	}
	if got, ok := (Memory{NUMAs: map[idset.NUMA]Amount{0: {Kernel: 1}}}).Remote(home(8)); ok {
		t.Errorf("no memory is remote by %v", got)
	}
}

func TestOpenRefuses(t *testing.T) {
	if _, err := Open(fixture(t, "v1"), "/"); !errors.Is(err, ErrVersion) {
		t.Errorf("cgroup v1: error %v", err)
	}
	for _, root := range []string{"/..", "/a b", "/x/../y", strings.Repeat("/x", maxParents+1), "/" +
		strings.Repeat("x", maxName+1)} {
		if _, err := Open(fixture(t, "systemd"), root); err == nil || !strings.Contains(err.Error(), "kubelet's root") {
			t.Errorf("root %.20q: error %v", root, err)
		}
	}
}

func TestMemoryRefuses(t *testing.T) {
	tree := open(t, "systemd", "")
	good := Container{Namespace: "ns", Pod: "p", Name: "c", UID: guaranteed, QOS: v1.PodQOSGuaranteed,
		ID: "containerd://aaaa1111"}
	for _, c := range []struct {
		change func(*Container)
		want   string
	}{
		{func(c *Container) { c.UID = "../x" }, "UID of the pod"},
		{func(c *Container) { c.UID = "" }, "UID of the pod"},
		{func(c *Container) { c.ID = "aaaa1111" }, "does not name a runtime"},
		{func(c *Container) { c.ID = "containerd://../../x" }, "ID of the container"},
		{func(c *Container) { c.ID = "containerd://" + strings.Repeat("a", 300) }, "ID of the container"},
		{func(c *Container) { c.ID = "new://aaaa1111" }, `runtime "new"`},
		{func(c *Container) { c.QOS = "Best" }, `QoS class "Best"`},
		{func(c *Container) { c.ID = "containerd://eeee" }, "file does not exist"},
		{func(c *Container) { c.ID = "containerd://ffff0000" }, `anon: "N0=some": the bytes`},
	} {
		bad := good
		c.change(&bad)
		if _, err := tree.Memory(bad); err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), "ns/p/c") {
			t.Errorf("%+v: error %v does not say %q and the container", bad, err, c.want)
		}
	}
	dir := "kubepods.slice/kubepods-podu.slice/cri-containerd-a.scope/"
	huge, err := Open(fstest.MapFS{"cgroup.controllers": {}, dir + "memory.numa_stat": {Data: make([]byte, maxStat+1)}},
		"")
	if err != nil {
		t.Fatal(err)
	}
	good.UID, good.ID = "u", "containerd://a"
	if _, err := huge.Memory(good); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("a huge file: error %v", err)
	}
}

func TestRunning(t *testing.T) {
	at := func(s int64) *metav1.Time { return &metav1.Time{Time: time.Unix(s, 0)} }
	status := func(name, id string) v1.ContainerStatus { return v1.ContainerStatus{Name: name, ContainerID: id} }
	young := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "young", UID: "y",
		Annotations: map[string]string{"kubernetes.io/config.hash": "hash"}}, Status: v1.PodStatus{
		StartTime: at(9), QOSClass: v1.PodQOSBurstable, ContainerStatuses: []v1.ContainerStatus{
			status("c", "containerd://3")}}}
	controls := true
	node := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "n", Controller: &controls}
	old := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "old", UID: "mirror",
		Annotations:     map[string]string{"kubernetes.io/config.mirror": "hash"},
		OwnerReferences: []metav1.OwnerReference{node}},
		Spec: v1.PodSpec{NodeName: "n"},
		Status: v1.PodStatus{StartTime: at(1), QOSClass: v1.PodQOSGuaranteed,
			InitContainerStatuses: []v1.ContainerStatus{status("sidecar", "containerd://1")},
			ContainerStatuses:     []v1.ContainerStatus{status("app", "containerd://2"), status("waits", "")}}}
	var got []string
	for _, c := range Running([]*v1.Pod{young, old}) {
		got = append(got, strings.Join([]string{c.String(), c.UID, string(c.QOS), c.ID}, " "))
	}
	want := "b/old/sidecar hash Guaranteed containerd://1, b/old/app hash Guaranteed containerd://2, a/young/c y " +
		"Burstable containerd://3"
	if s := strings.Join(got, ", "); s != want {
		t.Errorf("running are %s, want %s", s, want)
	}
}

func TestStat(t *testing.T) {
	for _, c := range []struct{ text, err string }{
		{"anon N0=1\nfile N0=2\nsomething_new N0=x yes\n", ""},
		{"anon\nfile\n", ""},
		{"anon N0=4503599627370496\nfile N0=0", ""},
		{"", "not both there"},
		{"total=12 N0=12\nfile=3 N0=3\nanon=9 N0=9\n", "not both there"},
		{"anon N0=1", "not both there"},
		{"anon N0=1\nanon N0=1\nfile N0=1", "anon is there twice"},
		{"anon N0=1 N0=1\nfile N0=1", "N0 is there twice"},
		{"anon N0=-1\nfile N0=1", "bytes are not a number"},
		{"anon N0=4503599627370497\nfile N0=1", "bytes are not a number"},
		{"anon N99999=1\nfile N0=1", "not a NUMA node"},
		{"anon N-1=1\nfile N0=1", "not a NUMA node"},
		{"anon 0=1\nfile N0=1", "not a NUMA node"},
		{"anon N0\nfile N0=1", "not a NUMA node"},
	} {
		_, err := parseStat(c.text)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q: error %v, want %q", c.text, err, c.err)
		}
	}
}

func TestCPUTime(t *testing.T) {
	for _, c := range []struct {
		text string
		want time.Duration
		err  bool
	}{
		{"usage_usec 1500000\nuser_usec 1000000\nsystem_usec 500000\n", 1500 * time.Millisecond, false},
		{"user_usec 7\n", -1, false},
		{"usage_usec many\n", 0, true},
		{"usage_usec -1\n", 0, true},
		{"usage_usec 9223372036854775807\n", 0, true},
	} {
		if got, err := parseTimes(c.text); got != c.want || (err != nil) != c.err {
			t.Errorf("%q is %s, error %v", c.text, got, err)
		}
	}
	dir := "kubepods.slice/kubepods-podu.slice/cri-containerd-a.scope/"
	tree, err := Open(fstest.MapFS{"cgroup.controllers": {},
		dir + "memory.numa_stat": {Data: []byte("anon N0=1\nfile N0=1\n")},
		dir + "cpu.stat":         {Data: []byte("usage_usec 2000000\n")}}, "")
	if err != nil {
		t.Fatal(err)
	}
	got, err := tree.Memory(Container{UID: "u", QOS: v1.PodQOSGuaranteed, ID: "containerd://a"})
	if err != nil || got.CPUTime != 2*time.Second {
		t.Errorf("a container used %s, error %v", got.CPUTime, err)
	}
}

// Whatever the text, an amount is a number of bytes and the share is one.
func FuzzStat(f *testing.F) {
	f.Add("anon N0=4096 N8=0\nfile N0=1 N8=2\nkernel_stack N0=3\n")
	f.Add("anon N0=4503599627370496\nfile N0=4503599627370496")
	f.Fuzz(func(t *testing.T, text string) {
		numas, err := parseStat(text)
		if err != nil {
			return
		}
		for numa, a := range numas {
			if !idset.Valid(int(numa)) || min(a.Anon, a.File, a.Kernel) < 0 {
				t.Errorf("NUMA node %d has %+v", numa, a)
			}
		}
		if share, _ := (Memory{NUMAs: numas}).Remote(idset.Of[idset.NUMA](0)); share < 0 || share > 1 {
			t.Errorf("a share of %v is remote", share)
		}
	})
}

// No name leads out of the tree.
func TestPathsStayInTheTree(t *testing.T) {
	tree := open(t, "systemd", "/kube-let/x")
	rapid.Check(t, func(r *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("ab-_./\x00é")))
		c := Container{UID: text.Draw(r, "UID"), QOS: v1.PodQOSBurstable,
			ID: rapid.SampledFrom([]string{"containerd://", "cri-o://", "docker://", ""}).Draw(r, "runtime") + text.Draw(r,
				"ID")}
		paths, err := tree.paths(c)
		if err != nil {
			return
		}
		for _, p := range paths {
			if !fs.ValidPath(p) || !strings.Contains(p, "kube") {
				r.Errorf("%+v is at %q", c, p)
			}
		}
	})
}
