package stage

import (
	"context"
	"errors"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tenon-numa/tenon/cluster/kube"
)

const kata = `
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: kata}
handler: kata
overhead: {podFixed: {cpu: 250m, memory: 160Mi}}
scheduling:
  nodeSelector: {kata: "true"}
  tolerations: [{key: kata, operator: Exists, effect: NoSchedule}]
---
`

const ofClass = `
apiVersion: v1
kind: Pod
metadata: {name: x}
spec: {runtimeClassName: kata, containers: [{name: c, image: i, resources: {limits: {cpu: 2, memory: 1Gi}}}]}
`

// A pod gets the overhead, node selector and tolerations of its runtime class, which is in the file or in the cluster.
func TestRuntimeClassesChangePods(t *testing.T) {
	nodes := []v1.Node{node("a", func(n *v1.Node) {
		n.Labels["kata"] = "true"
		n.Spec.Taints = []v1.Taint{{Key: "kata", Effect: v1.TaintEffectNoSchedule}}
	}), node("b", nil)}
	s := made(t, nodes)
	w := read(t, s, kata+ofClass)
	if w.Want.Needs["cpu"] != 2250 || len(w.Want.Bars.Why[0]) != 0 || len(w.Want.Bars.Why[1]) != 1 ||
		len(w.Unjudged) != 0 {
		t.Errorf("needs %v, bars %v, not judged %v; want 2250 CPUs on a alone", w.Want.Needs, w.Want.Bars.Why, w.Unjudged)
	}
	if got := strings.Join(read(t, s, ofClass).Unjudged, ", "); !strings.HasPrefix(got, "runtime class kata (") {
		t.Errorf("a class that is not known: %q is not judged", got)
	}
	s.admission = &kube.Admission{Classes: map[string]*nodev1.RuntimeClass{"kata": {Scheduling: &nodev1.Scheduling{
		NodeSelector: map[string]string{"other": "x"}}}}, Bounds: map[string][]string{"default": {"limitrange ml"}}}
	w = read(t, s, ofClass)
	if len(w.Want.Bars.Why[0]) == 0 || strings.Join(w.Unjudged, ", ") != "limitrange ml" {
		t.Errorf("bars %v, not judged %v; want the class and the limit range of the cluster", w.Want.Bars.Why, w.Unjudged)
	}
}

func TestPodsThatAdmissionRefusesAreNamed(t *testing.T) {
	s := made(t, []v1.Node{node("a", nil)})
	s.admission = &kube.Admission{Classes: map[string]*nodev1.RuntimeClass{}}
	for text, want := range map[string]string{
		ofClass: "Pod default/x: spec.runtimeClassName: the cluster has no runtime class kata",
		strings.Replace(ofClass, "runtimeClassName: kata", "overhead: {cpu: 250m}", 1): "spec.overhead: only a runtime class",
		kata + strings.Replace(ofClass, "spec: {", "spec: {overhead: {cpu: 1}, ", 1):   "spec.overhead: differs from that of",
		kata + strings.Replace(ofClass, "spec: {", "spec: {nodeSelector: {kata: no-way}, ",
			1): "spec.nodeSelector: kata is no-way " +
			"in the pod and true in the runtime class kata",
	} {
		if _, _, err := s.Workloads([]byte(text), "default"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\nerror %v, want %q", text, err, want)
		}
	}
}

// server answers a trial with the pod that it stores, or with errors.
type server struct {
	stored           v1.Pod
	refused, unasked error
	asked            *v1.Pod
}

func (s *server) Create(_ context.Context, p *v1.Pod) (*v1.Pod, error, error) {
	s.asked = p
	return &s.stored, s.refused, s.unasked
}

// A pod is judged as the API server would store it. A pod that it refuses is an error, and where it cannot be asked the
// cause is named.
func TestTheAPIServerIsAskedAboutPods(t *testing.T) {
	s := made(t, []v1.Node{node("a", nil)})
	api := &server{stored: v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c",
		Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{"cpu": resource.MustParse("3")}}}}}}}
	w := read(t, s.Asking(t.Context(), api), pod(""))
	if !w.Asked || w.Want.Needs["cpu"] != 3000 || api.asked.Name != "x" ||
		len(api.asked.Spec.Containers[0].Resources.Requests) > 0 {
		t.Errorf("asked with %+v, judged with %v", api.asked, w.Want.Needs)
	}
	api.unasked = errors.New("you may not create pods")
	w = read(t, s.Asking(t.Context(), api), pod(""))
	if w.Asked || strings.Join(w.Unjudged, ", ") != "what the API server says of the pod (not asked: you may not "+
		"create pods)" {
		t.Errorf("not judged: %v", w.Unjudged)
	}
	api.refused, api.unasked = errors.New("exceeded quota"), nil
	if _, _, err := s.Asking(t.Context(), api).Workloads([]byte(pod("")), "default"); err == nil ||
		!strings.Contains(err.Error(), "the API server refuses the pod (asked by a dry run): exceeded quota") {
		t.Errorf("error %v", err)
	}
}

// The API server's admission compares a pod with its PriorityClass, which nothing reads here: that is said.
func TestWhatPriorityClassesDecideIsNotJudged(t *testing.T) {
	s := &Stage{}
	for fields, want := range map[string]string{
		"":                                       "",
		"preemptionPolicy: Never":                "whether spec.preemptionPolicy is that of the pod's priority class",
		"preemptionPolicy: PreemptLowerPriority": "",
		"priority: 7":                            "whether spec.priority is that of the pod's priority class (if not,",
		"priorityClassName: high":                "whether the cluster has the priority class high",
		"priorityClassName: system-node-critical": "",
	} {
		text := "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers: [{name: c, image: i}]\n  " + fields
		got := strings.Join(read(t, s, text).Unjudged, ", ")
		if !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("%s: not judged %q, want %q", fields, got, want)
		}
	}
}
