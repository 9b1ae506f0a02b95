package sim

import (
	"maps"
	"slices"
	"strings"
)

// Demo is the name of the trace that is small enough for real kubelets too.
const Demo = "demo"

// Names returns the names of the built-in traces.
func Names() []string { return slices.Sorted(maps.Keys(texts())) }

// Text returns the text form of a built-in trace.
func Text(name string) (string, bool) {
	text, ok := texts()[name]
	return strings.TrimPrefix(text, "\n"), ok
}

func texts() map[string]string {
	return map[string]string{"telco": telco, "gpu": gpu, "alibaba": alibaba, Demo: demo}
}

// telco is made up. It has what network functions commonly request: packet processing on whole cores with hugepages and
// virtual functions of network cards, and ordinary services beside it. Half of the machines have two NUMA nodes with a
// card each; the others have four, with one card per two NUMA nodes. So every pod without a virtual function may take
// the place of one that needs it.
const telco = `
source made up: DPDK pods with whole cores, hugepages and SR-IOV functions, and services beside them
machines two-numas 400
numa 0 socket 0 cpus 0-27/56-83 memory 256Gi hugepages-1Gi 64
numa 1 socket 1 cpus 28-55/84-111 memory 256Gi hugepages-1Gi 64
distances 10 21
distances 21 10
device example.com/vf a0,a1,a2,a3,a4,a5,a6,a7,a8,a9,aa,ab,ac,ad,ae,af numa 0
device example.com/vf b0,b1,b2,b3,b4,b5,b6,b7,b8,b9,ba,bb,bc,bd,be,bf numa 1
rules topology=single-numa-node scope=pod cpu=static reserved=0,56,28,84 options=full-pcpus-only memory=Static reserve=0:memory:4Gi,1:memory:4Gi
machines four-numas 400
numa 0 socket 0 cpus 0-15/64-79 memory 128Gi hugepages-1Gi 48
numa 1 socket 0 cpus 16-31/80-95 memory 128Gi hugepages-1Gi 16
numa 2 socket 1 cpus 32-47/96-111 memory 128Gi hugepages-1Gi 48
numa 3 socket 1 cpus 48-63/112-127 memory 128Gi hugepages-1Gi 16
distances 10 12 21 21
distances 12 10 21 21
distances 21 21 10 12
distances 21 21 12 10
device example.com/vf a0,a1,a2,a3,a4,a5,a6,a7,a8,a9,aa,ab,ac,ad,ae,af numa 0
device example.com/vf b0,b1,b2,b3,b4,b5,b6,b7,b8,b9,ba,bb,bc,bd,be,bf numa 2
rules topology=single-numa-node scope=pod cpu=static reserved=0,64,32,96 options=full-pcpus-only memory=Static reserve=0:memory:4Gi,2:memory:4Gi
shape user-plane : main cpu=16 memory=8Gi hugepages-1Gi=16Gi example.com/vf=4
shape radio : main cpu=12 memory=8Gi hugepages-1Gi=8Gi example.com/vf=2
shape gateway : main cpu=8 memory=8Gi hugepages-1Gi=8Gi example.com/vf=2
shape split : data cpu=6 memory=4Gi hugepages-1Gi=8Gi example.com/vf=2 / control cpu=2 memory=4Gi
shape probe : main cpu=4 memory=4Gi hugepages-1Gi=2Gi example.com/vf=1
shape store : main cpu=8 memory=32Gi
shape session : main cpu=4 memory=12Gi
shape service burstable : main cpu=1500m memory=3Gi
shape web burstable : main cpu=500m memory=1Gi
mix user-plane 8 3600,14400,57600
mix radio 12 3600,14400,57600
mix gateway 18 1800,7200,28800
mix split 10 1800,7200,28800
mix probe 16 600,1800,7200
mix store 14 3600,14400,57600
mix session 12 1800,7200,28800
mix service 20 600,1800,7200
mix web 20 600,1800,7200
`

// gpu is the case of pytorch/ci-infra issue 696 and similar ones: machines of two sockets with four GPUs each, and jobs
// of one, two, four and eight GPUs with their share of CPUs and memory. There, jobs of one and two GPUs were spread
// over the sockets. Jobs of four then found no free socket, were refused with TopologyAffinityError, created again, and
// refused again. The policy is restricted, since single-numa-node, as in the issue, never admits a job of eight. The
// frequency and duration of each size are made up.
const gpu = `
source sizes of pytorch/ci-infra issue 696: jobs of 1, 2, 4 and 8 GPUs on machines of 2 x 4; how often is made up
machines p5 400
numa 0 socket 0 cpus 0-47/96-143 memory 1024Gi
numa 1 socket 1 cpus 48-95/144-191 memory 1024Gi
distances 10 21
distances 21 10
device nvidia.com/gpu g0,g1,g2,g3 numa 0
device nvidia.com/gpu g4,g5,g6,g7 numa 1
rules topology=restricted scope=pod cpu=static reserved=0,96,48,144 options=full-pcpus-only memory=Static reserve=0:memory:8Gi,1:memory:8Gi
shape one : main cpu=22 memory=240Gi nvidia.com/gpu=1
shape two : main cpu=44 memory=480Gi nvidia.com/gpu=2
shape four : main cpu=88 memory=960Gi nvidia.com/gpu=4
shape eight : main cpu=176 memory=1920Gi nvidia.com/gpu=8
mix one 48 900,1800,3600,7200
mix two 24 900,1800,3600,7200
mix four 20 1800,3600,7200,14400
mix eight 8 1800,3600,7200,14400
`
