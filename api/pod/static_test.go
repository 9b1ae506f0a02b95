package pod_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/api/pod"
)

// plain is a pod of node n.
func plain(uid string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod-" + uid, UID: types.UID(uid)},
		Spec: v1.PodSpec{NodeName: "n"}}
}

// mirror is a pod as the kubelet of node n creates it for the static pod of a UID.
func mirror(uid, static string) *v1.Pod {
	p, yes := plain(uid), true
	p.Annotations = map[string]string{"kubernetes.io/config.mirror": static, "kubernetes.io/config.hash": static,
		"kubernetes.io/config.source": "file"}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", UID: "node", Controller: &yes}}
	return p
}

// TestKubeletUIDs gives every lie that a user may write to pods, beside honest pods: these keep their UIDs, no two pods
// have one UID, and no liar has that of another.
func TestKubeletUIDs(t *testing.T) {
	changed := func(p *v1.Pod, how func(*v1.Pod)) *v1.Pod { how(p); return p }
	lies := map[string]*v1.Pod{
		"none":                        plain("liar"),
		"hash of a pod":               changed(plain("liar"), annotate("kubernetes.io/config.hash", "honest")),
		"hash of a static pod":        changed(plain("liar"), annotate("kubernetes.io/config.hash", "0ff")),
		"hash of nobody":              changed(plain("liar"), annotate("kubernetes.io/config.hash", "made-up")),
		"source":                      changed(plain("liar"), annotate("kubernetes.io/config.source", "file")),
		"mirror without owner":        changed(mirror("liar", "honest"), func(p *v1.Pod) { p.OwnerReferences = nil }),
		"mirror of a Deployment":      owned("v1", "ReplicaSet", "n", true),
		"mirror of another node":      owned("v1", "Node", "m", true),
		"mirror of a Node of a CRD":   owned("x/v1", "Node", "n", true),
		"mirror not controlled":       owned("v1", "Node", "n", false),
		"whole mirror of a pod":       mirror("liar", "honest"),
		"whole mirror of a mirror":    mirror("liar", "real"),
		"whole mirror of nobody":      mirror("liar", "made-up"),
		"whole mirror without a hash": mirror("liar", ""),
	}
	for name, liar := range lies {
		want := map[types.UID]string{"honest": "honest", "real": "0ff"}
		if !pod.Mirror(liar) {
			want["liar"] = "liar"
		} else if name == "whole mirror of nobody" {
			want["liar"] = "made-up"
		}
		for _, pods := range [][]*v1.Pod{{liar, plain("honest"), mirror("real", "0ff")},
			{plain("honest"), mirror("real", "0ff"), liar}} {
			if got := pod.KubeletUIDs(pods); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: UIDs at the kubelet are %v, want %v", name, got, want)
			}
		}
	}
	real, liar := mirror("real", "0ff"), mirror("liar", "0ff")
	for _, statuses := range []int{0, 1, 2} {
		want := "map[honest:honest]"
		if statuses == 1 {
			want = "map[honest:honest real:0ff]"
		}
		real.Status.ContainerStatuses = make([]v1.ContainerStatus, min(1, statuses))
		liar.Status.ContainerStatuses = make([]v1.ContainerStatus, statuses/2)
		if got := pod.KubeletUIDs([]*v1.Pod{liar, plain("honest"), real}); fmt.Sprint(got) != want {
			t.Errorf("two mirrors of one static pod, %d with a status: UIDs at the kubelet are %v, want %s", statuses, got, want)
		}
	}
}

func annotate(key, value string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Annotations = map[string]string{key: value} }
}

// owned is a mirror with another owner.
func owned(version, kind, name string, controller bool) *v1.Pod {
	p := mirror("liar", "0ff")
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: name, Controller: &controller}}
	return p
}
