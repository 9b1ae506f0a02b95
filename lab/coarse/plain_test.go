package coarse_test

// The cases of this file are common tests of schedulers that read NodeResourceTopology, with their usual amounts. Where
// such a scheduler and the kubelet differ, the case follows the kubelet and has a comment about it. All nodes have
// static CPU and memory managers if their zones list CPUs and memory.

func plainCases() []plain {
	var out []plain
	for _, cases := range [][]plain{oneNUMA, fewest, subtle, containers(), ephemeral()} {
		out = append(out, cases...)
	}
	return out
}

// What a waiting pod's message must name. Whether a container cannot be aligned now or never is worded differently.
const (
	noContainer = ` container "c`
	noInit      = ` container "init`
	noPod       = "pod wants "
)

// oneNUMA are nodes that align to a single NUMA node.
var oneNUMA = []plain{
	{name: "a Guaranteed pod finds the NUMA node that has enough", n1: "2/8Gi 2/8Gi", n2: "4/8Gi 0:4/8Gi",
		pod: "4/5Gi", want: "n2"},
	{name: "CPUs of a Burstable pod are not aligned", n1: "4/8Gi 0:4/8Gi", n2: "2/8Gi 2/8Gi",
		pod: "burstable:4", want: "any"},
	// Others let this pass only because one of the nodes aligns nothing. The kubelet never aligns it.
	{name: "memory of a Burstable pod is not aligned", n1: "2/4Gi 2/4Gi", n2: "2/4Gi 2/4Gi", pod: "burstable:-/5Gi",
		want: "any"},
	{name: "zones that list no memory align none, Burstable", n1: "-/-/nic2 -/-/nic2", n2: "-/-/nic2 -/-/nic2",
		pod: "burstable:-/5Gi", want: "any"},
	{name: "zones that list no memory align none, Guaranteed", n1: "2 2", n2: "4/-/nic1 0:4/-/nic1",
		pod: "4/20Gi", want: "n2"},
	{name: "a pod without requests goes anywhere", n1: "0:2/0:8Gi", n2: "0:2/0:8Gi", pod: "-", want: "any"},
	{name: "the fullest NUMA nodes", strategy: "MostAllocated", n1: "2/8Gi 2/8Gi", n2: "1/4Gi 1/4Gi", pod: "1/4Gi",
		want: "n2"},
	{name: "the NUMA nodes of which CPUs and memory are used alike", strategy: "BalancedAllocation", n1: "4/50Gi 4/50Gi",
		n2: "6/6Gi 6/6Gi", pod: "2/2Gi", want: "n2"},
	{name: "the emptiest NUMA nodes", strategy: "LeastAllocated", n1: "2/8Gi 2/8Gi", n2: "1/4Gi 1/4Gi",
		pod: "1/4Gi", want: "n1"},
	// Tenon's own scoring fills the NUMA nodes that are used.
	{name: "numas are filled", n1: "2/8Gi 2/8Gi", n2: "1/4Gi 1/4Gi", pod: "1/4Gi", want: "n2"},
	{name: "containers of a pod together", policy: "single-numa-node/pod", n1: "2/8Gi 2/8Gi", n2: "4/8Gi 4/8Gi",
		pod: "2/4Gi 2/4Gi", want: "n2"},
	{name: "two containers, each on a NUMA node", n1: "6/8Gi 2/8Gi", n2: "4/8Gi 4/8Gi", pod: "3/5Gi 3/5Gi", want: "n2"},
	{name: "an init container needs a NUMA node too", n1: "3/8Gi 3/8Gi", n2: "4/8Gi 4/8Gi", pod: "init:4/4Gi 2/4Gi",
		want: "n2"},
	{name: "two containers on NUMA nodes of different size", n1: "4/8Gi 2/8Gi", n2: "3/8Gi 3/8Gi",
		pod: "4/4Gi 2/4Gi", want: "n1"},
	{name: "an init container has no NUMA node", n1: "2/8Gi 2/8Gi", n2: "4/8Gi 4/8Gi", pod: "init:4/10Gi 2/4Gi",
		want: noInit},
	{name: "the second container has no NUMA node", n1: "2/8Gi 2/8Gi", n2: "4/8Gi 4/3Gi", pod: "4/4Gi 4/6Gi",
		want: noContainer},
	{name: "three containers together", policy: "single-numa-node/pod", n1: "2/4Gi/nic5 4/4Gi/nic2",
		n2:  "0:4/0:4Gi 0:4/0:4Gi",
		pod: "1/1Gi 1/1Gi 1/1Gi", want: "n1"},
	{name: "three containers together, too many CPUs", policy: "single-numa-node/pod", n1: "2/4Gi/nic5 4/4Gi/nic2",
		n2:  "0:4/0:4Gi 0:4/0:4Gi",
		pod: "3/1Gi 3/1Gi 3/1Gi", want: noPod},
	{name: "devices of a BestEffort pod are aligned", n1: "4/8Gi/nic3 8/8Gi/nic3", n2: "4/8Gi/nic6 8/8Gi/nic5",
		pod: "-/-/nic6", want: "n2"},
	{name: "a device that is in no zone is not aligned", n1: "4/8Gi 8/8Gi", n2: "4/8Gi 8/8Gi",
		pod: "-/-/nic3", want: "any"},
}

// fewest are nodes that prefer few NUMA nodes, and take what they get.
var fewest = []plain{
	{name: "fewest NUMA nodes", policy: "best-effort/pod", n1: "2/8Gi 2/8Gi", n2: "4/8Gi 4/3Gi", pod: "4/4Gi", want: "n2"},
	{name: "fewest NUMA nodes, init container", policy: "best-effort/pod", n1: "2/8Gi 2/8Gi", n2: "4/8Gi 4/3Gi",
		pod: "init:2/6Gi 2/4Gi", want: "any"},
	{name: "fewest NUMA nodes, containers together", policy: "best-effort/pod", n1: "2/8Gi 2/8Gi", n2: "4/8Gi 4/3Gi",
		pod: "2/4Gi 2/4Gi", want: "n2"},
	{name: "fewest NUMA nodes, containers apart", policy: "best-effort/container", n1: "2/8Gi 2/8Gi", n2: "4/8Gi 4/3Gi",
		pod: "2/4Gi 2/6Gi", want: "any"},
	{name: "fewest NUMA nodes, init container apart", policy: "best-effort/container", n1: "2/8Gi 2/8Gi",
		n2: "4/8Gi 4/3Gi", pod: "init:2/6Gi 2/4Gi", want: "any"},
	{name: "fewest NUMA nodes, three and one together", policy: "best-effort/pod", n1: "2/8Gi 2/8Gi", n2: "4/8Gi 4/3Gi",
		pod: "3/4Gi 1/4Gi", want: "n2"},
	{name: "fewest NUMA nodes, three and one apart", policy: "best-effort/container", n1: "2/8Gi 2/8Gi", n2: "4/8Gi 4/3Gi",
		pod: "3/4Gi 1/4Gi", want: "n2"},
	{name: "only one node has enough, together", policy: "best-effort/pod", n1: "2/8Gi 2/8Gi", n2: "4/8Gi 4/3Gi",
		pod: "3/4Gi 4/6Gi", want: "n2"},
	// Others send it to n2. The first container's memory is on node-0 alone; the memory manager then gives the second
	// one no memory of node-0 and node-1 together, and neither has 6Gi: UnexpectedAdmissionError.
	{name: "only one node has enough, apart", policy: "best-effort/container", n1: "2/8Gi 2/8Gi", n2: "4/8Gi 4/3Gi",
		pod: "3/4Gi 4/6Gi", want: "0/"},
	{name: "far NUMA nodes are better than none", policy: "best-effort/container",
		n1:  "2/8Gi/gpu1 2/8Gi/gpu0:1 2/8Gi/gpu1",
		n2:  "4/8Gi/gpu0:1 4/3Gi/gpu0:1",
		pod: "4/4Gi/gpu2", want: "n1"},
	{name: "near NUMA nodes are better than far ones", policy: "best-effort/container",
		n1: "2/8Gi/gpu1 2/8Gi/gpu0:1 2/8Gi/gpu1",
		n2: "4/8Gi/gpu1 4/8Gi/gpu1 4/3Gi/gpu0:1", pod: "4/4Gi/gpu2", want: "n2"},
}

// subtle are rules of the kubelet that are easily missed and that show in amounts. Other such rules show only in exact
// holdings, and are tested elsewhere:
//
//	memory groups of several NUMA nodes    core/place/testdata, lab/kubelet (differential test)
//	whole cores (full-pcpus-only)          the same
//	resources of the pod as a whole        the same, and cluster/kube
//	dozens of NUMA nodes                   core/place (bounds, benchmarks)
//	dry runs of preemption change nothing  scheduler/plugin (overlay), lab/scheduler
//	no request and no lock in Filter       scheduler/plugin
var subtle = []plain{
	{name: "how many NUMA nodes are allowed follows from what they have, not from what is left for pods",
		policy: "restricted/container",
		n1:     "30:30:32/60Gi 30:30:32/60Gi", n2: "0:30:32/60Gi 0:30:32/60Gi", pod: "31/4Gi", want: noContainer},
	{name: "memory and hugepages are judged together", policy: "restricted/container",
		n1: "8/16Gi/hp1Gi 8/16Gi/hp1Gi", n2: "8/0:16Gi/hp0:1Gi 8/0:16Gi/hp0:1Gi", pod: "1500m/20Gi/hp512Mi", want: "n1"},
	{name: "CPUs of an init container tie the pod to its NUMA node", n1: "30:40/60Gi 40/60Gi", n2: "0:40/60Gi 0:40/60Gi",
		pod: "init:1/1Gi 32/1Gi", want: noContainer},
	{name: "CPUs of an init container tie the pod to a NUMA node with reserved CPUs", n1: "13:13:16/60Gi 16/60Gi",
		n2:  "0:16/60Gi 0:16/60Gi",
		pod: "init:1/1Gi 14/1Gi", want: noContainer},
}

// The node of the cases of containers, and one of the same size that is full.
const (
	useful = "30/60Gi/hp384Mi/nic16 32/64Gi/hp512Mi/nic32"
	full   = "0:30/0:60Gi/hp0:384Mi/nic0:16 0:32/0:64Gi/hp0:512Mi/nic0:32"
)

// containers are pods of several containers on a node that aligns each to a single NUMA node.
func containers() []plain {
	cases := []plain{
		{name: "devices and hugepages", pod: "2/6Gi/hp500Mi/nic16 2/6Gi/hp50Mi/nic8", want: "n1"},
		{name: "hugepages of the second container", pod: "2/6Gi/hp400Mi 2/6Gi/hp400Mi", want: noContainer},
		{name: "devices of the second container", pod: "2/6Gi/hp50Mi/nic20 2/6Gi/hp500Mi/nic20", want: noContainer},
		{name: "CPUs of the init container", pod: "init:40/40Gi 1/4Gi 1/4Gi", want: noInit},
		{name: "memory of the init container", pod: "init:4/70Gi 1/4Gi 1/4Gi", want: noInit},
		{name: "a small init container", pod: "init:4/10Gi 20/40Gi 20/40Gi", want: "n1"},
		{name: "a small init container, CPUs of the third", pod: "init:4/10Gi 20/40Gi 20/40Gi 20/10Gi", want: noContainer},
		{name: "a small init container, memory of the third", pod: "init:4/10Gi 20/40Gi 20/40Gi 2/40Gi", want: noContainer},
		{name: "three init containers", pod: "init:4/10Gi init:4/10Gi init:4/10Gi 20/40Gi 20/40Gi 6/10Gi", want: "n1"},
		{name: "three init containers, CPUs of the third", pod: "init:4/10Gi init:4/10Gi init:4/10Gi 20/40Gi 20/40Gi 20/10Gi",
			want: noContainer},
		{name: "three init containers, memory of the third",
			pod: "init:4/10Gi init:4/10Gi init:4/10Gi 20/35Gi 20/35Gi 2/50Gi", want: noContainer},
		{name: "large init containers, CPUs of the third", pod: "init:30/10Gi init:30/10Gi 20/40Gi 20/40Gi 20/6Gi",
			want: noContainer},
		{name: "large init containers, memory of the third", pod: "init:30/10Gi init:30/10Gi 20/35Gi 20/35Gi 2/50Gi",
			want: noContainer},
		{name: "large init containers, CPUs of the first", pod: "init:30/10Gi init:30/10Gi 35/40Gi", want: noContainer},
		// Others accept the next two. The init containers leave 30 CPUs of node-0 to the pod, and these must be used up
		// before any other CPU: the first container takes 20 of them, and the second can have neither 20 of node-0 nor
		// any without the 10 that are left there.
		{name: "what large init containers leave ties the second container", pod: "init:30/10Gi init:30/10Gi 20/40Gi 20/40Gi",
			want: noContainer},
		{name: "what three large init containers leave, too",
			pod: "init:30/10Gi init:30/10Gi init:30/10Gi 20/40Gi 20/40Gi 2/6Gi", want: noContainer},
		{name: "what small init containers leave is used up by the first container",
			pod: "init:3/50Gi init:3/50Gi init:3/50Gi 20/40Gi 20/40Gi 2/6Gi", want: "n1"},
		{name: "CPUs of the first of three init containers", pod: "init:40/50Gi init:3/50Gi init:3/50Gi 20/40Gi 2/6Gi",
			want: noInit},
		{name: "memory of the second of three init containers", pod: "init:20/50Gi init:20/65Gi init:3/50Gi 20/40Gi 2/6Gi",
			want: noInit},
	}
	for i := range cases {
		cases[i].n1, cases[i].n2 = useful, full
	}
	together := []plain{
		{name: "together, all that a NUMA node has", pod: "2/2Gi/hp512Mi/nic10 4/8Gi/hp0Mi/nic6 26/32Gi/-/nic10", want: "n1"},
		{name: "together, CPUs", pod: "2/2Gi 8/8Gi 26/32Gi", want: noPod},
		{name: "together, memory", pod: "2/4Gi 4/16Gi 26/52Gi", want: noPod},
		{name: "together, hugepages", pod: "2/2Gi/hp256Mi 4/8Gi/hp258Mi", want: noPod},
	}
	for _, c := range together {
		c.policy, c.n1, c.n2 = "single-numa-node/pod", useful, full
		cases = append(cases, c)
	}
	return cases
}

// ephemeral are pods that request storage, which no NUMA node has.
func ephemeral() []plain {
	return []plain{
		{name: "storage of a Guaranteed pod", n1: useful, n2: full, pod: "2/4Gi/eph1Gi 2/4Gi 4/8Gi/eph2Gi", want: "n1"},
		{name: "storage of a Guaranteed pod with an init container", n1: useful, n2: full,
			pod: "init:2/4Gi/eph1Gi 2/4Gi/eph1Gi", want: "n1"},
		{name: "storage of a Burstable pod", n1: useful, n2: full, pod: "burstable:2/4Gi/eph1Gi burstable:2/4Gi",
			want: "any"},
	}
}
