package doctor

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/api/document"
	podapi "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file examines kubelets and their configurations for effects on pods that users do not expect.

// startFaults examines whether the kubelet would start again with its configuration. The kubelet runs now, so a fault
// comes from a later change of the machine or of a file. Method reservation examines reserved memory.
func (x *examination) startFaults(n *state.Node, l *v1alpha1.NodeLayout) {
	gates := map[string]bool{}
	if l != nil {
		for _, g := range l.Kubelet.FeatureGates {
			gates[g.Name] = g.Enabled
		}
	}
	for _, f := range n.Rules.StartFaults(n.Machine, place.Startup{Gates: gates}) {
		// These two faults are left out: the agent may know only the files, and flags may enable a gate or reserve
		// CPUs.
		if !f.Gate && f.Setting != "cpuManagerPolicy" {
			x.add("kubelet-start", onNode(n.Name, f.Text), "a kubelet does not work with its configuration: "+f.Setting, "")
		}
	}
}

// strictSince is the first release (1.33) that offers strict-cpu-reservation without the gate for alpha options.
const strictSince place.Release = 33

// reservedCPUs examines which containers get or share the CPUs that are reserved for the system, and which CPUs no
// container can get because their core is reserved in part.
func (x *examination) reservedCPUs(n *state.Node) {
	r := n.Rules
	if want, given, ok := r.GivesReserved(n.Machine); ok {
		remedy := "bring all threads of each core online, so that cores have equally many CPUs, or turn them all off"
		whole := r
		if whole.CPU.Reserved = r.WholeCores(n.Machine); !whole.CPU.Reserved.Equal(r.CPU.Reserved) {
			if _, _, still := whole.GivesReserved(n.Machine); !still {
				remedy = "reserve whole cores: reservedSystemCPUs: " + whole.CPU.Reserved.String()
			}
		}
		x.add("reserved-cpus-given", onNode(n.Name, fmt.Sprintf("a container of %d CPUs would get CPUs %s on the empty node",
			want, given)), "the kubelet gives out CPUs that are kept for the system, since cores or sockets differ in size",
			remedy)
	}
	if lost, a := r.HalfCores(n.Machine); !lost.Empty() {
		x.add("half-cores", onNode(n.Name, "CPUs "+lost.String()), a.What, a.Remedy)
	}
	if r.Arbiter == place.ByKubelet && r.CPU.Static && !r.CPU.Reserved.Empty() && !r.CPU.StrictReservation &&
		(r.Release == 0 || r.Release >= strictSince) {
		x.add("reserved-cpus-shared", onNode(n.Name, "CPUs "+r.CPU.Reserved.String()),
			"pods that share CPUs run on the CPUs that are kept for the system, too (strict-cpu-reservation is off)", "")
	}
}

// silentKubelet adds a finding if the kubelet has stopped reporting and its memory manager is static. After a boot
// with another amount of memory, such a kubelet refuses its state file and does not start (docs/design/kubelet.md).
func (x *examination) silentKubelet(n *state.Node, object *v1.Node) {
	if object == nil || n.Rules.Arbiter != place.ByKubelet || !n.Rules.Memory.Static {
		return
	}
	for _, c := range object.Status.Conditions {
		if c.Type == v1.NodeReady && c.Status == v1.ConditionUnknown {
			x.add("node-lost", onNode(n.Name, c.Reason+" "+c.Message), "the kubelet does not report, and its memory manager "+
				"is static", "")
		}
	}
}

// refused adds a finding about a pod that a kubelet refused. why is the kubelet's reason.
func (x *examination) refused(p *v1.Pod, why place.RefusalReason) {
	text, remedy := "a kubelet refused it: "+string(why), ""
	switch {
	case why == place.UnexpectedAdmissionError && strings.Contains(p.Status.Message, "cannot allocate unhealthy devices"):
		// devicemanager/manager.go, devicesToAllocate: after a restart the kubelet admits pods again at once.
		text += ", as a device plugin had not registered healthy devices"
		remedy = "see whether the device plugin runs; it was late where the node had just started. Delete the pod: its " +
			"controller makes another one"
	case x.ours(p.Spec.SchedulerName):
		text += ", though Tenon placed it"
		remedy = "delete the pod, and see whether the node's predictions are inexact"
	}
	x.add("kubelet-refused", onPod(p, p.Status.Message), text, remedy)
}

// ours reports whether a configuration that could be read has a scheduler of this name with Tenon.
func (x *examination) ours(scheduler string) bool {
	_, is := x.program(scheduler)
	return is
}

// program returns which program a scheduler of this name is, if a configuration that could be read has it with Tenon.
func (x *examination) program(scheduler string) (t document.SchedulerType, ours bool) {
	for _, s := range x.Schedulers {
		for _, p := range s.Profiles {
			if p.Enabled && p.SchedulerName == scheduler {
				return s.Type, true
			}
		}
	}
	return "", false
}

// uncounted finds pods with hugepages that the memory manager of their node does not count: it counts only hugepages
// of Guaranteed pods (memorymanager/policy_static.go, Allocate).
func (x *examination) uncounted(p *v1.Pod) {
	n := x.staticMemory()[p.Spec.NodeName]
	if n == nil {
		return
	}
	spec, err := podapi.ToPlace(p)
	if err != nil || spec.QoS == place.Guaranteed {
		return
	}
	for _, c := range spec.Containers {
		for _, a := range c.Memory {
			if a.Kind != topo.Memory && a.Bytes > 0 {
				x.add("hugepages-uncounted", onPod(p, fmt.Sprintf("container %q: %s", c.Name, place.Quantity(a.Kind, a.Bytes))),
					"it uses hugepages, and the memory manager does not count them, as the pod is "+spec.QoS.String(), "")
			}
		}
	}
}

// staticMemory returns the nodes whose kubelets have a static memory manager, by name.
func (x *examination) staticMemory() map[string]*state.Node {
	if x.static == nil {
		x.static = map[string]*state.Node{}
		for _, n := range x.View.States {
			if n.Quality == state.Exact && n.Rules.Arbiter == place.ByKubelet && n.Rules.Memory.Static {
				x.static[n.Name] = n
			}
		}
	}
	return x.static
}
