package main

import (
	"fmt"
	"os"

	"sigs.k8s.io/yaml"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// node is a node, with what the containers of its file hold.
type node struct {
	name  string
	usage *place.Usage
}

// nodeFile is one node as a person writes it. The settings have the names that the kubelet's configuration has.
type nodeFile struct {
	Name string `json:"name"`
	// Machine is the text form of package topo.
	Machine string `json:"machine"`
	Kubelet struct {
		TopologyManagerPolicy string `json:"topologyManagerPolicy"`
		TopologyManagerScope  string `json:"topologyManagerScope"`
		CPUManagerPolicy      string `json:"cpuManagerPolicy"`
		ReservedSystemCPUs    string `json:"reservedSystemCPUs"`
		MemoryManagerPolicy   string `json:"memoryManagerPolicy"`
	} `json:"kubelet"`
	// Running maps the name of each running container to the CPUs that it holds alone, in the Linux list format.
	Running map[string]string `json:"running"`
}

func readNodes(file string) ([]node, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var files []nodeFile
	if err := yaml.UnmarshalStrict(data, &files); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var out []node
	for _, f := range files {
		usage, err := f.usage()
		if err != nil {
			return nil, fmt.Errorf("%s: node %s: %w", file, f.Name, err)
		}
		out = append(out, node{f.Name, usage})
	}
	return out, nil
}

// usage returns the machine and its rules, with the CPUs of the running containers taken.
func (f *nodeFile) usage() (*place.Usage, error) {
	machine, err := topo.ParseMachine(f.Machine)
	if err != nil {
		return nil, fmt.Errorf("machine: %w", err)
	}
	rules, err := f.rules()
	if err != nil {
		return nil, err
	}
	if err := rules.Validate(machine); err != nil {
		return nil, err
	}
	usage := place.NewUsage(machine, rules)
	for container, list := range f.Running {
		cpus, err := idset.Parse[idset.CPU](list)
		if err != nil {
			return nil, fmt.Errorf("running container %s: %w", container, err)
		}
		usage = usage.Hold(place.Holding{Container: container, CPUs: cpus})
	}
	return usage, nil
}

// rules converts the kubelet's settings. An unknown policy of the topology manager is an error. The CPU and memory
// managers are taken as "none" unless their policy is the static one.
func (f *nodeFile) rules() (r place.Rules, err error) {
	k := f.Kubelet
	var ok bool
	if r.Topology.Policy, ok = place.ParsePolicy(k.TopologyManagerPolicy); !ok {
		return r, fmt.Errorf("unknown topologyManagerPolicy %q", k.TopologyManagerPolicy)
	}
	if r.Topology.Scope, ok = place.ParseScope(k.TopologyManagerScope); !ok {
		return r, fmt.Errorf("unknown topologyManagerScope %q", k.TopologyManagerScope)
	}
	if r.CPU.Reserved, err = idset.Parse[idset.CPU](k.ReservedSystemCPUs); err != nil {
		return r, fmt.Errorf("reservedSystemCPUs: %w", err)
	}
	r.CPU.Static = k.CPUManagerPolicy == "static"
	r.Memory.Static = k.MemoryManagerPolicy == "Static"
	return r, nil
}
