package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	corev1 "k8s.io/component-helpers/scheduling/corev1"

	"github.com/tenon-numa/tenon/api/document"
	podapi "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/cluster/claims"
	"github.com/tenon-numa/tenon/cluster/group"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/stage"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
)

// Pod is a pod in the core's form, and what bears on where it is placed.
type Pod struct {
	ID state.PodID
	// Pod is nil if the pod is Refused.
	Pod *place.Pod
	// Refused is why Tenon's scheduler puts the pod on no node, or "". Only PodsOf returns such pods.
	Refused string
	// Demand is what the pod requires of its alignment by its annotations.
	Demand place.Demand
	Node   string // where it is bound; empty while it waits for a node
	// Needs are the plain amounts that the pod requests. Around is, by node, what kube-scheduler's own filters look at.
	// If a node is missing here, only the kubelet's rules decide whether the pod fits there.
	Needs  whatif.Amounts
	Around map[string]Around
	// Unjudged describes requirements of the pod on nodes that no command judges.
	Unjudged []string
	// Claimed is set if the pod names claims of devices (DRA), or has one for extended resources, or waits for devices
	// that DRA allocates for these.
	Claimed bool
	// Devices are what its claims ask for, as far as they are judged.
	Devices whatif.Devices
	// Template is equal for pods with the same selectors, node affinity, tolerations and host ports, and without volumes
	// that may tie them to nodes. Only PodsOf sets it.
	Template string
	// Misspelt describes annotations and labels that begin like Tenon's and that no program reads.
	Misspelt []string
	// Scheduling is how far a pod without a node has come; nil for a pod with a node, and if it was not read.
	Scheduling *document.Scheduling
	// Gated is set if scheduling gates keep the pod from every scheduler, and Deleted if it is being deleted.
	Gated, Deleted bool
	// Created and Priority are what a scheduler takes pods in order by: the highest priority first, then the oldest.
	Created  time.Time
	Priority int32
	// Group is the PodGroup of its namespace that the pod names, or "".
	Group string
	// Phase is the pod's status.phase: Pending, Running, Succeeded, Failed or Unknown.
	Phase string
	// Reason and Message are status.reason and status.message, in which a kubelet explains why it refused the pod, for
	// example "TopologyAffinityError".
	Reason, Message string
	// Request is the ProvisioningRequest whose room the pod uses up, "namespace/name", or "".
	Request string
}

// Around is what kube-scheduler's own filters look at on a node.
type Around struct {
	// Node has the plain amounts and the pods of the node; its State does not count.
	Node whatif.Node
	// Barred are the reasons of the filters that judge neither amounts nor NUMA nodes.
	Barred []place.Reason
}

// newPod returns a pod without its surroundings, and an error where Tenon's scheduler would refuse it. Its field Pod is
// nil if the containers cannot be read; with another error, the pod demands nothing.
func newPod(pod *v1.Pod) (Pod, error) {
	out := Pod{ID: kube.ID(pod), Node: pod.Spec.NodeName, Claimed: claims.Claims(pod),
		Created: pod.CreationTimestamp.Time, Priority: corev1.PodPriority(pod), Group: group.Of(&pod.Spec),
		Phase: string(pod.Status.Phase), Reason: pod.Status.Reason, Message: pod.Status.Message,
		Request: podapi.Request(pod), Gated: len(pod.Spec.SchedulingGates) > 0, Deleted: pod.DeletionTimestamp != nil}
	core, err := podapi.ToPlace(pod)
	if err != nil {
		return out, err
	}
	out.Pod = core
	out.Demand, err = podapi.Demand(pod)
	return out, err
}

// newPodsOf returns the pods of a workload, those that Tenon's scheduler refuses among them.
func newPodsOf(pods []kube.Stored) (out []Pod, err error) {
	for p := range kube.EachPod(pods) {
		one, refused := newPod(p)
		if refused != nil {
			one.Pod, one.Refused = nil, refused.Error()
		}
		if one.Template, err = stage.Template(p); err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// newPods returns the pods that can be translated. omitted counts the others, and has the reason of one of them.
func newPods(pods []kube.Stored) (out []Pod, omitted string) {
	count, example := 0, ""
	for p := range kube.EachPod(pods) {
		one, err := newPod(p)
		if err == nil {
			out = append(out, one)
			continue
		}
		count, example = count+1, cmp.Or(example, err.Error())
	}
	if count > 0 {
		omitted = fmt.Sprintf("pods that are left out, since they cannot be judged: %d, such as %s", count, example)
	}
	return out, omitted
}

// readable returns an error in the API server's form if the pods of a namespace were not read. It returns nil for the
// namespace "", which means all that were read.
func readable(seen *kube.Seen, namespace string) error {
	if namespace == "" || seen.Has(namespace) {
		return nil
	}
	return apierrors.NewForbidden(v1.Resource("pods"), "",
		fmt.Errorf("you may not list pods in the namespace %q", namespace))
}

// within returns the pods of a namespace, or all pods if the namespace is "".
func within(pods []kube.Stored, namespace string) []kube.Stored {
	return slices.DeleteFunc(slices.Clone(pods), func(p kube.Stored) bool {
		return namespace != "" && p.Pod().Namespace != namespace
	})
}

// surround sets the fields that newPod leaves out: what kube-scheduler's own filters depend on, misspelt names, and
// how far the scheduling of a pod without a node has come.
func (p *Pod) surround(ctx context.Context, reader *kube.Reader, s *stage.Stage, pod *v1.Pod) error {
	w, err := s.Existing(pod)
	if err != nil {
		return err
	}
	p.Needs, p.Unjudged, p.Around, p.Devices = w.Want.Needs, w.Unjudged, map[string]Around{}, w.Want.Devices
	p.Misspelt = podapi.Misspelt(pod, s.Schedulers())
	barred := w.Want.Barred(s.Nodes())
	for i, n := range s.Nodes() {
		p.Around[n.Name] = Around{Node: n, Barred: barred[i]}
	}
	if pod.Spec.NodeName != "" {
		return nil
	}
	p.Claimed = p.Claimed || len(s.Allocated(pod)) > 0
	how, err := reader.Scheduling(ctx, pod, s.Pods())
	p.Scheduling = &how
	return err
}
