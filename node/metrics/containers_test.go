package metrics

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/node/cgroup"
)

// containers are a tree of cgroups and the expected containers.
type containers struct {
	*cgroup.Tree
	running []cgroup.Container
}

func (c containers) Running() []cgroup.Container { return c.running }

func guaranteed(pod, name, id string) cgroup.Container {
	return cgroup.Container{Namespace: "ns", Pod: pod, Name: name, UID: pod, QOS: v1.PodQOSGuaranteed,
		ID: "containerd://" + id}
}

// memory has four containers: one whose memory is partly remote, one that may run anywhere, one without a cgroup and
// one with invalid files.
func memory(t *testing.T) containers {
	t.Helper()
	tree := fstest.MapFS{"cgroup.controllers": {}}
	add := func(pod, id, stat, cpus string) {
		dir := "kubepods/pod" + pod + "/" + id + "/"
		tree[dir+"memory.numa_stat"] = &fstest.MapFile{Data: []byte(stat)}
		tree[dir+"cpuset.cpus.effective"] = &fstest.MapFile{Data: []byte(cpus)}
	}
	add("first", "1", "anon N0=3072 N8=1024\nfile N0=0 N8=0\nkernel_stack N0=16 N8=0\n", "1-3\n")
	add("first", "2", "anon N0=0 N8=5\nfile N0=7 N8=0 N9=1000\n", "0-7\n")
	add("second", "4", "nonsense\n", "0\n")
	tree["kubepods/podfirst/1/cpu.stat"] = &fstest.MapFile{Data: []byte("usage_usec 2500000\n")}
	out := containers{running: []cgroup.Container{guaranteed("first", "a", "1"), guaranteed("first", "b", "2"),
		guaranteed("second", "gone", "3"), guaranteed("second", "odd", "4")}}
	var err error
	if out.Tree, err = cgroup.Open(tree, ""); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestContainersAreBounded(t *testing.T) {
	n := node(t)
	for most, want := range map[int]string{
		0: `{node="node-a",state="omitted"} 4`,
		1: `{node="node-a",state="omitted"} 3`,
		9: `{node="node-a",state="omitted"} 0`,
	} {
		m := made(t, Options{Memory: memory(t), Containers: most})
		m.RecordNode(n, 1)
		got := scrape(t, m)
		if !strings.Contains(got, want) || strings.Contains(got, "tenon_container_") != (most > 0) {
			t.Errorf("with %d containers:\n%s", most, got)
		}
	}
}

// A container that is listed twice, as while a pod is replaced, is sent once.
func TestContainerListedTwice(t *testing.T) {
	c := memory(t)
	c.running = append(c.running, c.running[0])
	m := made(t, Options{Memory: c, Containers: 10})
	m.RecordNode(node(t), 1)
	if got := scrape(t, m); !strings.Contains(got, `state="omitted"} 1`) || !strings.Contains(got, `state="shown"} 2`) {
		t.Errorf("scrape is\n%s", got)
	}
}

// slow is a tree of cgroups; reading each file takes two seconds.
type slow struct{ fs.FS }

func (s slow) Open(name string) (fs.File, error) {
	time.Sleep(2 * time.Second)
	return s.FS.Open(name)
}

// With a slow kernel the scrape omits some containers and keeps its time limit.
func TestReadingIsBoundedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tree := fstest.MapFS{"cgroup.controllers": {}, "kubepods/podp/1/memory.numa_stat": {Data: []byte("anon\nfile\n")}}
		opened, err := cgroup.Open(slow{tree}, "")
		if err != nil {
			t.Fatal(err)
		}
		c := containers{Tree: opened}
		for _, name := range []string{"a", "b", "c"} {
			c.running = append(c.running, guaranteed("p", name, "1"))
		}
		m := made(t, Options{Memory: c, Containers: 10})
		m.RecordNode(node(t), 1)
		if got := scrape(t, m); !strings.Contains(got, `state="shown"} 1`) || !strings.Contains(got, `state="omitted"} 2`) {
			t.Errorf("scrape is\n%s", got)
		}
	})
}
