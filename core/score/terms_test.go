package score_test

import (
	"testing"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/score"
)

// Every pair of nodes differs in one term, and in the terms that count less it is the other way.
func TestTenonPrefersTheNodeThatWastesLeast(t *testing.T) {
	const numas, distance, locality, damage, short, free = 60, 75, 80, 85, 90, 90 // what the worse one scores
	for name, c := range map[string]struct {
		term          int64
		pod           string
		better, worse string
		held          string // CPUs that are held on the better one
	}{
		"fewer numas, though more is left": {term: numas, pod: "cpu=16 memory=1Gi",
			better: "numa 0 socket 0 cpus 0-31 memory 64Gi\nnuma 1 socket 1 cpus 32-63 memory 64Gi",
			worse:  "numa 0 socket 0 cpus 0-7 memory 64Gi\nnuma 1 socket 1 cpus 8-15 memory 64Gi"},
		"numas closer together, though more is left": {term: distance, pod: "cpu=12 memory=1Gi",
			better: "numa 0 socket 0 cpus 0-9 memory 64Gi\nnuma 1 socket 1 cpus 10-19 memory 64Gi\ndistances 10 12\ndistances 12 10",
			worse:  "numa 0 socket 0 cpus 0-7 memory 64Gi\nnuma 1 socket 1 cpus 8-15 memory 64Gi\ndistances 10 32\ndistances 32 10"},
		"numas closer together, though a device is left without CPUs": {term: distance, pod: "cpu=16 memory=1Gi",
			better: "numa 0 socket 0 cpus 0-7 memory 64Gi\nnuma 1 socket 1 cpus 8-15 memory 64Gi\ndistances 10 12\ndistances 12 10\n" +
				"device acme.com/gpu a,b numa 0",
			worse: "numa 0 socket 0 cpus 0-7 memory 64Gi\nnuma 1 socket 1 cpus 8-15 memory 64Gi\ndistances 10 40\ndistances 40 10"},
		"the device on the pod's other numa, closer": {term: distance, pod: "cpu=12 memory=1Gi acme.com/gpu=1",
			better: "numa 0 socket 0 cpus 0-15 memory 64Gi\nnuma 1 memory 1Gi\ndistances 10 12\ndistances 12 10\ndevice acme.com/gpu a numa 1",
			worse:  "numa 0 socket 0 cpus 0-11 memory 64Gi\nnuma 1 memory 1Gi\ndistances 10 32\ndistances 32 10\ndevice acme.com/gpu a numa 1"},
		"fewer caches, though more is left": {term: locality, pod: "cpu=8 memory=1Gi",
			better: "numa 0 socket 0 cpus 0-31 memory 64Gi", worse: "numa 0 socket 0 cpus 0-7 l3 4 memory 64Gi"},
		"more CPUs beside the devices that are free": {term: short, pod: "cpu=8 memory=1Gi",
			better: "numa 0 socket 0 cpus 0-31 memory 64Gi\ndevice acme.com/gpu a numa 0",
			worse:  "numa 0 socket 0 cpus 0-9 memory 64Gi\ndevice acme.com/gpu a numa 0"},
		"a sick device is no loss": {term: short, pod: "cpu=8 memory=1Gi",
			better: "numa 0 socket 0 cpus 0-31 memory 64Gi\ndevice acme.com/gpu a numa 0 unhealthy",
			worse:  "numa 0 socket 0 cpus 0-8 memory 64Gi\ndevice acme.com/gpu a numa 0"},
		"devices that the pod itself wants are no loss": {term: free, pod: "cpu=8 memory=1Gi acme.com/gpu=1",
			better: "numa 0 socket 0 cpus 0-8 memory 64Gi\ndevice acme.com/gpu a,b numa 0",
			worse:  "numa 0 socket 0 cpus 0-15 memory 64Gi\ndevice acme.com/gpu a,b numa 0"},
		"the fuller numa": {term: free, pod: "cpu=4 memory=1Gi", held: "0-7",
			better: "numa 0 socket 0 cpus 0-15 memory 64Gi", worse: "numa 0 socket 0 cpus 0-15 memory 64Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			better := ownCost(t, pod(t, c.pod), node{machine: c.better, policy: place.BestEffort, held: c.held})
			worse := ownCost(t, pod(t, c.pod), node{machine: c.worse, policy: place.BestEffort})
			if better >= worse {
				t.Errorf("costs %d and %d: the better one must cost less", better, worse)
			}
			var s score.Strategy
			if b, w := scoreOf(s, better, worse), scoreOf(s, worse, better); b != score.Max || w != c.term {
				t.Errorf("scores %d and %d, want %d and %d", b, w, score.Max, c.term)
			}
		})
	}
}
