package doctor_test

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/kube/kubetest"
	"github.com/tenon-numa/tenon/ops/doctor"
)

// The answer names a resource that could not be read only where it might have changed the answer.
func TestWhatWasNotExaminedIsNamed(t *testing.T) {
	wait := func(w *world) { w.pods = append(w.pods, *kubetest.CPUs("waits", 1)) }
	for what, c := range map[string]struct {
		world func(*world)
		view  func(*kube.View)
		want  string // the resources that are named
	}{
		"everything was read": {nil, func(*kube.View) {}, ""},
		"pods of one namespace": {nil, func(v *kube.View) { v.Seen = &kube.Seen{Namespaces: []string{"default"}} },
			"pods"},
		"topologies, and every node has a layout": {nil, func(v *kube.View) { v.Miss("noderesourcetopologies", "no") }, ""},
		"topologies, and a node is unknown": {func(w *world) { w.noLayout = true },
			func(v *kube.View) { v.Miss("noderesourcetopologies", "no") }, "noderesourcetopologies"},
		"namespaces, and no pod waits": {nil, func(v *kube.View) { v.Miss("namespaces", "no") }, ""},
		"namespaces, and a pod waits":  {wait, func(v *kube.View) { v.Miss("namespaces", "no") }, "namespaces"},
		"what a live view lacks":       {nil, func(v *kube.View) { v.Miss("nodelayouts", "cannot be read") }, "nodelayouts"},
		"a pod with an amount beyond all bounds": {func(w *world) {
			w.pods[0].Spec.Containers[0].Resources.Requests[v1.ResourceMemory] = resource.MustParse("1Ei")
		}, func(*kube.View) {}, "pods"},
	} {
		w := healthy()
		if c.world != nil {
			c.world(w)
		}
		s := w.read(t)
		c.view(s.View)
		d, err := doctor.Examine(s, doctor.Options{})
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		var got []string
		for _, l := range d.Limits {
			got = append(got, l.Resource)
		}
		if !slices.Equal(got, strings.Fields(c.want)) {
			t.Errorf("%s: not examined %q, want %q", what, d.Limits, c.want)
		}
	}
}
