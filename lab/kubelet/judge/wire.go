package main

import (
	"encoding/json"

	v1 "k8s.io/api/core/v1"
)

// request is one line of the input. Do is one of these:
//
// "open" starts the managers of a machine. "close" stops them. "admit" asks them to admit a pod. "start" starts the
// containers of an admitted pod. "end" ends a pod. "collect" frees what ended pods hold. "announce" changes the
// devices of plugins that are connected. "prefer" connects the plugin of a resource again, as one that has
// preferences. "settle" follows an "open" with Reopen: the sources of pods become ready, and the plugins connect.
type request struct {
	Do       string
	Dir      string    // "open": for state files and sockets; it exists
	Settings *settings // "open"
	// Reopen is true for an "open" after a restart: earlier managers have stopped in this directory, and their pods
	// remain. Found are the containers that they left.
	Reopen  bool
	Found   []found
	Pod     *v1.Pod             // "admit"
	Name    string              // of a pod for "start" and "end", of a resource for "prefer"
	Devices map[string][]device // "open", "announce" and "settle": what plugins announce, by resource
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

// reserved is memory of one NUMA node that pods cannot use.
type reserved struct {
	NUMA   int32
	Limits v1.ResourceList
}

// found is a container that a restarted kubelet finds in its container runtime. Pod is a UID.
type found struct {
	Pod, Name string
	Running   bool
}

// device is a device of a plugin. NUMAs are the ids of its NUMA nodes.
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
	// Ask is set if this line is not the answer yet, but asks what a device plugin prefers.
	Ask *question `json:",omitempty"`
}

// state is what the managers have recorded, after a request.
type state struct {
	SharedCPUs string                    // the CPUs that no container has for itself, as a list
	FreeMemory map[int]map[string]uint64 // bytes, by NUMA node id and kind of memory
	Healthy    map[string][]string       // ids of healthy devices, by resource
	Held       []held
}

// held is what one container holds, or a pod as a whole; Container is then "".
type held struct {
	Pod, Container string
	CPUs           string
	Memory         []block
	Devices        map[string][]device
}

// block is memory of one kind that is taken from a set of NUMA nodes.
type block struct {
	Kind  string
	NUMAs []int
	Bytes uint64
}

// question asks which Size devices of a resource a device plugin prefers, of the Available ones. The devices in
// Include must be among them.
type question struct {
	Resource           string
	Available, Include []string
	Size               int
}

// preference is the reply to a question: the preferred devices, or the error of the plugin if it is not empty.
type preference struct {
	IDs   []string
	Error string
}
