package page

import (
	"fmt"

	"sigs.k8s.io/yaml"
)

// Archive is a downloadable archive of the kubectl plugin for a platform.
type Archive struct {
	OS, Arch string
	Name     string // of the file
	SHA256   string // in hexadecimal digits
}

// The types of krew's manifests (https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest).
type (
	krewPlugin struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Metadata   map[string]string `json:"metadata"`
		Spec       krewSpec          `json:"spec"`
	}
	krewSpec struct {
		Version          string         `json:"version"`
		Homepage         string         `json:"homepage"`
		ShortDescription string         `json:"shortDescription"`
		Description      string         `json:"description"`
		Platforms        []krewPlatform `json:"platforms"`
	}
	krewPlatform struct {
		Selector struct {
			MatchLabels map[string]string `json:"matchLabels"`
		} `json:"selector"`
		URI    string `json:"uri"`
		SHA256 string `json:"sha256"`
		Bin    string `json:"bin"`
	}
)

// Krew returns the plugin's manifest for krew's index. The URI of an archive is base/NAME.
func Krew(version, base string, archives []Archive) ([]byte, error) {
	p := krewPlugin{APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin",
		Metadata: map[string]string{"name": "tenon"},
		Spec: krewSpec{Version: "v" + version, Homepage: "https://github.com/tenon-numa/tenon",
			ShortDescription: "Show NUMA placement of pods, and why they wait",
			Description: "Draws what every container holds on every NUMA node, explains why a pod fits on a node or does\n" +
				"not, lists pods on more NUMA nodes than they need, and simulates what else would fit. Needs\n" +
				"Tenon's agents in the cluster for most commands; simulations of described machines need nothing.\n"}}
	for _, a := range archives {
		k := krewPlatform{URI: base + "/" + a.Name, SHA256: a.SHA256, Bin: pluginName + programExtension(a.OS)}
		k.Selector.MatchLabels = map[string]string{"os": a.OS, "arch": a.Arch}
		p.Spec.Platforms = append(p.Spec.Platforms, k)
	}
	out, err := yaml.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("write krew's manifest: %w", err)
	}
	return out, nil
}

// pluginName is the program that kubectl finds as kubectl tenon.
const pluginName = "kubectl-tenon"

func programExtension(os string) string {
	if os == "windows" {
		return ".exe"
	}
	return ""
}
