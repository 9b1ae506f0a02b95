// Package scenario is a language for test cases that a person can read: a machine, its rules, and what the node does
// with pods one after the other. It reads scenarios, writes them, plays them through [place.Place], and shrinks those
// that fail.
//
// A scenario is read line by line:
//
//	# a comment, to the end of the line: why the case matters, and which kubelet file or KEP shows it
//	numa ... / device ... / distances ...   the machine, as topo.ParseText reads it
//	core CPUS numa N socket N l3 N          one core of a NUMA node whose line names no CPUs, for machines that
//	                                        numa lines cannot describe; l3 is the id of its L3 group: the kubelet
//	                                        sorts groups by id (numa lines use the lowest CPU as id)
//	rules KEY=VALUE... WORD...              once, before the first step; what is absent is off:
//	    release=1.33                                          of the kubelet; place.DefaultRelease when absent
//	    topology=POLICY scope=SCOPE prefer-closest max-numas=N
//	    cpu=none|static reserved=CPUS options=OPTION,...      (the kubelet's names of options)
//	    reserve-cpus=N                                        instead of reserved: the node picks them
//	    memory=None|Static reserve=NUMA:KIND:SIZE,...
//	    pod-level-managers                                    the gate PodLevelResourceManagers is on
//	admit NAME [WORD]... : CONTAINER / CONTAINER ...
//	    WORD is burstable, best-effort (Guaranteed when absent), pod-level=cpu:4,memory:2Gi (what
//	    spec.resources requests; pod-level alone stands for cpu:1,memory:1Gi),
//	    policy=POLICY scope=SCOPE (what the pod itself demands of the outcome), and with them
//	    align=RESOURCE,... (only of these) or ignore=RESOURCE,... (of all but these)
//	    CONTAINER is [init|sidecar] NAME [unequal] [cpu=4|cpu=1500m] [memory=4Gi] [hugepages-1Gi=2Gi]
//	    [acme.com/gpu=2]; memory=1500m is one byte and a half; unequal is for pod-level: the limits
//	    are not equal to the requests
//	start NAME                              the containers of an admitted pod start: the memory that its
//	                                        init containers hold is given back
//	remove NAME                             an admitted pod ends
//	end NAME                                an admitted pod ends, and the kubelet notices that only after
//	                                        the next admission
//	restart                                 the kubelet restarts: shows what that endangers
//	unhealthy RESOURCE IDS                  devices fail, and with "healthy" come back; IDS is a comma list
//	healthy RESOURCE IDS
//	free                                    shows what each NUMA node has left
//
// The lines after a step that start with "> " are the expected outcome; [File.Play] writes them. A container's line is
//
//	> NAME: cpus 1-4 memory 4Gi@0 acme.com/gpu a,b@0
//
// with NUMA node ids after the @. If the kubelet takes any of several devices, the line has "any 2@0". If chance
// decides even the NUMA nodes, it has "any 2 of 0-1", and later lines have one possible outcome.
//
// Invariant: a scenario that was read is written as a text that reads as the same scenario, except for the
// memory-kind of a NUMA node and the root of a device, on which no verdict depends. The package rejects unknown words
// and sizes beyond its bounds, in errors that name the file and the line.
package scenario

import (
	"slices"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// Bounds on the size of a text.
const (
	MaxLines      = 10000
	MaxContainers = 64 // of one pod
	MaxDevices    = topo.MaxDevices
	MaxNames      = 64 // of resources that a demand names
)

// Scenario is a machine, its rules, and what happens on it.
type Scenario struct {
	Comment []string // lines of the head, without the "#"
	Machine *topo.Machine
	Rules   place.Rules
	// ReserveCPUs is the number of CPUs that the configuration reserves without naming them; Rules.CPU.Reserved then
	// has the CPUs that the node picks. It is 0 if the configuration names the CPUs.
	ReserveCPUs int
	Steps       []Step
}

// Action is what a step does.
type Action int

// The actions, by their words in the text.
const (
	Admit Action = iota
	Start
	Remove
	Unhealthy
	Healthy
	End
	Restart
	Free
)

var actionWords = [...]string{"admit", "start", "remove", "unhealthy", "healthy", "end", "restart", "free"}

// String returns the word of the action.
func (a Action) String() string { return actionWords[a] }

// Step is one thing that happens.
type Step struct {
	Do     Action
	Name   string // of the pod: Admit, Start, Remove, End
	Pod    place.Pod
	Demand place.Demand
	// Resource and Devices are what fails or comes back. Devices that the machine lacks are ignored.
	Resource string
	Devices  []string
}

// Node is the node of a scenario between two steps.
type Node struct {
	Machine *topo.Machine
	Rules   place.Rules
	Pods    []Held // in the order of their admission
}

// Held is an admitted pod and what it holds.
type Held struct {
	Name     string
	Holdings []place.Holding
}

// Begin returns the node before the first step.
func (s *Scenario) Begin() *Node { return &Node{Machine: s.Machine, Rules: s.Rules} }

// Usage returns the node's machine with all holdings.
func (n *Node) Usage() *place.Usage {
	u := place.NewUsage(n.Machine, n.Rules)
	var all []place.Holding
	for _, p := range n.Pods {
		all = append(all, p.Holdings...)
	}
	return u.Hold(all...)
}

// Hold adds an admitted pod.
func (n *Node) Hold(name string, hs []place.Holding) { n.Pods = append(n.Pods, Held{name, hs}) }

// Has reports whether the pod is on the node.
func (n *Node) Has(name string) bool {
	return slices.ContainsFunc(n.Pods, func(p Held) bool { return p.Name == name })
}

// Do does any step but Admit, which needs a verdict. A step on a pod that was not admitted changes nothing. Restart
// and Free change nothing either: after a restart the node goes on as if no pod were lost. End does the same as
// Remove.
func (n *Node) Do(s Step) {
	switch s.Do {
	case Start:
		for i := range n.Pods {
			if n.Pods[i].Name == s.Name {
				n.Pods[i].Holdings = started(n.Pods[i].Holdings)
			}
		}
	case Remove, End:
		n.Pods = slices.DeleteFunc(n.Pods, func(p Held) bool { return p.Name == s.Name })
	case Unhealthy, Healthy:
		n.Machine = withHealth(n.Machine, s)
	}
}

// started returns what a pod holds after all of its containers have started. The memory manager drops the blocks of an
// init container when the next container starts (memorymanager/memory_manager.go, AddContainer). CPUs and devices stay
// until the pod ends.
func started(hs []place.Holding) (out []place.Holding) {
	for _, h := range hs {
		if h.Kind == place.Init {
			h.Memory = nil
		}
		if !h.Empty() {
			out = append(out, h)
		}
	}
	return out
}

// withHealth returns the machine with the health of some devices changed.
func withHealth(m *topo.Machine, s Step) *topo.Machine {
	spec := m.Spec()
	for i := range spec.Devices {
		d := &spec.Devices[i]
		if d.Resource == s.Resource && slices.Contains(s.Devices, d.ID) {
			d.Unhealthy = s.Do == Unhealthy
		}
	}
	out, err := topo.New(spec)
	if err != nil {
		return m // cannot happen: health is not part of any check
	}
	return out
}
