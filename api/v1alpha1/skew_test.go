package v1alpha1_test

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tenon-numa/tenon/api/v1alpha1"
)

// A reader accepts layouts of later agents: it ignores sections, fields and codes that it does not have. An unknown
// value that decides what the kubelet does is an error that names it: the node is then unknown.
func TestLayoutsOfLaterAgents(t *testing.T) {
	for change, refused := range map[string]string{
		`"section": {"new": true}`:                                                          "",
		`"inexact": [{"code": "a-later-reason", "message": "something"}]`:                   "",
		`"kubelet": {"version": "v1.39.0", "later": 1}`:                                     "",
		`"rules": {"topologyManagerPolicy": "later-policy", "topologyManagerScope": "pod"}`: `"later-policy"`,
	} {
		var object, changed map[string]any
		const text = `{"metadata": {"name": "node"}, "machine": {"numas": [{"id": 0, "memory": 1024}],
			"cpus": [{"numa": 0, "cpus": ["0-3"]}]}, "rules": {"topologyManagerPolicy": "none",
			"topologyManagerScope": "container", "cpuManagerPolicy": "none", "memoryManagerPolicy": "None"}}`
		if err := json.Unmarshal([]byte(text), &object); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte("{"+change+"}"), &changed); err != nil {
			t.Fatal(err)
		}
		for k, v := range changed {
			object[k] = v
		}
		typed, err := v1alpha1.Typed(&unstructured.Unstructured{Object: object})
		if err != nil {
			t.Fatal(err)
		}
		_, err = typed.(*v1alpha1.NodeLayout).Core()
		if refused == "" && err != nil || refused != "" && (err == nil || !strings.Contains(err.Error(), refused)) {
			t.Errorf("a layout with %s: %v, want %q", change, err, refused)
		}
	}
}
