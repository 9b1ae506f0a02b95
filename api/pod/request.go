package pod

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Class is the class of the ProvisioningRequests that tenon-scheduler answers, and ConsumeAnnotation and
// ClassAnnotation are the annotations of a pod that uses up the room of a request. Cluster Autoscaler defines them, and
// Kueue sets them.
const (
	Class             = "check-capacity.tenon.sh"
	ConsumeAnnotation = "autoscaling.x-k8s.io/consume-provisioning-request"
	ClassAnnotation   = "autoscaling.x-k8s.io/provisioning-class-name"
)

// Request returns the name of the ProvisioningRequest of Tenon's class whose room a pod uses up, "namespace/name", or
// "".
func Request(p *v1.Pod) string {
	name := p.Annotations[ConsumeAnnotation]
	if name == "" || p.Annotations[ClassAnnotation] != Class {
		return ""
	}
	return p.Namespace + "/" + name
}

// Owner returns the controller of a pod, "namespace/UID", or "". Room may be kept for the next pods of a controller.
func Owner(p *v1.Pod) string {
	owner := metav1.GetControllerOfNoCopy(p)
	if owner == nil || owner.UID == "" {
		return ""
	}
	return p.Namespace + "/" + string(owner.UID)
}
