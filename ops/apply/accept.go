package apply

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// This file refuses values that a plan must not bring to a node. Anybody may have written the plan's file, and the
// program on the node that reads the values runs as root.

// stateFiles are the names of the files that a plan may remove from the kubelet's directory. dra_manager_state is not
// among them: it records the claims of pods, and no change of a policy makes it stale (pkg/kubelet/cm/dra/state,
// Kubernetes 1.36).
var stateFiles = []string{"cpu_manager_state", "memory_manager_state"}

// dropInFields are the fields of a KubeletConfiguration that plans change.
var dropInFields = []string{"apiVersion", "kind", "topologyManagerPolicy", "topologyManagerScope",
	"topologyManagerPolicyOptions", "cpuManagerPolicy", "cpuManagerPolicyOptions", "memoryManagerPolicy",
	"reservedSystemCPUs", "reservedMemory"}

// maxDropIn is the largest accepted drop-in file, in bytes. It is bounded because the kubelet's new file travels to
// the node in an annotation.
const maxDropIn = 64 << 10

// accept checks the part of a plan for one node. It returns an error for a node name, a state file or a field of the
// drop-in file that the planner never writes, and for a drop-in file that is too large.
func accept(node string, c Configuration) error {
	if why := validation.IsDNS1123Subdomain(node); len(why) > 0 {
		return fmt.Errorf("the plan names the node %.80q, which no node is called: %s; plan again", node, why[0])
	}
	for _, f := range c.StateFiles {
		if !slices.Contains(stateFiles, f) {
			return fmt.Errorf("node %s: the plan removes %.80q, which is no state file of a kubelet's managers (%s): "+
				"plan again", node, f, strings.Join(stateFiles, ", "))
		}
	}
	if len(c.DropIn) > maxDropIn {
		return fmt.Errorf("node %s: the drop-in file of the plan has %d bytes, more than %d: plan again", node,
			len(c.DropIn), maxDropIn)
	}
	if strings.ContainsAny(c.DropIn, "&*") { // no plan has aliases: a few bytes of them may expand to gigabytes
		return fmt.Errorf("node %s: the drop-in file of the plan has an alias or anchor: plan again", node)
	}
	var fields map[string]any
	if err := yaml.UnmarshalStrict([]byte(c.DropIn), &fields); err != nil {
		return fmt.Errorf("node %s: parse the drop-in file of the plan: %w", node, err)
	}
	for name := range fields {
		if !slices.Contains(dropInFields, name) {
			return fmt.Errorf("node %s: the plan sets %.80q, which plans do not change: plan again", node, name)
		}
	}
	return nil
}

// check returns an error for paths that node.sh refuses, and for commands that no environment variable can hold.
func (o PodOptions) check() error {
	for flag, path := range map[string]string{"config-dir": o.ConfigDir, "config": o.Config, "root-dir": o.Root} {
		if path != "" && !plainPath(path) {
			return fmt.Errorf("the kubelet's %s %.80q is not an absolute path of letters, digits and /._+:@-", flag, path)
		}
	}
	if strings.ContainsRune(o.Stop+o.Start, 0) {
		return errors.New("the commands that stop and start kubelets contain a NUL byte")
	}
	return nil
}

// plainPath reports whether node.sh accepts a path.
func plainPath(path string) bool {
	return strings.HasPrefix(path, "/") && !slices.Contains(strings.Split(path, "/"), "..") &&
		strings.IndexFunc(path, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("/._+:@-", r)
		}) < 0
}
