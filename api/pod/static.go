package pod

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Mirror reports whether a pod stands for a static pod. The annotation that marks it is written when the pod is
// created and never changes (pkg/apis/core/validation, ValidatePodSpecificAnnotationUpdates). Every user who may
// create pods may set it. But a kubelet never runs a pod that has the annotation. It deletes such a pod if it has no
// static pod of that name (pkg/kubelet, HandlePodCleanups).
func Mirror(p *v1.Pod) bool {
	_, marked := p.Annotations[v1.MirrorPodAnnotationKey]
	return marked
}

// StaticUID returns the UID of the static pod for which a pod claims to stand; "" for other pods. A kubelet may
// create a mirror pod only with its Node as controller (plugin/pkg/admission/noderestriction), so StaticUID returns
// "" for a mirror pod without this controller. A user may write the same controller, so the UID is only a claim.
// KubeletUIDs compares the claims of a node's pods.
func StaticUID(p *v1.Pod) string {
	o := metav1.GetControllerOfNoCopy(p)
	if !Mirror(p) || o == nil || o.APIVersion != "v1" || o.Kind != "Node" || o.Name != p.Spec.NodeName {
		return ""
	}
	return p.Annotations[v1.MirrorPodAnnotationKey]
}

// KubeletUIDs returns the UIDs under which a kubelet keeps the pods of its node, by the pods' UIDs at the API server.
// A pod that is no mirror always has its own UID. A mirror has the UID of its static pod, unless some pod has that
// UID at the API server. If several mirrors claim one UID, it goes to the mirror whose status has containers. If
// several of them have containers, or none has, no mirror gets it. Kubelets report no containers of pods that they do
// not run. So no two pods have the same UID, and a mirror may have none.
func KubeletUIDs(pods []*v1.Pod) map[types.UID]string {
	out := make(map[types.UID]string, len(pods))
	claims, taken := map[string][]*v1.Pod{}, map[string]bool{}
	for _, p := range pods {
		taken[string(p.UID)] = true
		if !Mirror(p) {
			out[p.UID] = string(p.UID)
		} else if uid := StaticUID(p); uid != "" {
			claims[uid] = append(claims[uid], p)
		}
	}
	for uid, all := range claims {
		if len(all) > 1 {
			all = slices.DeleteFunc(all, func(p *v1.Pod) bool {
				return len(p.Status.ContainerStatuses)+len(p.Status.InitContainerStatuses) == 0
			})
		}
		if len(all) == 1 && !taken[uid] {
			out[all[0].UID] = uid
		}
	}
	return out
}
