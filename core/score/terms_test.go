package score_test

import (
	"testing"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/score"
)

// mixOf is a mix of pods with equal frequency, seen often enough that the unseen pod has no weight.
func mixOf(tb testing.TB, pods ...string) *score.Mix {
	var shares []score.Share
	for _, text := range pods {
		shares = append(shares, score.Share{Pod: pod(tb, text), Weight: 256})
	}
	return score.NewMix(shares)
}

// Every pair of nodes differs in one term. In less important terms the other node is better.
func TestTenonPrefersTheNodeThatWastesLeast(t *testing.T) {
	const numas, distance, locality, damage, short, free = 60, 75, 80, 85, 80, 90 // what the worse one scores
	for name, c := range map[string]struct {
		term          int64
		pod           string
		better, worse string
		held, busy    string   // CPUs that are held on the better one, and on the worse
		usual         []string // the mix; nil: one of pods that fit nowhere
	}{
		"fewer NUMA nodes, though more is left": {term: numas, pod: "cpu=16 memory=1Gi",
			better: "numa 0 socket 0 cpus 0-31 memory 64Gi\nnuma 1 socket 1 cpus 32-63 memory 64Gi",
			worse:  "numa 0 socket 0 cpus 0-7 memory 64Gi\nnuma 1 socket 1 cpus 8-15 memory 64Gi"},
		"numas closer together, though more is left": {term: distance, pod: "cpu=12 memory=1Gi",
			better: "numa 0 socket 0 cpus 0-9 memory 64Gi\nnuma 1 socket 1 cpus 10-19 memory 64Gi\ndistances 10 12\n" +
				"distances 12 10",
			worse: "numa 0 socket 0 cpus 0-7 memory 64Gi\nnuma 1 socket 1 cpus 8-15 memory 64Gi\ndistances 10 32\n" +
				"distances 32 10"},
		"numas closer together, though a device is left without CPUs": {term: distance, pod: "cpu=16 memory=1Gi",
			better: "numa 0 socket 0 cpus 0-7 memory 64Gi\nnuma 1 socket 1 cpus 8-15 memory 64Gi\ndistances 10 12\n" +
				"distances 12 10\n" +
				"device acme.com/gpu a,b numa 0",
			worse: "numa 0 socket 0 cpus 0-7 memory 64Gi\nnuma 1 socket 1 cpus 8-15 memory 64Gi\ndistances 10 40\n" +
				"distances 40 10"},
		"the device on the pod's other numa, closer": {term: distance, pod: "cpu=12 memory=1Gi acme.com/gpu=1",
			better: "numa 0 socket 0 cpus 0-15 memory 64Gi\nnuma 1 memory 1Gi\ndistances 10 12\ndistances 12 10\n" +
				"device acme.com/gpu a numa 1",
			worse: "numa 0 socket 0 cpus 0-11 memory 64Gi\nnuma 1 memory 1Gi\ndistances 10 32\ndistances 32 10\n" +
				"device acme.com/gpu a numa 1"},
		"an ordinary distance that firmware does not tell, though more is left": {term: distance, pod: "cpu=12 memory=1Gi",
			better: "numa 0 socket 0 cpus 0-9 memory 64Gi\nnuma 1 socket 1 cpus 10-19 memory 64Gi",
			worse: "numa 0 socket 0 cpus 0-7 memory 64Gi\nnuma 1 socket 1 cpus 8-15 memory 64Gi\ndistances 10 24\n" +
				"distances 24 10"},
		"a distance that firmware does not tell is no better": {term: free, pod: "cpu=4 memory=1Gi",
			better: "numa 0 socket 0 cpus 0-9 memory 64Gi\ndistances 10", worse: "numa 0 socket 0 cpus 0-15 memory 64Gi"},
		"fewer caches, though more is left": {term: locality, pod: "cpu=8 memory=1Gi",
			better: "numa 0 socket 0 cpus 0-31 memory 64Gi", worse: "numa 0 socket 0 cpus 0-15 l3 2 memory 64Gi",
			busy: "0-3,8-11"},
		"caches that are too small for the pod anyway are no worse": {term: free, pod: "cpu=8 memory=1Gi",
			better: "numa 0 socket 0 cpus 0-7 l3 4 memory 64Gi", worse: "numa 0 socket 0 cpus 0-31 memory 64Gi"},
		"GPU and NIC below one PCI root, though more is left": {term: locality,
			pod: "cpu=2 memory=1Gi acme.com/gpu=1 acme.com/nic=1",
			better: "numa 0 socket 0 cpus 0-31 memory 64Gi\ndevice acme.com/gpu g numa 0 root pci0000:17\n" +
				"device acme.com/nic n numa 0 root pci0000:17",
			worse: "numa 0 socket 0 cpus 0-15 memory 64Gi\ndevice acme.com/gpu g numa 0 root pci0000:17\n" +
				"device acme.com/nic n numa 0 root pci0000:2a"},
		"GPU and NIC surely below one PCI root, though the kubelet may be lucky": {term: locality,
			pod: "cpu=2 memory=1Gi acme.com/gpu=1 acme.com/nic=1",
			better: "numa 0 socket 0 cpus 0-31 memory 64Gi\ndevice acme.com/gpu g,h numa 0 root pci0000:17\n" +
				"device acme.com/nic n,o numa 0 root pci0000:17",
			worse: "numa 0 socket 0 cpus 0-15 memory 64Gi\ndevice acme.com/gpu g numa 0 root pci0000:17\n" +
				"device acme.com/gpu h numa 0 root pci0000:2a\n" +
				"device acme.com/nic n numa 0 root pci0000:17\ndevice acme.com/nic o numa 0 root pci0000:2a"},
		"a PCI root that is not known is no worse": {term: free, pod: "cpu=2 memory=1Gi acme.com/gpu=1 acme.com/nic=1",
			better: "numa 0 socket 0 cpus 0-15 memory 64Gi\ndevice acme.com/gpu g numa 0 root pci0000:17\n" +
				"device acme.com/nic n numa 0",
			worse: "numa 0 socket 0 cpus 0-31 memory 64Gi\ndevice acme.com/gpu g numa 0 root pci0000:17\n" +
				"device acme.com/nic n numa 0 root pci0000:17"},
		"GPUs that usual pods want together stay together, though more CPUs are left": {term: damage,
			pod:    "cpu=2 memory=1Gi acme.com/gpu=1",
			usual:  []string{"cpu=4 memory=1Gi acme.com/gpu=4"},
			better: "numa 0 socket 0 cpus 0-31 memory 64Gi\ndevice acme.com/gpu a,b,c numa 0",
			worse:  "numa 0 socket 0 cpus 0-15 memory 64Gi\ndevice acme.com/gpu a,b,c,d numa 0"},
		"CPUs that usual pods need beside a GPU stay, though more are left": {term: damage, pod: "cpu=8 memory=1Gi",
			usual:  []string{"cpu=16 memory=1Gi acme.com/gpu=1"},
			better: "numa 0 socket 0 cpus 0-30 memory 64Gi\ndevice acme.com/gpu a numa 0",
			worse:  "numa 0 socket 0 cpus 0-17 memory 64Gi\ndevice acme.com/gpu a numa 0"},
		"memory that usual pods need stays, though more CPUs are left": {term: damage, pod: "cpu=4 memory=4Gi",
			usual:  []string{"cpu=2 memory=62Gi"},
			better: "numa 0 socket 0 cpus 0-15 memory 32Gi", worse: "numa 0 socket 0 cpus 0-7 memory 64Gi"},
		"both NUMA nodes stay for usual pods that need both, though more CPUs are left": {term: damage,
			pod:   "cpu=2 memory=1Gi",
			usual: []string{"cpu=12 memory=2Gi acme.com/gpu=2"},
			better: "numa 0 socket 0 cpus 0-11 memory 64Gi\nnuma 1 socket 1 cpus 12-19 memory 64Gi\n" +
				"device acme.com/gpu a numa 0",
			worse: "numa 0 socket 0 cpus 0-7 memory 64Gi\nnuma 1 socket 1 cpus 8-15 memory 64Gi\n" +
				"device acme.com/gpu a numa 0\ndevice acme.com/gpu b numa 1"},
		"more CPUs beside the devices that no usual pod asks for": {term: short, pod: "cpu=8 memory=1Gi",
			usual:  []string{"cpu=8 memory=1Gi"},
			better: "numa 0 socket 0 cpus 0-31 memory 64Gi\ndevice acme.com/gpu a numa 0",
			worse:  "numa 0 socket 0 cpus 0-9 memory 64Gi\ndevice acme.com/gpu a numa 0"},
		"CPUs where no devices are, though of two caches": {term: short, pod: "cpu=8 memory=1Gi",
			better: "numa 0 socket 0 cpus 0-15 l3 2 memory 64Gi", held: "0-3,8-11",
			worse: "numa 0 socket 0 cpus 0-15 memory 64Gi\ndevice acme.com/gpu a numa 0"},
		"CPUs where no devices are, though usual pods need them": {term: short, pod: "cpu=8 memory=1Gi",
			usual:  []string{"cpu=8 memory=1Gi"},
			better: "numa 0 socket 0 cpus 0-15 memory 64Gi",
			worse:  "numa 0 socket 0 cpus 0-14 memory 64Gi\ndevice acme.com/gpu a numa 0", busy: "0-2"},
		"a NUMA node on which nobody is stays whole, as long as nobody knows who comes": {term: damage,
			pod:    "cpu=4 memory=1Gi",
			usual:  []string{},
			better: "numa 0 socket 0 cpus 0-31 memory 64Gi", held: "0-7", worse: "numa 0 socket 0 cpus 0-15 memory 64Gi"},
		"a sick device is no loss": {term: short, pod: "cpu=8 memory=1Gi",
			better: "numa 0 socket 0 cpus 0-31 memory 64Gi\ndevice acme.com/gpu a numa 0 unhealthy",
			worse:  "numa 0 socket 0 cpus 0-8 memory 64Gi\ndevice acme.com/gpu a numa 0"},
		"devices that the pod itself wants are no loss": {term: free, pod: "cpu=8 memory=1Gi acme.com/gpu=1",
			better: "numa 0 socket 0 cpus 0-8 memory 64Gi\ndevice acme.com/gpu a,b numa 0",
			worse:  "numa 0 socket 0 cpus 0-15 memory 64Gi\ndevice acme.com/gpu a,b numa 0"},
		"the fuller NUMA node": {term: free, pod: "cpu=4 memory=1Gi", held: "0-7",
			better: "numa 0 socket 0 cpus 0-15 memory 64Gi", worse: "numa 0 socket 0 cpus 0-15 memory 64Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.usual == nil {
				c.usual = []string{"acme.com/absent=1"}
			}
			s := score.Strategy{Mix: mixOf(t, c.usual...)}
			better := ownCost(t, s, pod(t, c.pod), node{machine: c.better, policy: place.BestEffort, held: c.held})
			worse := ownCost(t, s, pod(t, c.pod), node{machine: c.worse, policy: place.BestEffort, held: c.busy})
			if better >= worse {
				t.Errorf("costs %d and %d: the better one must cost less", better, worse)
			}
			if b, w := scoreOf(s, better, worse), scoreOf(s, worse, better); b != score.Max || w != c.term {
				t.Errorf("scores %d and %d, want %d and %d", b, w, score.Max, c.term)
			}
		})
	}
}
