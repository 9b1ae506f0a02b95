package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// workloads are the kinds whose pods [Reader.PodsOf] finds, with the resource of each.
var workloads = map[string]schema.GroupVersionResource{
	"deployment":  {Group: "apps", Version: "v1", Resource: "deployments"},
	"statefulset": {Group: "apps", Version: "v1", Resource: "statefulsets"},
	"daemonset":   {Group: "apps", Version: "v1", Resource: "daemonsets"},
	"replicaset":  {Group: "apps", Version: "v1", Resource: "replicasets"},
	"job":         {Group: "batch", Version: "v1", Resource: "jobs"},
}

// labelled has, by kind of an operator, a label of the pods that belong to an object of this kind. The label's value
// is the object's name.
var labelled = map[string]string{
	"vcjob": "volcano.sh/job-name", "jobset": "jobset.sigs.k8s.io/jobset-name",
	"trainjob": "jobset.sigs.k8s.io/jobset-name",
	"lws":      "leaderworkerset.sigs.k8s.io/name", "mpijob": trainingJob, "pytorchjob": trainingJob, "tfjob": trainingJob,
	"xgboostjob": trainingJob, "paddlejob": trainingJob, "jaxjob": trainingJob, "raycluster": "ray.io/cluster",
	"rayjob": "ray.io/originated-from-cr-name", "vm": "vm.kubevirt.io/name", "vmi": "vm.kubevirt.io/name",
}

const trainingJob = "training.kubeflow.org/job-name"

// labelledPods returns the pods with the label that the operator of the kind sets to the object's name. It returns an
// error if there are none, because the API server then shows no sign that the object exists.
func (r *Reader) labelledPods(ctx context.Context, kind, namespace, name string) ([]v1.Pod, error) {
	label := labelled[kind] + "=" + name
	list, err := r.cluster.Pods.In(namespace).List(ctx, metav1.ListOptions{LabelSelector: label})
	if err != nil {
		return nil, fmt.Errorf("list pods of %s %s/%s: %w", kind, namespace, name, err)
	}
	if len(list.Items) == 0 {
		return nil, fmt.Errorf("%s %s/%s: no pod has the label %s", kind, namespace, name, label)
	}
	return list.Items, nil
}

// cronPods returns the pods of the Jobs that a CronJob has made. The names of these Jobs are the CronJob's name and a
// time in minutes.
func (r *Reader) cronPods(ctx context.Context, namespace, name string) ([]v1.Pod, error) {
	list, err := r.cluster.Pods.In(namespace).List(ctx, metav1.ListOptions{LabelSelector: "batch.kubernetes.io/job-name"})
	if err != nil {
		return nil, fmt.Errorf("list pods of cronjob %s/%s: %w", namespace, name, err)
	}
	out := slices.DeleteFunc(list.Items, func(p v1.Pod) bool {
		owner := metav1.GetControllerOf(&p)
		if owner == nil || owner.Kind != "Job" {
			return true
		}
		at := strings.LastIndexByte(owner.Name, '-')
		return at < 0 || owner.Name[:at] != name || strings.Trim(owner.Name[at+1:], "0123456789") != ""
	})
	if len(out) == 0 {
		return nil, fmt.Errorf("cronjob %s/%s: no pod of one of its jobs is there", namespace, name)
	}
	return out, nil
}

// groupPods returns the pods that name a PodGroup of Kubernetes' Workload API. The pods are read as JSON, because older
// libraries do not know the field.
func (r *Reader) groupPods(ctx context.Context, namespace, name string) ([]v1.Pod, error) {
	data, err := r.raw(ctx, schema.GroupVersionResource{Version: "v1", Resource: "pods"}, namespace, "", 0)
	if err != nil {
		return nil, fmt.Errorf("list pods of podgroup %s/%s: %w", namespace, name, err)
	}
	var list struct{ Items []json.RawMessage }
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("decode pods of namespace %s: %w", namespace, err)
	}
	var out []v1.Pod
	for _, item := range list.Items {
		var group struct {
			Spec struct {
				SchedulingGroup struct {
					PodGroupName string `json:"podGroupName"`
				} `json:"schedulingGroup"`
			} `json:"spec"`
		}
		var pod v1.Pod
		if err := errors.Join(json.Unmarshal(item, &group), json.Unmarshal(item, &pod)); err != nil {
			return nil, fmt.Errorf("decode a pod of namespace %s: %w", namespace, err)
		}
		if group.Spec.SchedulingGroup.PodGroupName == name {
			out = append(out, pod)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("podgroup %s/%s: no pod names it in spec.schedulingGroup", namespace, name)
	}
	return out, nil
}

// PodsOf returns the pods of a workload. kind is in lower case, such as "deployment". For Kubernetes' own kinds,
// these are the pods that the workload's selector selects and that the workload, or a ReplicaSet of its name,
// controls; if the workload does not exist, the error is NotFound. For a CronJob they are the pods of its Jobs, for a
// PodGroup those that name it, and for kinds of operators the pods with the kind's label; if there are none, that is an
// error.
func (r *Reader) PodsOf(ctx context.Context, kind, namespace, name string) ([]v1.Pod, error) {
	switch {
	case labelled[kind] != "":
		return r.labelledPods(ctx, kind, namespace, name)
	case kind == "cronjob":
		return r.cronPods(ctx, namespace, name)
	case kind == "podgroup":
		return r.groupPods(ctx, namespace, name)
	}
	resource, ok := workloads[kind]
	if !ok {
		return nil, fmt.Errorf("kind %q has no pods that are known here", kind)
	}
	data, err := r.raw(ctx, resource, namespace, name, 0)
	if apierrors.IsNotFound(err) {
		return nil, apierrors.NewNotFound(resource.GroupResource(), namespace+"/"+name)
	}
	if err != nil {
		return nil, err
	}
	var object struct {
		Spec struct {
			Selector *metav1.LabelSelector `json:"selector"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(data, &object); err != nil {
		return nil, fmt.Errorf("decode %s %s/%s: %w", kind, namespace, name, err)
	}
	selector, err := metav1.LabelSelectorAsSelector(object.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("selector of %s %s/%s: %w", kind, namespace, name, err)
	}
	list, err := r.cluster.Pods.In(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return nil, fmt.Errorf("list pods of %s %s/%s: %w", kind, namespace, name, err)
	}
	return slices.DeleteFunc(list.Items, func(p v1.Pod) bool { return !controls(kind, name, &p) }), nil
}

// raw returns an object as JSON, so that the program need not link the object's type. If the name is "", raw returns a
// list of the objects of the namespace, but no more than the first limit; 0 is no limit.
func (r *Reader) raw(ctx context.Context, resource schema.GroupVersionResource, namespace, name string,
	limit int64) ([]byte, error) {
	gv := resource.GroupVersion()
	cfg := rest.CopyConfig(r.cfg)
	cfg.WarningHandler = rest.NoWarnings{} // for how long a version is served is no concern of the user
	if cfg.APIPath = "/apis"; gv.Group == "" {
		cfg.APIPath = "/api"
	}
	cfg.GroupVersion = &gv
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
	server, err := rest.RESTClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("make client of %s: %w", gv, err)
	}
	request := server.Get().Namespace(namespace).Resource(resource.Resource)
	if name != "" {
		request = request.Name(name)
	} else {
		request = request.VersionedParams(&metav1.ListOptions{Limit: limit}, metav1.ParameterCodec)
	}
	return request.SetHeader("Accept", runtime.ContentTypeJSON).Do(ctx).Raw()
}

// controls reports whether a workload controls a pod. A Deployment controls it through a ReplicaSet, whose name is
// the Deployment's name and a hash.
func controls(kind, name string, p *v1.Pod) bool {
	owner := metav1.GetControllerOf(p)
	switch {
	case owner == nil:
		return false
	case kind == "deployment" && owner.Kind == "ReplicaSet":
		at := strings.LastIndexByte(owner.Name, '-')
		return at >= 0 && owner.Name[:at] == name
	}
	return strings.EqualFold(owner.Kind, kind) && owner.Name == name
}
