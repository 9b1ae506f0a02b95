package kube_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/tenon-numa/tenon/cluster/kube"
)

func TestSelectorsThatSelectNothingAreErrors(t *testing.T) {
	nodes := map[string]labels.Set{"b": {"pool": "gpu"}, "a": {"pool": "gpu", "zone": "west"}, "c": nil}
	for selector, want := range map[string]string{
		"pool=gpu":         "a b",
		"pool=gpu,zone":    "a",
		"!pool":            "c",
		"pool=cpu":         `no node matches the selector "pool=cpu"`,
		"poool=gpu":        `no node matches the selector "poool=gpu": none has a label poool; pool may be meant`,
		"rack in (1)":      "none has a label rack; there are pool, zone",
		"pool==gpu,,zone=": "selector",
	} {
		got, err := kube.Selected("node", selector, nodes)
		if err != nil {
			got = []string{err.Error()}
		}
		if text := strings.Join(got, " "); text != want && (err == nil || !strings.Contains(text, want)) {
			t.Errorf("%s: %s, want %s", selector, text, want)
		}
		if err == nil && !slices.IsSorted(got) {
			t.Errorf("%s: %v is not sorted", selector, got)
		}
	}
}
