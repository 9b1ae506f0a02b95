package apply

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/tenon-numa/tenon/api/document"
)

// This file refuses what a plan must not bring to a node. A plan is a file that anybody may have written, and the
// program that reads its values runs as root.

// stateFiles are the files that a change may put aside.
var stateFiles = []string{"cpu_manager_state", "memory_manager_state", "dra_manager_state"}

// dropInFields are the fields of a KubeletConfiguration that plans change.
var dropInFields = []string{"apiVersion", "kind", "topologyManagerPolicy", "topologyManagerScope",
	"topologyManagerPolicyOptions", "cpuManagerPolicy", "cpuManagerPolicyOptions", "memoryManagerPolicy",
	"reservedSystemCPUs", "reservedMemory"}

// maxDropIn bounds a drop-in file; it becomes part of an annotation.
const maxDropIn = 64 << 10

// accept returns an error where a plan has values for a node that plans never have.
func accept(n document.KubeletPlanNode) error {
	if why := validation.IsDNS1123Subdomain(n.Name); len(why) > 0 {
		return fmt.Errorf("the plan names the node %.80q, which no node is called: %s; plan again", n.Name, why[0])
	}
	for _, f := range n.StateFiles {
		if !slices.Contains(stateFiles, f) {
			return fmt.Errorf("node %s: the plan removes %.80q, which is no state file of a kubelet's managers (%s): "+
				"plan again", n.Name, f, strings.Join(stateFiles, ", "))
		}
	}
	if len(n.DropIn) > maxDropIn {
		return fmt.Errorf("node %s: the drop-in file of the plan has %d bytes, more than %d: plan again", n.Name,
			len(n.DropIn), maxDropIn)
	}
	var fields map[string]any
	if err := yaml.UnmarshalStrict([]byte(n.DropIn), &fields); err != nil {
		return fmt.Errorf("node %s: parse the drop-in file of the plan: %w", n.Name, err)
	}
	for name := range fields {
		if !slices.Contains(dropInFields, name) {
			return fmt.Errorf("node %s: the plan sets %.80q, which plans do not change: plan again", n.Name, name)
		}
	}
	return nil
}

// check refuses options that cannot be passed to a node.
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

// plainPath reports whether node.sh takes a path.
func plainPath(path string) bool {
	return strings.HasPrefix(path, "/") && !slices.Contains(strings.Split(path, "/"), "..") &&
		strings.IndexFunc(path, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("/._+:@-", r)
		}) < 0
}
