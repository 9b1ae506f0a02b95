package live

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/cluster/group"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/printable"
)

// This file removes the fields of objects that do not matter when pods are judged. Among these are environments and
// most volumes, which may hold secrets and take most of the memory. Labels are kept, because affinity and spreading
// depend on the labels of all pods.

// maxText bounds the texts of a status, in bytes.
const maxText = 2 << 10

// trimPod returns a copy of a pod with only the fields that pods are judged by.
func trimPod(p *v1.Pod) *v1.Pod {
	out := &v1.Pod{ObjectMeta: trimMeta(&p.ObjectMeta)}
	s := &p.Spec
	out.Spec = kube.JudgedSpec(s)
	out.Spec.Volumes = trimVolumes(s.Volumes)
	group.Keep(&out.Spec, s)
	t := &p.Status
	out.Status = v1.PodStatus{Phase: t.Phase, Reason: clip(t.Reason), Message: clip(t.Message),
		NominatedNodeName: t.NominatedNodeName, StartTime: t.StartTime, QOSClass: t.QOSClass,
		ResourceClaimStatuses: t.ResourceClaimStatuses, ExtendedResourceClaimStatus: t.ExtendedResourceClaimStatus}
	for i := range t.Conditions {
		if c := t.Conditions[i]; c.Type == v1.PodScheduled {
			c.Message = clip(c.Message)
			out.Status.Conditions = append(out.Status.Conditions, c)
		}
	}
	trimResize(p, &out.Status)
	// Whether a container has started matters only for pods with init containers.
	if len(s.InitContainers) > 0 && slices.ContainsFunc(t.ContainerStatuses, begun) {
		running := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
		out.Status.ContainerStatuses = append(out.Status.ContainerStatuses, v1.ContainerStatus{State: running})
	}
	return out
}

// trimResize copies to out what a pod takes while it is resized: what its kubelet has allocated, what its containers
// have, and why the resize is pending. It leaves out a container that runs and has what its spec requests, unless a
// resize is pending.
func trimResize(p *v1.Pod, out *v1.PodStatus) {
	pending := slices.IndexFunc(p.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodResizePending })
	spec := map[string]v1.ResourceList{}
	for _, list := range [][]v1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range list {
			spec[list[i].Name] = list[i].Resources.Requests
		}
	}
	trimStatuses := func(in []v1.ContainerStatus) (kept []v1.ContainerStatus) {
		for i := range in {
			s := &in[i]
			same := func(l v1.ResourceList) bool { return l == nil || equality.Semantic.DeepEqual(l, spec[s.Name]) }
			_, known := spec[s.Name]
			notRunning := known && stopped(p, s)
			sized := pending >= 0 || !same(s.AllocatedResources) || s.Resources != nil && !same(s.Resources.Requests)
			if !sized && !notRunning {
				continue
			}
			k := v1.ContainerStatus{Name: s.Name, AllocatedResources: s.AllocatedResources}
			if notRunning { // what a restart of the kubelet does depends on it
				k.State.Waiting = &v1.ContainerStateWaiting{}
			}
			if sized && s.Resources != nil {
				k.Resources = &v1.ResourceRequirements{Requests: s.Resources.Requests}
			}
			kept = append(kept, k)
		}
		return kept
	}
	if pending >= 0 {
		c := p.Status.Conditions[pending]
		out.Conditions = append(out.Conditions, v1.PodCondition{Type: c.Type, Status: c.Status, Reason: clip(c.Reason)})
	}
	out.ContainerStatuses = trimStatuses(p.Status.ContainerStatuses)
	out.InitContainerStatuses = trimStatuses(p.Status.InitContainerStatuses)
	if p.Spec.Resources != nil {
		kube.CopyWhole(out, &p.Status)
	}
}

// stopped reports whether a container waits or has ended. It returns false for ordinary init containers.
func stopped(p *v1.Pod, s *v1.ContainerStatus) bool {
	ordinary := slices.ContainsFunc(p.Spec.InitContainers, func(c v1.Container) bool {
		return c.Name == s.Name && (c.RestartPolicy == nil || *c.RestartPolicy != v1.ContainerRestartPolicyAlways)
	})
	return !ordinary && kube.Stopped(s)
}

// begun reports whether a container runs, or has run.
func begun(s v1.ContainerStatus) bool {
	return s.State.Running != nil || s.State.Terminated != nil || s.LastTerminationState.Terminated != nil
}

// clip returns the first maxText bytes of a text as a copy, so that the memory of the whole text is freed.
func clip(s string) string { return strings.Clone(printable.Clip(s, maxText)) }

// keptAnnotations are annotations of other programs that decide something.
var keptAnnotations = []string{v1.MirrorPodAnnotationKey, apipod.ConsumeAnnotation, apipod.ClassAnnotation,
	apipod.SafeToEvict, apipod.VolcanoGroup, apipod.KoordinatorGang, apipod.YuniKornGroup,
	apipod.JobSetExclusive, apipod.VolcanoPolicy, apipod.KoordinatorSpec}

// katalyst begins the names of annotations that package stage names in a warning, whatever their values.
const katalyst = "katalyst.kubewharf.io/"

// trimMeta keeps names, versions, times, labels, the controller, Tenon's annotations and some of others.
func trimMeta(m *metav1.ObjectMeta) metav1.ObjectMeta {
	out := metav1.ObjectMeta{Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp, Labels: m.Labels}
	for key, value := range m.Annotations {
		if strings.HasPrefix(key, "tenon.sh/") || slices.Contains(keptAnnotations, key) {
			if out.Annotations == nil {
				out.Annotations = map[string]string{}
			}
			out.Annotations[key] = clip(value)
		}
		if strings.HasPrefix(key, katalyst) {
			metav1.SetMetaDataAnnotation(&out, key, "")
		}
	}
	if o := metav1.GetControllerOfNoCopy(m); o != nil {
		out.OwnerReferences = []metav1.OwnerReference{*o}
	}
	return out
}

// onDisk stands for all volumes of a pod whose data are on the node's disk. Pods share it.
var onDisk = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}

// trimVolumes keeps the volumes that may tie the pod to nodes: claims, by their names, and data on the node's disk.
func trimVolumes(in []v1.Volume) (out []v1.Volume) {
	data := false
	for i := range in {
		switch v := &in[i]; {
		case v.PersistentVolumeClaim != nil:
			claim := &v1.PersistentVolumeClaimVolumeSource{ClaimName: v.PersistentVolumeClaim.ClaimName}
			out = append(out, v1.Volume{Name: v.Name, VolumeSource: v1.VolumeSource{PersistentVolumeClaim: claim}})
		case v.EmptyDir != nil:
			data = data || v.EmptyDir.Medium == v1.StorageMediumDefault
		case v.Ephemeral != nil: // its claim has the name of pod and volume
			out = append(out, v1.Volume{Name: v.Name, VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}})
		}
	}
	switch {
	case data && len(out) == 0:
		return onDisk
	case data:
		out = append(out, onDisk...)
	}
	return out
}

// trimNode keeps a node's labels, taints, allocatable amounts, capacity of memory, hugepages and devices, kubelet
// version and readiness.
func trimNode(n *v1.Node) *v1.Node {
	out := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: n.UID, ResourceVersion: n.ResourceVersion,
		CreationTimestamp: n.CreationTimestamp, Labels: n.Labels},
		Spec:   v1.NodeSpec{Taints: n.Spec.Taints, Unschedulable: n.Spec.Unschedulable},
		Status: v1.NodeStatus{Allocatable: n.Status.Allocatable, Capacity: v1.ResourceList{}}}
	for name, amount := range n.Status.Capacity { // for kube.KeptMemory, and devices for package stage
		if name == v1.ResourceMemory || strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix) ||
			strings.Contains(string(name), "/") {
			out.Status.Capacity[name] = amount
		}
	}
	out.Status.NodeInfo.KubeletVersion = n.Status.NodeInfo.KubeletVersion
	for _, c := range n.Status.Conditions {
		if c.Type == v1.NodeReady {
			out.Status.Conditions = []v1.NodeCondition{{Type: c.Type, Status: c.Status}}
		}
	}
	return out
}
