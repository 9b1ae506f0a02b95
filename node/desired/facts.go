package desired

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/node/kubelet"
)

// Facts are the facts about a node that seldom change. Each fact is the last one that could be read.
type Facts struct {
	Machine       *topo.Machine // nil before it was read once
	Detail        v1alpha1.Detail
	Configuration kubelet.Configuration
	// Rules are the rules of Configuration on Machine.
	Rules place.Rules
	// Stale is why the machine or the rules could not be read again; nil if both are up to date.
	Stale error
	// DetailErr is why the detail could not be read again. It makes nothing stale, because no prediction depends on the
	// detail.
	DetailErr error

	rulesKnown bool
}

// Known reports whether the machine and the rules were read at least once.
func (f Facts) Known() bool { return f.Machine != nil && f.rulesKnown }

// WithMachine returns the facts after a reading of the hardware; the arguments are the results of
// agent.MachineReader. What could not be read keeps its last value, and Stale or DetailErr has the error. The caller
// then has to read the configuration, too.
func (f Facts) WithMachine(m *topo.Machine, d v1alpha1.Detail, err error) Facts {
	f.Stale, f.DetailErr = nil, err
	switch {
	case m == nil:
		f.Stale = fmt.Errorf("describe the machine: %w", err)
	case err != nil:
		f.Machine = m
	default:
		f.Machine, f.Detail = m, d
	}
	return f
}

// WithConfiguration returns the facts after a reading of the kubelet's configuration. The machine must be known. If
// err is not nil, or the configuration does not fit the machine, the last rules stay, and Stale has the error. The
// new rules are for release 0; Compute replaces them by rules for the release of the Node's kubelet.
func (f Facts) WithConfiguration(c kubelet.Configuration, err error) Facts {
	var rules place.Rules
	if err == nil {
		rules, err = c.On(f.Machine, 0)
		if err != nil && !f.rulesKnown {
			// The first configuration that an agent reads counts as that of the kubelet's start. So reserved CPUs that
			// the machine lacks went offline since. In a configuration that is read later they are an error, because an
			// administrator may have edited the files, and the kubelet may not start with them.
			rules, err = rulesOn(f.Machine, c, 0)
		}
		if err != nil {
			err = fmt.Errorf("kubelet configuration: %w", err)
		}
	}
	if err != nil {
		f.Stale = errors.Join(f.Stale, err)
		return f
	}
	f.Rules, f.Configuration, f.rulesKnown = rules, c, true
	return f
}

// rulesOn returns the rules of a configuration that a kubelet has started with, on a machine. A kubelet starts only
// if the machine has the CPUs that it reserves. So reserved CPUs that the machine lacks went offline later (see
// capacityDifference), and rulesOn leaves them out. Where the agent is the arbiter, no kubelet has started with the
// configuration, so a reserved CPU that the machine lacks is an error.
func rulesOn(m *topo.Machine, c kubelet.Configuration, release place.Release) (place.Rules, error) {
	if c.Rules.Arbiter == place.ByKubelet {
		c.Rules.CPU.Reserved = c.Rules.CPU.Reserved.And(m.CPUs())
	}
	return c.On(m, release)
}

// forNode returns the facts for the release of the Node's kubelet, because which CPUs a kubelet reserves may depend
// on its release.
func (f Facts) forNode(n Node) Facts {
	release, _, _ := kubelet.Release(n.KubeletVersion)
	if !f.rulesKnown || f.Rules.Release == release {
		return f
	}
	rules, err := rulesOn(f.Machine, f.Configuration, release)
	if err != nil {
		f.Stale = errors.Join(f.Stale, fmt.Errorf("kubelet configuration: %w", err))
		return f
	}
	f.Rules = rules
	return f
}

// source returns the origin of the rules for v1alpha1.Rules.From. It is "" if the agent is the arbiter, because the
// rules are then its own.
func (f Facts) source() string {
	if f.Rules.Arbiter == place.ByAgent {
		return ""
	}
	if f.Configuration.Effective {
		return v1alpha1.FromKubelet
	}
	return v1alpha1.FromFiles
}

// kubelet returns the layout's part about the kubelet. It omits a version that no layout accepts; the layout's reason
// UnknownKubeletVersion then quotes the version.
func (f Facts) kubelet(n Node) (out v1alpha1.Kubelet) {
	if v1alpha1.IsVersion(n.KubeletVersion) {
		out.Version = n.KubeletVersion
	}
	gates := f.Configuration.Gates
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		out.FeatureGates = append(out.FeatureGates, v1alpha1.FeatureGate{Name: name, Enabled: gates[name]})
	}
	return out
}

// Node has the parts of the Node object that an agent needs. The zero Node means that it is unknown.
type Node struct {
	// UID is the UID of the Node, which owns the published objects.
	UID types.UID
	// Labels are the labels to copy to the published objects.
	Labels map[string]string
	// KubeletVersion is the version that the kubelet reports.
	KubeletVersion string
	// Capacity is the number of devices of each extended resource, including unhealthy ones. Usable counts only the
	// healthy ones.
	Capacity, Usable map[string]int64
	// CPUs and Memory, in bytes, are the kubelet's view of the machine. They are 0 if it has not reported them.
	CPUs, Memory int64
	// Hugepages has the hugepages that the kubelet has reported, in bytes by kind.
	Hugepages map[string]int64
}

// Equal reports whether two Nodes are the same to an agent.
func (n Node) Equal(o Node) bool {
	return n.UID == o.UID && n.KubeletVersion == o.KubeletVersion && maps.Equal(n.Labels, o.Labels) &&
		maps.Equal(n.Capacity, o.Capacity) && maps.Equal(n.Usable, o.Usable) && n.CPUs == o.CPUs && n.Memory == o.Memory &&
		maps.Equal(n.Hugepages, o.Hugepages)
}
