package held_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	podapi "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/kube/kubetest"
)

// keep has a request of an owner keep devices.
func (w *world) keep(request, owner string, devices ...string) {
	for _, d := range devices {
		w.kept = append(w.kept, kube.KeptDevice{Driver: driver, Pool: "node", Name: d, Request: request,
			Until: time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)})
	}
	if owner != "" {
		w.owners = map[string]kube.KeptOwner{request: {Owner: owner, Since: 100}}
	}
}

// wait adds a pod without a node, and with a claim that has no devices.
func (w *world) wait(name string, change func(p *v1.Pod)) string {
	p := kubetest.CPUs(name, 1)
	p.UID = types.UID(name)
	p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpus", ResourceClaimTemplateName: new("gpus")}}
	change(p)
	w.pods = append(w.pods, *p)
	return name
}

// Devices are kept for the request that its status names first, unless a claim holds them, or no slice has them.
func TestKeptDevicesAreShown(t *testing.T) {
	w := newWorld()
	w.claim(0, "d1")
	w.keep("ml/b", "", "d0", "d1", "d3", "gone")
	w.keep("ml/a", "", "d3")
	want := []string{"d0@0 for ml/b until 2026-12-01T12:00:00Z", "d1@0 default/of-one(one)", "d2@1",
		"d3@1 for ml/a until 2026-12-01T12:00:00Z", "d4@?"}
	if got := w.node(t); !slices.Equal(got, want) {
		t.Errorf("the node has %q, want %q", got, want)
	}
}

// A pod that waits for devices has the devices that are kept for requests of others.
func TestPodsWaitForKeptDevices(t *testing.T) {
	w := newWorld()
	w.served = map[string]bool{"example.com/gpu": true}
	w.claim(0, "d1")
	w.keep("default/a", "default/set", "d0", "d1", "d2", "gone")
	w.keep("ml/b", "", "d3")
	others := map[string]string{
		w.wait("plain", func(*v1.Pod) {}): "[{node gpu.example.com 2 {default/a 2026-12-01T12:00:00Z}} " +
			"{node gpu.example.com 1 {ml/b 2026-12-01T12:00:00Z}}] 0",
		w.wait("of-request", func(p *v1.Pod) {
			p.Annotations = map[string]string{podapi.ConsumeAnnotation: "a", podapi.ClassAnnotation: podapi.Class}
		}): "[{node gpu.example.com 1 {ml/b 2026-12-01T12:00:00Z}}] 0",
		w.wait("of-owner", func(p *v1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", UID: "set", Controller: new(true)}}
			p.CreationTimestamp = metav1.Unix(100, 0)
		}): "[{node gpu.example.com 1 {ml/b 2026-12-01T12:00:00Z}}] 0",
		w.wait("older-than-the-request", func(p *v1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", UID: "set", Controller: new(true)}}
			p.CreationTimestamp = metav1.Unix(99, 0)
		}): "[{node gpu.example.com 2 {default/a 2026-12-01T12:00:00Z}} " +
			"{node gpu.example.com 1 {ml/b 2026-12-01T12:00:00Z}}] 0",
		w.wait("of-a-request-that-is-over", func(p *v1.Pod) {
			p.Annotations = map[string]string{podapi.ConsumeAnnotation: "over", podapi.ClassAnnotation: podapi.Class}
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", UID: "set", Controller: new(true)}}
			p.CreationTimestamp = metav1.Unix(100, 0)
		}): "[{node gpu.example.com 1 {ml/b 2026-12-01T12:00:00Z}}] 0",
		w.wait("extended", func(p *v1.Pod) {
			p.Spec.ResourceClaims = nil
			p.Spec.Containers[0].Resources.Limits["example.com/gpu"] = resource.MustParse("1")
			p.Spec.Containers[0].Resources.Requests["example.com/gpu"] = resource.MustParse("1")
		}): "[{node gpu.example.com 2 {default/a 2026-12-01T12:00:00Z}} " +
			"{node gpu.example.com 1 {ml/b 2026-12-01T12:00:00Z}}] 0",
		w.wait("without-claims", func(p *v1.Pod) { p.Spec.ResourceClaims = nil }): "",
		w.wait("bound", func(p *v1.Pod) { p.Spec.NodeName = "node" }):             "[] 0",
		"one": "[] 0",
	}
	all := w.of(t).Pods
	for uid, want := range others {
		got := ""
		for i := range w.pods {
			if p := &w.pods[i]; p.Name == uid && all[string(p.UID)] != nil {
				got = fmt.Sprint(all[string(p.UID)].Kept, " ", all[string(p.UID)].MoreKept)
			}
		}
		if got != want {
			t.Errorf("pod %s: kept are %s, want %s", uid, got, want)
		}
	}
}

// However many requests keep devices, a pod names a bounded number.
func TestKeptDevicesOfAPodAreBounded(t *testing.T) {
	w := newWorld()
	for i := range 100 {
		d := fmt.Sprint("x", i)
		w.Slices[0].Spec.Devices = append(w.Slices[0].Spec.Devices, w.Slices[0].Spec.Devices[0])
		w.Slices[0].Spec.Devices[len(w.Slices[0].Spec.Devices)-1].Name = d
		w.keep(fmt.Sprintf("ml/%03d", i), "", d)
	}
	w.wait("p", func(*v1.Pod) {})
	if p := w.of(t).Pods["p"]; len(p.Kept) != 32 || p.MoreKept != 68 || p.Kept[0].Request != "ml/000" {
		t.Errorf("%d entries, and %d more devices", len(p.Kept), p.MoreKept)
	}
}
