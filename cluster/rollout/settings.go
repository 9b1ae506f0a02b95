package rollout

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file says how rules are written in a KubeletConfiguration, whether a kubelet accepts them, and which of its
// state files it refuses afterwards.

// settings are rules as a KubeletConfiguration has them.
type settings struct {
	wire   v1alpha1.Rules
	fields map[string]any
}

func rulesOf(n *ledger.Node) settings {
	s := settings{wire: v1alpha1.FromCore(n.Name, n.Machine, n.Rules, nil, nil).Rules}
	r := s.wire
	s.fields = map[string]any{"topologyManagerPolicy": r.TopologyManagerPolicy,
		"topologyManagerScope": r.TopologyManagerScope,
		"cpuManagerPolicy":     r.CPUManagerPolicy, "memoryManagerPolicy": r.MemoryManagerPolicy,
		"reservedSystemCPUs":           string(r.ReservedCPUs),
		"topologyManagerPolicyOptions": options(r.TopologyManagerPolicyOptions),
		"cpuManagerPolicyOptions":      options(r.CPUManagerPolicyOptions)}
	var reserved []any
	for _, x := range r.ReservedMemory {
		reserved = append(reserved, map[string]any{"numaNode": x.NUMA, "limits": map[string]any{
			x.Kind: strings.Fields(place.Quantity(x.Kind, x.Bytes))[0]}})
	}
	s.fields["reservedMemory"] = reserved
	return s
}

// options are a kubelet's options, by name and as text. of is a struct of the API, which encodes always.
func options(of any) map[string]string {
	all := map[string]any{}
	if data, err := json.Marshal(of); err == nil {
		_ = json.Unmarshal(data, &all)
	}
	out := map[string]string{}
	for name, value := range all {
		out[name] = fmt.Sprint(value)
	}
	return out
}

func (s settings) equal(o settings) bool { return len(s.changed(o)) == 0 }

// changed are the names of the fields that differ.
func (s settings) changed(o settings) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(s.fields)) {
		if line(name, s.fields[name]) != line(name, o.fields[name]) {
			out = append(out, name)
		}
	}
	return out
}

func line(name string, value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		return name
	}
	return name + ": " + strings.Trim(string(data), `"`)
}

// unset reports whether a field has no value.
func unset(value any) bool {
	switch v := value.(type) {
	case string:
		return v == ""
	case map[string]string:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return value == nil
}

// diff are the lines that go and come.
func (s settings) diff(to settings) []string {
	out := []string{}
	for _, name := range s.changed(to) {
		if !unset(s.fields[name]) {
			out = append(out, "- "+line(name, s.fields[name]))
		}
		if !unset(to.fields[name]) {
			out = append(out, "+ "+line(name, to.fields[name]))
		}
	}
	return out
}

// dropIn is a file for the kubelet's --config-dir. Options of a file are added to those of files before it, so one that
// is turned off says so.
func (s settings) dropIn(to settings) (string, error) {
	out := map[string]any{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
	for _, name := range s.changed(to) {
		value := to.fields[name]
		if after, ok := value.(map[string]string); ok {
			all := maps.Clone(after)
			for option := range s.fields[name].(map[string]string) {
				if _, stays := after[option]; !stays {
					all[option] = "false"
				}
			}
			value = all
		}
		out[name] = value
	}
	text, err := yaml.Marshal(out)
	if err != nil {
		return "", fmt.Errorf("write the drop-in file: %w", err)
	}
	return string(text), nil
}

// kubeletRelease is a kubelet that is to start.
type kubeletRelease struct {
	release place.Release // 0: not known
	gates   map[string]bool
}

func kubeletOf(version string, gates map[string]bool) kubeletRelease {
	out := kubeletRelease{gates: gates}
	if r, ok := place.ReleaseOf(version); ok {
		out.release = r
	}
	return out
}

// permitsAlpha reports whether options of the CPU manager that are alpha are permitted.
func (k kubeletRelease) permitsAlpha() bool {
	if on, set := k.gates["CPUManagerPolicyAlphaOptions"]; set {
		return on
	}
	return k.gates["AllAlpha"]
}

// before reports whether the kubelet is known to be older than a release.
func (k kubeletRelease) before(r place.Release) bool { return k.release > 0 && k.release < r }

// maxNUMANodes is the option that permits machines with more than 8 NUMA nodes.
const maxNUMANodes = "max-allowable-numa-nodes"

// apart has pairs of options; a kubelet accepts at most one option of each pair.
var apart = [][2]string{{"full-pcpus-only", "distribute-cpus-across-cores"},
	{"distribute-cpus-across-numa", "distribute-cpus-across-cores"},
	{"prefer-align-cpus-by-uncorecache", "distribute-cpus-across-cores"},
	{"prefer-align-cpus-by-uncorecache", "distribute-cpus-across-numa"}}

// refusals returns why a kubelet would not start with rules, or would serve no pods. kept is the memory that it keeps
// from pods; negative if unknown.
func refusals(k kubeletRelease, m *topo.Machine, r place.Rules, kept int64) []string {
	out := []string{}
	say := func(is bool, format string, args ...any) {
		if is {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	if err := r.Validate(m); err != nil {
		out = append(out, err.Error())
	}
	set := options(v1alpha1.FromCore("", m, r, nil, nil).Rules.CPUManagerPolicyOptions)
	for _, o := range place.Options() {
		if o.Name == maxNUMANodes {
			say(r.Topology.MaxNUMAs > 0 && k.before(o.Since), "kubelets have %s since %s", o.Name, o.Since)
		}
		if set[o.Name] == "" {
			continue
		}
		say(!r.CPU.Static, "cpuManagerPolicyOptions: %s needs cpuManagerPolicy: static", o.Name)
		say(k.before(o.Since), "cpuManagerPolicyOptions: kubelets have %s since %s", o.Name, o.Since)
		say(o.NeedsAlpha(k.release) && !k.permitsAlpha(), "cpuManagerPolicyOptions: %s needs the feature gate "+
			"CPUManagerPolicyAlphaOptions", o.Name)
	}
	for _, pair := range apart {
		say(set[pair[0]] != "" && set[pair[1]] != "", "cpuManagerPolicyOptions: %s and %s exclude each other",
			pair[0], pair[1])
	}
	say(r.CPU.AlignBySocket && r.Topology.Policy == place.SingleNUMA,
		"align-by-socket and topologyManagerPolicy: single-numa-node exclude each other")
	say(r.CPU.Static && r.CPU.Reserved.Empty(), "cpuManagerPolicy: static needs reservedSystemCPUs")
	say(r.CPU.Static && r.CPU.Reserved.Len() >= m.CPUs().Len(), "reservedSystemCPUs leaves no CPU for pods")
	sum := r.Memory.Reserves(topo.Memory)
	say(r.Memory.Static && kept >= 0 && sum != kept, "reservedMemory has %s, and the kubelet keeps %s from pods "+
		"(systemReserved, kubeReserved and evictionHard): they must be equal", place.Quantity(topo.Memory, sum),
		place.Quantity(topo.Memory, max(0, kept)))
	for _, reason := range r.Obstacles(m) {
		out = append(out, reason.Text())
	}
	return out
}

// The state files of the managers, in the kubelet's directory.
const (
	cpuState    = "cpu_manager_state"
	memoryState = "memory_manager_state"
)

// stateFiles are those that a kubelet refuses when it starts with other rules on a drained node, on which some holdings
// stay (cpumanager/policy_static.go, validateState and cpumanager/state/state_checkpoint.go; memorymanager the same).
func stateFiles(n *ledger.Node, r place.Rules, stay []place.Holding) []string {
	out := []string{}
	was := n.Rules
	cpus := was.CPU.Static != r.CPU.Static
	if r.CPU.Static && was.CPU.Static {
		// The shared CPUs in the file have to contain the reserved ones, or under strict-cpu-reservation none of them.
		cpus = was.CPU.StrictReservation != r.CPU.StrictReservation ||
			r.CPU.StrictReservation && !was.CPU.Reserved.Equal(r.CPU.Reserved)
		for _, h := range stay {
			cpus = cpus || h.CPUs.AndLen(r.CPU.Reserved) > 0
		}
	}
	if cpus {
		out = append(out, cpuState)
	}
	if was.Memory.Static != r.Memory.Static || r.Memory.Static && !slices.Equal(was.Memory.Reserved, r.Memory.Reserved) {
		out = append(out, memoryState)
	}
	return out
}
