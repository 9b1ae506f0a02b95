package main

import (
	"encoding/json"

	v1 "k8s.io/api/core/v1"
)

// request is one line of the input. Do is "open", "admit", "start", "end", "collect", "announce", "prefer", "settle" or
// "close"; each reads its own fields.
type request struct {
	Do       string
	Dir      string // of state files and sockets; it exists
	Settings *settings
	// Reopen means that earlier managers have stopped in this directory, and that their pods stay. Found are the
	// containers of that time.
	Reopen  bool
	Found   []found
	Pod     *v1.Pod
	Name    string              // of a pod, or of a resource
	Devices map[string][]device // what plugins announce, by resource
}

// settings are a machine, as cadvisor describes it, and the part of a KubeletConfiguration that managers read.
type settings struct {
	Machine         json.RawMessage
	TopologyPolicy  string
	TopologyScope   string
	TopologyOptions map[string]string
	CPUPolicy       string
	CPUOptions      map[string]string
	ReservedCPUs    string
	MemoryPolicy    string
	ReservedMemory  []reserved
	NodeReservation v1.ResourceList
}

type reserved struct {
	NUMA   int32
	Limits v1.ResourceList
}

// found is a container that a restarted kubelet finds.
type found struct {
	Pod, Name string
	Running   bool
}

type device struct {
	ID        string
	NUMAs     []int64
	Unhealthy bool
}

// answer is one line of the output.
type answer struct {
	Error string `json:",omitempty"`
	Panic string `json:",omitempty"`
	// Admit, Reason and Message are the managers' decision on a pod.
	Admit   bool   `json:",omitempty"`
	Reason  string `json:",omitempty"`
	Message string `json:",omitempty"`
	State   *state `json:",omitempty"`
	// Ask is set if this line is not the answer yet, but a question about a plugin's preference.
	Ask *question `json:",omitempty"`
}

// state is what the managers have recorded.
type state struct {
	SharedCPUs string
	FreeMemory map[int]map[string]uint64 // by NUMA node id and kind
	Healthy    map[string][]string       // ids by resource
	Held       []held
}

type held struct {
	Pod, Container string
	CPUs           string
	Memory         []block
	Devices        map[string][]device
}

type block struct {
	Kind  string
	NUMAs []int
	Bytes uint64
}

type question struct {
	Resource           string
	Available, Include []string
	Size               int
}

// preference answers a question.
type preference struct {
	IDs   []string
	Error string
}
