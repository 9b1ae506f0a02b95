package capacity

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/provisioning"
)

// names has a request of a namespace name one template more often, or others.
func (w *world) names(t *testing.T, request, namespace string, templates ...string) {
	t.Helper()
	o, _, _ := w.objects.GetByKey("ml/" + request)
	r, _ := o.(*provisioning.Request)
	if err := w.objects.Delete(r); err != nil {
		t.Fatal(err)
	}
	r.Namespace = namespace
	for _, name := range templates {
		r.Spec.PodSets = append(r.Spec.PodSets, provisioning.PodSet{Count: 1,
			PodTemplateRef: provisioning.Reference{Name: name}})
	}
	if err := w.objects.Add(r); err != nil {
		t.Fatal(err)
	}
}

// Of a template, only what pods are judged by is kept, and once for all sets of a request that name it.
func TestWhatIsKeptOfTemplates(t *testing.T) {
	w := newWorld(t, 4, 32)
	reads := 0
	w.delay = func() { reads++ }
	w.ask("a", 1, 1)
	long := strings.Repeat("x", 1<<20)
	x := &w.templates["a"].Template
	x.Annotations = map[string]string{"a.com/long": long, "note": "x", "tenon.sh/align-ignore": "memory"}
	x.Spec.Containers[0].Env = []v1.EnvVar{{Name: "TEXT", Value: long}}
	x.Spec.Containers[0].Command, x.Spec.Containers[0].Args = []string{long}, []string{long}
	x.Spec.Containers[0].LivenessProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{
		Exec: &v1.ExecAction{Command: []string{long}}}}
	x.Spec.Volumes = []v1.Volume{{Name: "texts", VolumeSource: v1.VolumeSource{
		DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{{Path: long}}}}}}
	w.names(t, "a", "ml", strings.Split(strings.Repeat("a ", 30)+"a", " ")...)
	w.round(t.Context())
	w.wants(t, "a", provisioning.Provisioned, "True: all 32 pods fit now")
	sets := w.known["ml/a"].sets
	for i := range sets {
		if sets[i].pod != sets[0].pod || sets[i].Set != i {
			t.Fatalf("set %d has a pod of its own, or number %d", i, sets[i].Set)
		}
	}
	if n := sets[0].pod.Size(); n > 1<<10 {
		t.Errorf("%d bytes of a template are kept", n)
	}
	if sets[0].pod.Annotations["tenon.sh/align-ignore"] != "memory" {
		t.Error("what decides is not kept")
	}
	if reads != 2 { // and the status was written once
		t.Errorf("a template of one name was read %d times", reads-1)
	}
}

// A template that asks for too much fails its request. What all requests of a namespace ask for is bounded, and those
// of other namespaces are answered.
func TestRequestsThatAskForTooMuch(t *testing.T) {
	w := newWorld(t, 1, 8)
	labels := map[string]string{}
	for i := range 1_000 {
		labels[fmt.Sprintf("%040d", i)] = "value"
	}
	w.ask("long", 1, 1)
	w.templates["long"].Template.Spec.NodeSelector = labels
	w.templates["long"].Template.Labels = labels
	w.round(t.Context())
	w.wants(t, "long", provisioning.Failed, "True: PodTemplate long: what its pods are judged by has")

	var many []string
	for i := range maxSets {
		name := fmt.Sprint("large", i)
		w.ask(name, 1, 5)
		o, _, _ := w.objects.GetByKey("ml/" + name)
		_ = w.objects.Delete(o)
		w.templates[name].Template.Labels = labels
		many = append(many, name)
	}
	for i := range 8 {
		w.time = w.time.Add(time.Second)
		name := fmt.Sprint("many", i)
		w.ask(name, 40, 5)
		w.names(t, name, "ml", many[1:]...)
	}
	w.time = w.time.Add(time.Second)
	w.ask("other", 1, 1)
	w.names(t, "other", "web")
	for range 3 {
		w.round(t.Context())
	}
	w.wants(t, "many0", provisioning.Provisioned, "False: 2 of 71 pods fit now")
	w.wants(t, "many7", provisioning.Provisioned, "False: not now: what the requests of this namespace ask for")
	o, _, _ := w.objects.GetByKey("web/other")
	if r, _ := o.(*provisioning.Request); !r.Is(provisioning.Provisioned) {
		t.Errorf("a request of another namespace has %v", r.Status.Conditions)
	}
	for i := range 7 { // the first are gone
		o, _, _ := w.objects.GetByKey(fmt.Sprint("ml/many", i))
		_ = w.objects.Delete(o)
	}
	w.time = w.time.Add(longReread)
	w.round(t.Context())
	w.wants(t, "many7", provisioning.Provisioned, "False: 2 of 71 pods fit now")
}

// Of a request's object, only what the controller reads is kept, and of other classes nothing but the name.
func TestWhatIsKeptOfRequests(t *testing.T) {
	w := newWorld(t, 1, 8)
	w.ask("a", 1, 1)
	o, _, _ := w.objects.GetByKey("ml/a")
	r, _ := o.(*provisioning.Request)
	r.Labels, r.Annotations = map[string]string{"a": "b"}, map[string]string{"a": "b"}
	r.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}}
	kept, err := without(r)
	got, _ := kept.(*provisioning.Request)
	if err != nil || got.Labels != nil || got.Annotations != nil || got.ManagedFields != nil || got.UID != r.UID ||
		len(got.Spec.PodSets) != 1 || got.ResourceVersion != r.ResourceVersion {
		t.Errorf("kept: %v, %v", got, err)
	}
	r.Spec.ProvisioningClassName = "other"
	kept, _ = without(r)
	if got, _ := kept.(*provisioning.Request); len(got.Spec.PodSets) > 0 || got.Name != "a" {
		t.Errorf("of another class: %v", got)
	}
}
