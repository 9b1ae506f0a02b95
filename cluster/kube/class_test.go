package kube

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/kubectl/pkg/util/qos"
	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/core/place"
)

// drawRequirements draws requests and limits that are often equal, missing or zero.
func drawRequirements(t *rapid.T, label string) v1.ResourceRequirements {
	var r v1.ResourceRequirements
	for _, name := range []v1.ResourceName{"cpu", "memory", "hugepages-2Mi", "ephemeral-storage", "acme.com/gpu"} {
		amounts := rapid.SampledFrom([]string{"", "0", "1", "1000m", "2", "1Gi", "1024Mi", "0.5", "1n", "1e15"})
		request := amounts.Draw(t, label+" request of "+string(name))
		limit := request
		if !rapid.Bool().Draw(t, label+" limit is request of "+string(name)) {
			limit = amounts.Draw(t, label+" limit of "+string(name))
		}
		set(&r.Requests, name, request)
		set(&r.Limits, name, limit)
	}
	return r
}

// set writes an amount. It makes a missing list, so that some lists are nil.
func set(list *v1.ResourceList, name v1.ResourceName, amount string) {
	if amount == "" {
		return
	}
	if *list == nil {
		*list = v1.ResourceList{}
	}
	(*list)[name] = resource.MustParse(amount)
}

func drawPod(t *rapid.T) *v1.Pod {
	p := &v1.Pod{}
	for range rapid.IntRange(0, 2).Draw(t, "init containers") {
		p.Spec.InitContainers = append(p.Spec.InitContainers, v1.Container{Resources: drawRequirements(t, "init container")})
	}
	for range rapid.IntRange(0, 3).Draw(t, "containers") {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Resources: drawRequirements(t, "container")})
	}
	if rapid.IntRange(0, 3).Draw(t, "pod-level resources") == 0 {
		r := drawRequirements(t, "pod")
		p.Spec.Resources = &r
	}
	p.Status.QOSClass = rapid.SampledFrom([]v1.PodQOSClass{"", "", "", "", v1.PodQOSGuaranteed, v1.PodQOSBurstable,
		v1.PodQOSBestEffort}).Draw(t, "status")
	return p
}

// Package api/pod computes the class of a pod, and whether it has resources of its own, so that its importers need
// neither kubectl's module nor component-helpers. Here the results are compared with Kubernetes' own functions.
func TestClassIsThatOfKubernetes(t *testing.T) {
	classes := map[v1.PodQOSClass]place.QoS{v1.PodQOSGuaranteed: place.Guaranteed, v1.PodQOSBurstable: place.Burstable,
		v1.PodQOSBestEffort: place.BestEffortQoS}
	rapid.Check(t, func(t *rapid.T) {
		p := drawPod(t)
		got, err := pod.ToPlace(p)
		if err != nil {
			t.Skip(err)
		}
		if want := classes[qos.GetPodQOS(p)]; got.QoS != want {
			t.Errorf("class %v, Kubernetes says %v", got.QoS, want)
		}
		if want := resourcehelper.IsPodLevelResourcesSet(p); got.PodLevel != want {
			t.Errorf("pod-level resources %t, Kubernetes says %t", got.PodLevel, want)
		}
	})
}
