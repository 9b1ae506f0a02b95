package bundle

import (
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// This file lists the resources in a bundle, and the fields that it keeps of their objects.

// Resource is one resource of the API server. keep are the paths of the fields that a bundle keeps, with everything
// below them; "[]" in a path stands for each item of a list.
type Resource struct {
	schema.GroupVersionResource
	Kind string
	keep []string
	// only are the names of the objects that a bundle keeps; empty keeps all objects. It is set for resources that
	// other programs use, too.
	only []string
}

// String names the resource, for example "apps_v1_deployments".
func (r Resource) String() string { return key(r.GroupVersionResource) }

func key(r schema.GroupVersionResource) string {
	if r.Group == "" {
		return r.Version + "_" + r.Resource
	}
	return r.Group + "_" + r.Version + "_" + r.Resource
}

// namespaced reports whether the objects of one namespace are of use without the objects of others: a user of one
// namespace may have them.
func (r Resource) namespaced() bool {
	return slices.Contains([]string{"Pod", "PersistentVolumeClaim", "Event", "Deployment", "ReplicaSet", "StatefulSet",
		"DaemonSet", "Job", "PodDisruptionBudget", "ResourceClaim",
		"ResourceClaimTemplate", "ProvisioningRequest"}, r.Kind)
}

// metadata are the fields that are kept of every object. Annotations are kept by prefixes.
const metadata = `metadata.name metadata.generateName metadata.namespace metadata.uid metadata.resourceVersion
	metadata.labels metadata.creationTimestamp metadata.deletionTimestamp metadata.generation
	metadata.ownerReferences[].apiVersion metadata.ownerReferences[].kind metadata.ownerReferences[].name
	metadata.ownerReferences[].uid metadata.ownerReferences[].controller
	metadata.managedFields[].manager metadata.managedFields[].subresource metadata.managedFields[].operation
	metadata.managedFields[].time metadata.managedFields[].apiVersion`

// annotations are the prefixes of annotations that are kept.
var annotations = []string{"tenon.sh/", "kubernetes.io/config.mirror", "volcano.sh/", "scheduling.koordinator.sh/",
	"node.koordinator.sh/", "kubelet.koordinator.sh/", "pv.kubernetes.io/", "volume.kubernetes.io/",
	"topology.node.k8s.io/", "cluster-autoscaler.kubernetes.io/safe-to-evict", "scheduling.k8s.io/group-name",
	"gang.scheduling.koordinator.sh/name", "yunikorn.apache.org/task-group-name",
	"alpha.jobset.sigs.k8s.io/exclusive-topology", "autoscaling.x-k8s.io/consume-provisioning-request",
	"autoscaling.x-k8s.io/provisioning-class-name"}

const container = ".name CONTAINERS.image CONTAINERS.resources CONTAINERS.ports CONTAINERS.restartPolicy"

var podFields = strings.ReplaceAll("CONTAINERS"+container, "CONTAINERS", "spec.containers[]") + " " +
	strings.ReplaceAll("CONTAINERS"+container, "CONTAINERS", "spec.initContainers[]") + `
	spec.nodeName spec.schedulerName spec.priority spec.priorityClassName spec.preemptionPolicy spec.nodeSelector
	spec.affinity spec.tolerations spec.topologySpreadConstraints spec.overhead spec.resources spec.resourceClaims
	spec.schedulingGates spec.hostNetwork spec.runtimeClassName spec.restartPolicy spec.os spec.schedulingGroup
	spec.volumes[].name spec.volumes[].persistentVolumeClaim spec.volumes[].ephemeral spec.volumes[].emptyDir.medium
	spec.volumes[].gcePersistentDisk spec.volumes[].awsElasticBlockStore spec.volumes[].csi.driver
	status.phase status.conditions status.reason status.message status.nominatedNodeName status.startTime status.qosClass
	status.resize status.observedGeneration status.resourceClaimStatuses status.extendedResourceClaimStatus
	status.containerStatuses[].name status.containerStatuses[].ready status.containerStatuses[].restartCount
	status.containerStatuses[].state status.containerStatuses[].lastState status.containerStatuses[].resources
	status.containerStatuses[].allocatedResources
	status.initContainerStatuses[].name status.initContainerStatuses[].state status.initContainerStatuses[].lastState
	status.initContainerStatuses[].started status.initContainerStatuses[].ready`

const (
	workloadFields = `spec.replicas spec.selector status.replicas status.readyReplicas`
	eventFields    = `involvedObject reason message source type count firstTimestamp lastTimestamp eventTime action
	reportingComponent reportingInstance series`
)

func words(s string) []string { return strings.Fields(s) }

// Resources returns the resources of a bundle.
func Resources() []Resource {
	of := func(group, version, resource, kind, keep string, only ...string) Resource {
		return Resource{schema.GroupVersionResource{Group: group, Version: version, Resource: resource}, kind,
			words(metadata + " " + keep), only}
	}
	const (
		storage   = "storage.k8s.io"
		devices   = "resource.k8s.io"
		admission = "admissionregistration.k8s.io"
		policy    = "tenon-agent-writes-its-own-node"
	)
	return []Resource{
		of("", "v1", "nodes", "Node", "spec.taints spec.unschedulable spec.providerID status.capacity status.allocatable "+
			"status.conditions status.nodeInfo"),
		of("", "v1", "pods", "Pod", podFields),
		of("", "v1", "namespaces", "Namespace", ""),
		of("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", "spec status"),
		of("", "v1", "persistentvolumes", "PersistentVolume", "spec.nodeAffinity spec.storageClassName spec.claimRef "+
			"spec.capacity spec.accessModes spec.volumeMode spec.csi.driver spec.csi.volumeHandle spec.local status"),
		of("", "v1", "events", "Event", eventFields),
		of("", "v1", "configmaps", "ConfigMap", "data"),
		of(storage, "v1", "storageclasses", "StorageClass", "provisioner volumeBindingMode allowedTopologies"),
		of(storage, "v1", "csidrivers", "CSIDriver", "spec"),
		of(storage, "v1", "csinodes", "CSINode", "spec"),
		of(storage, "v1", "volumeattachments", "VolumeAttachment", "spec status.attached"),
		// Parameters for drivers, and what drivers report about claims, may be secrets.
		of(devices, "v1", "resourceslices", "ResourceSlice", "spec"),
		of(devices, "v1", "resourceclaims", "ResourceClaim", "spec.devices.requests spec.devices.constraints "+
			"status.allocation.devices.results status.allocation.nodeSelector status.reservedFor"),
		of(devices, "v1", "resourceclaimtemplates", "ResourceClaimTemplate", "spec.spec.devices.requests "+
			"spec.spec.devices.constraints"),
		of(devices, "v1", "deviceclasses", "DeviceClass", "spec.selectors spec.extendedResourceName"),
		of("apps", "v1", "deployments", "Deployment", workloadFields),
		of("apps", "v1", "replicasets", "ReplicaSet", workloadFields),
		of("apps", "v1", "statefulsets", "StatefulSet", workloadFields),
		of("apps", "v1", "daemonsets", "DaemonSet", workloadFields),
		of("batch", "v1", "jobs", "Job", workloadFields),
		of("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", "spec status"),
		// Details of other classes, and their parameters, may be anything.
		of("autoscaling.x-k8s.io", "v1", "provisioningrequests", "ProvisioningRequest", "spec.podSets "+
			"spec.provisioningClassName spec.parameters.bookingSeconds spec.parameters.tenon\\.sh/pods-of status.conditions "+
			"status.provisioningClassDetails"),
		of("coordination.k8s.io", "v1", "leases", "Lease", "spec", "tenon-scheduler", "kube-scheduler"),
		of("tenon.sh", "v1alpha1", "nodelayouts", "NodeLayout",
			"sequence agent base summary machine rules kubelet inexact holdings ended memoryGroups status"),
		of("tenon.sh", "v1alpha1", "layoutbases", "LayoutBase",
			"sequence agent machine rules kubelet inexact holdings memoryGroups"),
		of("tenon.sh", "v1alpha1", "nodeaffinities", "NodeAffinity",
			"measured periodSeconds sockets incomplete summary lastMove pods traffic"),
		of("topology.node.k8s.io", "v1alpha2", "noderesourcetopologies", "NodeResourceTopology",
			"topologyPolicies zones attributes"),
		of("topology.node.k8s.io", "v1alpha1", "noderesourcetopologies", "NodeResourceTopology", "topologyPolicies zones"),
		of("nodeinfo.volcano.sh", "v1alpha1", "numatopologies", "Numatopology", "spec"),
		of("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", "spec",
			"nodelayouts.tenon.sh", "layoutbases.tenon.sh", "nodeaffinities.tenon.sh"),
		of(admission, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", "spec", policy),
		of(admission, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", "spec", policy),
	}
}

// stripped returns a copy of an object with only the parts that a bundle keeps.
func (r Resource) stripped(object map[string]any, o Options) map[string]any {
	out := r.keptFields(object)
	meta, _ := out["metadata"].(map[string]any)
	namespace, _ := meta["namespace"].(string)
	switch {
	case r.Resource == "pods" && !slices.Contains(o.Messages, namespace):
		dropTerminationMessages(out)
	case r.Resource == "provisioningrequests":
		keepOwnDetails(out)
	}
	return out
}

// keepOwnDetails removes the details of a request that are not Tenon's. In the pods that Tenon writes down there, it
// keeps the annotations that it keeps of pods.
func keepOwnDetails(request map[string]any) {
	status, _ := request["status"].(map[string]any)
	details, _ := status["provisioningClassDetails"].(map[string]any)
	for name, value := range details {
		text, _ := value.(string)
		pod := map[string]any{}
		switch {
		case strings.HasPrefix(name, "tenon.sh/places-"):
			continue
		case strings.HasPrefix(name, "tenon.sh/devices-"):
			if details[name] = devicesOf(text); details[name] == "" {
				delete(details, name)
			}
			continue
		case !strings.HasPrefix(name, "tenon.sh/pod-") || json.Unmarshal([]byte(text), &pod) != nil:
			delete(details, name)
			continue
		}
		kept := Resource{keep: words("metadata.creationTimestamp " + podFields)}.keptFields(pod)
		delete(kept, "kind")
		delete(kept, "apiVersion")
		data, err := json.Marshal(kept)
		if err != nil {
			delete(details, name)
			continue
		}
		details[name] = string(data)
	}
}

// devicesOf returns a detail that names devices with no more than that; "" if it names none.
func devicesOf(text string) string {
	type devices struct {
		Node    string   `json:"node"`
		Driver  string   `json:"driver"`
		Pool    string   `json:"pool"`
		Devices []string `json:"devices"`
	}
	var list []devices
	if json.Unmarshal([]byte(text), &list) != nil {
		return ""
	}
	list = slices.DeleteFunc(list, func(x devices) bool { return len(x.Devices) == 0 })
	if len(list) == 0 {
		return ""
	}
	data, err := json.Marshal(list)
	if err != nil {
		return ""
	}
	return string(data)
}

// dropTerminationMessages removes the termination messages of a pod's containers: with the policy
// FallbackToLogsOnError a message is the end of a log.
func dropTerminationMessages(pod map[string]any) {
	status, _ := pod["status"].(map[string]any)
	for _, list := range []string{"containerStatuses", "initContainerStatuses"} {
		containers, _ := status[list].([]any)
		for _, c := range containers {
			for _, state := range []string{"state", "lastState"} {
				one, _ := c.(map[string]any)
				at, _ := one[state].(map[string]any)
				if ended, ok := at["terminated"].(map[string]any); ok {
					delete(ended, "message")
				}
			}
		}
	}
}

// keptFields returns a copy of an object with only the fields in r.keep and the annotations with a prefix in
// annotations.
func (r Resource) keptFields(object map[string]any) map[string]any {
	out := map[string]any{"apiVersion": strings.TrimPrefix(r.Group+"/"+r.Version, "/"), "kind": r.Kind}
	for _, path := range r.keep {
		copyPath(out, object, names(path))
	}
	meta, _ := object["metadata"].(map[string]any)
	all, _ := meta["annotations"].(map[string]any)
	notes := map[string]any{}
	for name, value := range all {
		for _, prefix := range annotations {
			if strings.HasPrefix(name, prefix) {
				notes[name] = value
			}
		}
	}
	if to, ok := out["metadata"].(map[string]any); ok && len(notes) > 0 {
		to["annotations"] = notes
	}
	return out
}

// names returns the names of a path: fields with a dot between them. A dot in a name is written as \.
func names(path string) []string {
	const dot = "\x00"
	out := strings.Split(strings.ReplaceAll(path, `\.`, dot), ".")
	for i := range out {
		out[i] = strings.ReplaceAll(out[i], dot, ".")
	}
	return out
}

// copyPath copies the value at a path from one object to another, if there is one. Items of lists keep their
// positions.
func copyPath(to, from map[string]any, path []string) {
	name, list := strings.CutSuffix(path[0], "[]")
	value, ok := from[name]
	switch {
	case !ok:
	case len(path) == 1:
		to[name] = value
	case list:
		in, _ := value.([]any)
		out, _ := to[name].([]any)
		for i, x := range in {
			if i == len(out) {
				out = append(out, map[string]any{})
			}
			below, _ := x.(map[string]any)
			if at, ok := out[i].(map[string]any); ok {
				copyPath(at, below, path[1:])
			}
		}
		to[name] = out
	default:
		below, _ := value.(map[string]any)
		at, ok := to[name].(map[string]any)
		if !ok {
			at = map[string]any{}
			to[name] = at
		}
		copyPath(at, below, path[1:])
	}
}
