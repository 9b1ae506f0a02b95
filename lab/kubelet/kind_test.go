package kubelet_test

import (
	"encoding/json"
	"os"
	"testing"

	v1 "k8s.io/api/core/v1"
	configv1beta1 "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/tenon-numa/tenon/lab/machines"
)

// kindsOwn is what kind writes into the KubeletConfiguration of a node before it applies patches, apart from the
// object's metadata (kind at fed268827e21, pkg/cluster/internal/kubeadm/config.go).
const kindsOwn = `
cgroupDriver: systemd
cgroupRoot: /kubelet
failSwapOn: false
imageGCHighThresholdPercent: 100
evictionHard:
  nodefs.available: "0%"
  nodefs.inodesFree: "0%"
  imagefs.available: "0%"
`

// The kubelet of a node of kind takes the patch of docs/examples/kind.yaml, on a laptop and on a server, and aligns
// CPUs and memory.
func TestTheExampleForKind(t *testing.T) {
	config := kindNode(t)
	for name, c := range map[string]struct{ fits, refused string }{
		"laptop":  {fits: "4"},
		"xeon-2s": {fits: "40", refused: "60"},
	} {
		m, err := machines.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		a := managersOf(t, m, config)
		h := a.admit(t, "fits", "", map[v1.ResourceName]string{"cpu": c.fits, "memory": "1Gi"})
		if h.CPUs.Empty() || len(h.Memory) != 1 || h.Memory[0].NUMAs.Len() != 1 {
			t.Errorf("%s: the pod holds %+v, want CPUs, and memory of one NUMA node", name, h)
		}
		if c.refused != "" {
			a.admit(t, "refused", "TopologyAffinityError", map[v1.ResourceName]string{"cpu": c.refused, "memory": "1Gi"})
		}
	}
}

// kindNode returns the configuration of a kubelet in kind with the example's patch.
func kindNode(t *testing.T) *configv1beta1.KubeletConfiguration {
	t.Helper()
	data, err := os.ReadFile("../../docs/examples/kind.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cluster struct {
		Kind                 string              `json:"kind"`
		APIVersion           string              `json:"apiVersion"`
		Nodes                []map[string]string `json:"nodes"`
		KubeadmConfigPatches []string            `json:"kubeadmConfigPatches"`
	}
	if err := yaml.UnmarshalStrict(data, &cluster); err != nil {
		t.Fatal(err)
	}
	if cluster.APIVersion != "kind.x-k8s.io/v1alpha4" || len(cluster.Nodes) != 1 ||
		len(cluster.KubeadmConfigPatches) != 1 {
		t.Fatalf("the example is %+v, want one node and one patch", cluster)
	}
	own, patch := map[string]any{}, map[string]any{}
	if err := yaml.Unmarshal([]byte(kindsOwn), &own); err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict([]byte(cluster.KubeadmConfigPatches[0]), &patch); err != nil {
		t.Fatal(err)
	}
	mergePatch(own, patch)
	merged, err := json.Marshal(own)
	if err != nil {
		t.Fatal(err)
	}
	config := &configv1beta1.KubeletConfiguration{}
	if err := yaml.UnmarshalStrict(merged, config); err != nil {
		t.Fatal(err)
	}
	return config
}

// mergePatch changes a document by a merge patch (RFC 7386), as kind does.
func mergePatch(document, patch map[string]any) {
	for k, v := range patch {
		inner, isMap := v.(map[string]any)
		old, wasMap := document[k].(map[string]any)
		switch {
		case v == nil:
			delete(document, k)
		case isMap && wasMap:
			mergePatch(old, inner)
		default:
			document[k] = v
		}
	}
}
