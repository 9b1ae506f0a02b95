package guest

import (
	"strings"
	"testing"
	"testing/fstest"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/node/cgroup"
)

// fill makes two containers as a kubelet with the driver cgroupfs does, both on the CPUs of NUMA node 1, one with the
// memory of NUMA node 0 and one with that of NUMA node 1. Each has 32 MiB in a process and 16 MiB in tmpfs while its
// files are read: dd keeps its buffer until a reader comes.
const fill = `
set -e
mkdir /tree /files
mount -t cgroup2 none /tree
mount -t tmpfs none /files
mkdir -p /tree/kubepods/podu
for d in /tree /tree/kubepods /tree/kubepods/podu; do echo "+cpuset +memory" > $d/cgroup.subtree_control; done
for numa in 0 1; do
	c=/tree/kubepods/podu/c$numa
	mkdir $c
	echo 2-3 > $c/cpuset.cpus
	echo $numa > $c/cpuset.mems
	sh -c "echo \$\$ > $c/cgroup.procs; dd if=/dev/zero of=/files/$numa bs=1M count=16 2>/dev/null; exec dd if=/dev/zero bs=32M count=1 2>/dev/null" | {
		head -c 1 >/dev/null
		cat $c/memory.numa_stat; echo END
		cat $c/cpuset.cpus.effective; echo END
	}
done
ls /tree/cgroup.controllers
`

// A real kernel's counters show where the memory of a container is.
func TestMemoryOfContainers(t *testing.T) {
	g := booted(t, Config{Arch: "amd64", Args: []string{"-machine", "q35", "-cpu", "max", "-smp", "4", "-m", "512",
		"-object", "memory-backend-ram,id=m0,size=256M", "-numa", "node,nodeid=0,cpus=0-1,memdev=m0",
		"-object", "memory-backend-ram,id=m1,size=256M", "-numa", "node,nodeid=1,cpus=2-3,memdev=m1"}})
	files := strings.Split(run(t, g, fill), "END\n")
	if len(files) != 5 {
		t.Fatalf("the guest says %q", files)
	}
	tree, err := cgroup.Open(fstest.MapFS{"cgroup.controllers": {},
		"kubepods/podu/c0/memory.numa_stat": {Data: []byte(files[0])}, "kubepods/podu/c0/cpuset.cpus.effective": {
			Data: []byte(files[1])},
		"kubepods/podu/c1/memory.numa_stat": {Data: []byte(files[2])}, "kubepods/podu/c1/cpuset.cpus.effective": {
			Data: []byte(files[3])},
	}, "")
	if err != nil {
		t.Fatal(err)
	}
	for i, id := range []string{"c0", "c1"} {
		m, err := tree.Memory(cgroup.Container{UID: "u", QOS: v1.PodQOSGuaranteed, ID: "containerd://" + id})
		if err != nil {
			t.Fatalf("%v in\n%s", err, files[2*i])
		}
		a := m.NUMAs[idset.NUMA(i)]
		if m.CPUs.String() != "2-3" || a.Anon < 32<<20 || a.Anon > 40<<20 || a.File < 16<<20 || a.File > 24<<20 ||
			a.Kernel <= 0 {
			t.Errorf("%s has %+v on NUMA node %d, and CPUs %s", id, a, i, m.CPUs)
		}
		// Pages of programs that were in memory before are charged to their first reader.
		share, ok := m.Remote(idset.Of[idset.NUMA](1))
		if want := 1 - i; !ok || share < float64(want)-.05 || share > float64(want)+.05 {
			t.Errorf("%s: %v, %v of the memory is remote, want about %d", id, share, ok, want)
		}
	}
}
