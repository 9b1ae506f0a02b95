package rollout

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file writes rules as a KubeletConfiguration, and finds out whether a kubelet accepts them and which of its
// state files it refuses afterwards.

// settings are the rules of a node in two forms: wire as in a NodeLayout, and fields as the fields of a
// KubeletConfiguration, by name.
type settings struct {
	wire   v1alpha1.Rules
	fields map[string]any
}

// rulesOf returns the rules of a node as settings.
func rulesOf(n *state.Node) settings {
	s := settings{wire: v1alpha1.FromCore(n.Name, n.Machine, n.Rules, nil, nil).Rules}
	r := s.wire
	s.fields = map[string]any{"topologyManagerPolicy": r.TopologyManagerPolicy,
		"topologyManagerScope": r.TopologyManagerScope,
		"cpuManagerPolicy":     r.CPUManagerPolicy, "memoryManagerPolicy": r.MemoryManagerPolicy,
		"reservedSystemCPUs":           string(r.ReservedCPUs),
		"topologyManagerPolicyOptions": options(r.TopologyManagerPolicyOptions),
		"cpuManagerPolicyOptions":      options(r.CPUManagerPolicyOptions)}
	s.fields["reservedMemory"] = reservedMemory(r.ReservedMemory)
	return s
}

// reservedMemory returns the field reservedMemory: one entry for each NUMA node, in the order of the reservations.
// Amounts are exact to the byte, because the kubelet compares their sum with what it keeps from pods.
func reservedMemory(of []v1alpha1.ReservedMemory) (out []any) {
	limits := map[int32]map[string]any{}
	for _, x := range of {
		if limits[x.NUMA] == nil {
			limits[x.NUMA] = map[string]any{}
			out = append(out, map[string]any{"numaNode": x.NUMA, "limits": limits[x.NUMA]})
		}
		limits[x.NUMA][x.Kind] = resource.NewQuantity(x.Bytes, resource.BinarySI).String()
	}
	return out
}

// options returns the fields of a struct of options as texts, by name. The struct is of the API, so it always
// encodes.
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

// changed returns the names of the fields in which o differs from s, in ascending order.
func (s settings) changed(o settings) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(s.fields)) {
		if line(name, s.fields[name]) != line(name, o.fields[name]) {
			out = append(out, name)
		}
	}
	return out
}

// line returns a field as one line of text.
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

// diff returns how the settings to differ from s: a line "- field: value" for each old value, and "+ field: value"
// for each new one.
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

// DropIn returns a file for the kubelet's --config-dir. With this file, a kubelet with the rules of the first node
// gets the rules of the second one. Both nodes have the same machine.
func DropIn(from, to *state.Node) (string, error) { return rulesOf(from).dropIn(rulesOf(to)) }

// dropIn returns a file for the kubelet's --config-dir. The kubelet merges it as a JSON merge patch: it adds options
// to the options of earlier files, and null removes one (cmd/kubelet/app/server.go, mergeKubeletConfigurations). An
// option that is turned off is removed and not set to "false", because "false" needs the option's feature gate too,
// and no kubelet starts with an option under policy none (cpumanager/policy_none.go).
func (s settings) dropIn(to settings) (string, error) {
	out := map[string]any{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
	for _, name := range s.changed(to) {
		out[name] = patch(s.fields[name], to.fields[name])
	}
	if to.wire.CPUManagerPolicy == "none" && s.wire.CPUManagerPolicy != "none" {
		out["cpuManagerPolicyOptions"] = nil // removes also options that earlier files set to false
	}
	text, err := yaml.Marshal(out)
	if err != nil {
		return "", fmt.Errorf("write the drop-in file: %w", err)
	}
	return string(text), nil
}

// patch returns the JSON merge patch from one value of a field to another. nil removes the field; an empty text is
// written as such, so that it replaces a text of an earlier file.
func patch(from, to any) any {
	after, isMap := to.(map[string]string)
	if unset(to) && (isMap || to == nil) {
		return nil
	}
	if !isMap {
		return to
	}
	all := map[string]any{}
	before, _ := from.(map[string]string)
	for option := range before {
		all[option] = nil
	}
	for option, value := range after {
		all[option] = value
	}
	return all
}

// refusals returns the reasons why a kubelet would not start with the rules r, or would serve no pods; empty if there
// are none. kept is the memory that the kubelet keeps from pods, in bytes; negative if it is not known.
func refusals(k kubeletAt, m *topo.Machine, r place.Rules, kept int64) []string {
	if k.release > 0 {
		r.Release = k.release.Nearest()
	}
	out := []string{}
	if err := r.Validate(m); err != nil {
		return append(out, err.Error())
	}
	start := place.Startup{Gates: k.gates, Kept: map[string]int64{"cpu": int64(r.CPU.Reserved.Len()) * 1000}}
	if kept >= 0 {
		start.Kept[topo.Memory] = kept
	}
	for _, f := range r.StartFaults(m, start) {
		out = append(out, f.Text)
	}
	if r.CPU.Static && r.CPU.Reserved.Len() >= m.CPUs().Len() {
		out = append(out, "reservedSystemCPUs leaves no CPU for pods")
	}
	for _, reason := range r.Obstacles(m) {
		out = append(out, reason.Text())
	}
	return out
}

// kubeletAt describes the kubelet that will start with the new rules.
type kubeletAt struct {
	release place.Release // 0: not known
	gates   map[string]bool
}

func kubeletOf(version string, gates map[string]bool) kubeletAt {
	r, _ := place.ReleaseOf(version)
	return kubeletAt{release: r, gates: gates}
}

// The state files of the managers, in the kubelet's directory.
const (
	cpuState    = "cpu_manager_state"
	memoryState = "memory_manager_state"
)

// stateFiles returns the names of the state files that a kubelet refuses when it starts with the rules r on the
// drained node n. staying are the holdings of the pods that a drain leaves (cpumanager/policy_static.go,
// validateState and cpumanager/state/state_checkpoint.go; memorymanager the same).
func stateFiles(n *state.Node, r place.Rules, staying []place.Holding) []string {
	out := []string{}
	was := n.Rules
	refused := was.CPU.Static != r.CPU.Static
	if r.CPU.Static && was.CPU.Static {
		// The file's shared CPUs have to contain the reserved ones; under strict-cpu-reservation they must contain
		// none of them.
		refused = was.CPU.StrictReservation != r.CPU.StrictReservation ||
			r.CPU.StrictReservation && !was.CPU.Reserved.Equal(r.CPU.Reserved)
		for _, h := range staying {
			refused = refused || h.CPUs.AndLen(r.CPU.Reserved) > 0
		}
	}
	if refused {
		out = append(out, cpuState)
	}
	if was.Memory.Static != r.Memory.Static || r.Memory.Static && !slices.Equal(was.Memory.Reserved, r.Memory.Reserved) {
		out = append(out, memoryState)
	}
	return out
}
