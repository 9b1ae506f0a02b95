package stage

import (
	"fmt"
	"runtime"
	"testing"
	"weak"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/provisioning"
	"github.com/tenon-numa/tenon/cluster/kube"
)

// Room that requests keep is read from a file, whenever it is read. Without pods in the file it is not known which
// of it has been used up.
func TestAFileHasWhatRequestsKeep(t *testing.T) {
	l := layout(t, "a")
	l.TypeMeta = metav1.TypeMeta{APIVersion: "tenon.sh/v1alpha1", Kind: "NodeLayout"}
	other := running("other", "a", "2", nil)
	other.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	came := running("came", "a", "3", func(p *v1.Pod) {
		p.Annotations = map[string]string{apipod.ConsumeAnnotation: "job", apipod.ClassAnnotation: apipod.Class}
	})
	came.TypeMeta = other.TypeMeta
	kind := metav1.TypeMeta{APIVersion: "autoscaling.x-k8s.io/v1", Kind: "ProvisioningRequest"}
	r := provisioning.Request{TypeMeta: kind, ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "job"},
		Spec: provisioning.Spec{ProvisioningClassName: apipod.Class, PodSets: []provisioning.PodSet{{Count: 2}}},
		Status: provisioning.Status{ProvisioningClassDetails: map[string]string{}, Conditions: []metav1.Condition{{
			Type: provisioning.Provisioned, Status: metav1.ConditionTrue}}}}
	asks := v1.Pod{Spec: v1.PodSpec{Containers: running("p", "", "3", nil).Spec.Containers}}
	if err := provisioning.SetBooked(r.Status.ProvisioningClassDetails, 0, []string{"a", "a"}, &asks); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		objects []any
		pods    int64
	}{
		"with pods":    {[]any{l, withKind(node("a", nil)), other, r}, 2},
		"one has come": {[]any{l, withKind(node("a", nil)), other, came, r}, 1},
		"without pods": {[]any{l, withKind(node("a", nil)), r}, 0},
	} {
		s, _, err := Export(exported(t, c.objects...))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := s.Nodes()[0].Kept["ml/job"]["pods"]; got != c.pods {
			t.Errorf("%s: room is kept for %d pods, want %d", name, got, c.pods)
		}
	}
}

// What pods request is the same in a stage that is made again as in one that is made anew, whichever pods came, went
// and ended, and in whatever order they are listed.
func TestAStageMadeAgainIsLikeANewOne(t *testing.T) {
	nodes := func() []v1.Node { return []v1.Node{node("a", nil), node("b", nil)} }
	pods := map[string]*kube.Whole{}
	store := func(p v1.Pod) *kube.Whole { w := kube.Whole(p); return &w }
	for _, name := range []string{"p", "q", "r"} {
		pods[name] = store(running(name, "a", "2", nil))
		pods["on-b-"+name] = store(running("on-b-"+name, "b", "1", nil))
	}
	ended := running("q", "a", "2", func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded })
	pods["ended"], pods["larger"] = store(ended), store(running("p", "a", "5", nil))
	again := &Requests{}
	for i, names := range [][]string{
		{"p", "q", "r", "on-b-p"}, {"p", "q", "r", "on-b-p"}, {"r", "on-b-p", "q", "on-b-q", "p"},
		{"p", "ended", "r", "on-b-q"}, {"larger", "r"}, {}, {"p", "on-b-r"},
	} {
		of := func(r *Requests) string {
			var list []kube.Stored
			for _, name := range names {
				list = append(list, pods[name])
			}
			s, err := assemble(nodes(), nil, list, r)
			if err != nil {
				t.Fatal(err)
			}
			var out string
			for _, n := range s.Nodes() {
				out += fmt.Sprint(n.Name, n.Used, n.Pods, "\n")
			}
			return out
		}
		if got, want := of(again), of(&Requests{}); got != want {
			t.Errorf("stage %d, made again, has %s; made anew %s", i, got, want)
		}
	}
}

// What is kept from stage to stage keeps no pods that are gone, also where other nodes have not changed since.
func TestPodsThatAreGoneAreNotKept(t *testing.T) {
	of, nodes := &Requests{}, []v1.Node{node("a", nil), node("b", nil)}
	store := func(p v1.Pod) *kube.Whole { w := kube.Whole(p); return &w }
	stays := store(running("stays", "a", "2", nil))
	var gone weak.Pointer[kube.Whole]
	for i := range 3 {
		other := store(running(fmt.Sprint("other", i), "b", "2", nil))
		if i == 0 {
			gone = weak.Make(other)
		}
		if _, err := assemble(nodes, nil, []kube.Stored{stays, other}, of); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	if gone.Value() != nil {
		t.Error("a pod that was on node b is kept with the pods of node a")
	}
	runtime.KeepAlive(of)
}
