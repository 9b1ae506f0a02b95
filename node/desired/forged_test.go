package desired

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// forged returns the observation with other annotations and owners of its pods.
func (o Observation) forged(annotations map[string]map[string]string, owners map[string]string) Observation {
	var pods []*v1.Pod
	yes := true
	for _, p := range o.Pods {
		p := p.DeepCopy()
		p.Spec.NodeName, p.Annotations = "node-a", annotations[p.Name]
		if kind := owners[p.Name]; kind != "" {
			p.Status.StartTime = nil // a kubelet writes it, when it starts the pod
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: kind, Name: "node-a", Controller: &yes}}
		}
		pods = append(pods, p)
	}
	o.Pods = PodsOf(pods)
	return o
}

// A layout lists what each pod holds at the kubelet, whatever UID the pod's author has written to its annotations.
func TestForgedUIDs(t *testing.T) {
	o := observed(t).runs("honest", "liar").lists("honest", "liar").cpus(t, "0,5-7",
		`{"uid-honest":{"main":"1-2"},"uid-liar":{"main":"3-4"}}`)
	for lie, annotations := range map[string]map[string]string{
		"no UID":            {"kubernetes.io/config.hash": "made-up"},
		"the UID of a pod":  {"kubernetes.io/config.hash": "uid-honest"},
		"a file":            {"kubernetes.io/config.hash": "uid-honest", "kubernetes.io/config.source": "file"},
		"a long text":       {"kubernetes.io/config.hash": string(make([]byte, 1<<16))},
		"nothing in a text": {"kubernetes.io/config.hash": " "},
	} {
		play(t, step{lie, o.forged(map[string]map[string]string{"liar": annotations}, nil), 1,
			"layout [liar=3-4 honest=1-2]"})
	}
}

// A static pod has the UID that its mirror names. The kubelet does not list another pod that claims to be a mirror of
// it, so that pod takes nothing from it. Without a credible mirror, the holdings come from the kubelet's service.
func TestForgedMirrors(t *testing.T) {
	mirrors := func(of string) map[string]string { return map[string]string{"kubernetes.io/config.mirror": of} }
	o := observed(t).runs("honest", "static", "liar").lists("honest", "static").cpus(t, "0,5-7",
		`{"uid-honest":{"main":"1-2"},"0ff":{"main":"3-4"}}`)
	o.Kubelet.Listed[1].Containers[0].CPUs = o.Kubelet.CPU.Containers["0ff"]["main"]
	node := map[string]string{"static": "Node", "liar": "Node"}
	for _, of := range []string{"0ff", "uid-honest", "made-up", ""} {
		all := map[string]map[string]string{"static": mirrors("0ff"), "liar": mirrors(of)}
		play(t, step{"a mirror of " + of, o.forged(all, node), 1, "layout [honest=1-2 static=3-4]"})
		all["static"] = mirrors("uid-honest")
		play(t, step{"a lie in the place of the mirror, and one of " + of, o.forged(all, node), 1,
			"layout [honest=1-2 static=3-4]"})
	}
	if p, ok := o.Pods.Pod("ns", "honest"); !ok || types.UID(p.StateUID) != "uid-honest" {
		t.Errorf("a pod without a mirror has UID %q at the kubelet", p.StateUID)
	}
}
