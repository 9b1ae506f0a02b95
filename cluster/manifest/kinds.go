package manifest

import (
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tenon-numa/tenon/api/pod/quantity"
)

// kinds has Kubernetes' own kinds of objects with pods, each with the function that makes a Template of a decoded
// object.
var kinds = map[schema.GroupVersionKind]func(runtime.Object) (Template, error){
	v1.SchemeGroupVersion.WithKind("Pod"): func(o runtime.Object) (Template, error) {
		p := o.(*v1.Pod)
		return template("Pod", p.ObjectMeta, p, 1), nil
	},
	v1.SchemeGroupVersion.WithKind("ReplicationController"): func(o runtime.Object) (Template, error) {
		x := o.(*v1.ReplicationController)
		if x.Spec.Template == nil {
			return Template{}, errors.New("spec.template is missing")
		}
		return replicated("ReplicationController", x.ObjectMeta, *x.Spec.Template, "spec.replicas", x.Spec.Replicas)
	},
	appsv1.SchemeGroupVersion.WithKind("Deployment"): func(o runtime.Object) (Template, error) {
		x := o.(*appsv1.Deployment)
		t, err := replicated("Deployment", x.ObjectMeta, x.Spec.Template, "spec.replicas", x.Spec.Replicas)
		t.Refused = selectorRefusal(x.Spec.Selector, &x.Spec.Template)
		return t, err
	},
	appsv1.SchemeGroupVersion.WithKind("StatefulSet"): func(o runtime.Object) (Template, error) {
		x := o.(*appsv1.StatefulSet)
		t, err := replicated("StatefulSet", x.ObjectMeta, x.Spec.Template, "spec.replicas", x.Spec.Replicas)
		addClaims(&t, x.Spec.VolumeClaimTemplates)
		if x.Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
			t.Late = oneByOne
		}
		t.Refused = selectorRefusal(x.Spec.Selector, &x.Spec.Template)
		return t, err
	},
	appsv1.SchemeGroupVersion.WithKind("ReplicaSet"): func(o runtime.Object) (Template, error) {
		x := o.(*appsv1.ReplicaSet)
		t, err := replicated("ReplicaSet", x.ObjectMeta, x.Spec.Template, "spec.replicas", x.Spec.Replicas)
		t.Refused = selectorRefusal(x.Spec.Selector, &x.Spec.Template)
		return t, err
	},
	appsv1.SchemeGroupVersion.WithKind("DaemonSet"): func(o runtime.Object) (Template, error) {
		x := o.(*appsv1.DaemonSet)
		t := template("DaemonSet", x.ObjectMeta, podOf(x.Spec.Template), 0)
		t.PerNode, t.Refused = true, selectorRefusal(x.Spec.Selector, &x.Spec.Template)
		t.Pod.Spec.Tolerations = append(t.Pod.Spec.Tolerations, daemonTolerations()...)
		return t, nil
	},
	batchv1.SchemeGroupVersion.WithKind("Job"): func(o runtime.Object) (Template, error) {
		x := o.(*batchv1.Job)
		return job("Job", x.ObjectMeta, x.Spec, "spec")
	},
	batchv1.SchemeGroupVersion.WithKind("CronJob"): func(o runtime.Object) (Template, error) {
		x := o.(*batchv1.CronJob)
		return job("CronJob", x.ObjectMeta, x.Spec.JobTemplate.Spec, "spec.jobTemplate.spec")
	},
}

// addClaims gives the pod of a StatefulSet the volumes that its controller gives to each of its pods
// (pkg/controller/statefulset, updateStorage). Each pod has claims of its own, which end in the pod's number. If
// there are several pods, N stands for that number.
func addClaims(t *Template, templates []v1.PersistentVolumeClaim) {
	number := "N"
	if t.Count == 1 {
		number = "0"
	}
	for i := range templates {
		name := templates[i].Name
		t.Pod.Spec.Volumes = slices.DeleteFunc(t.Pod.Spec.Volumes, func(v v1.Volume) bool { return v.Name == name })
		t.Pod.Spec.Volumes = append(t.Pod.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name + "-" + t.Name + "-" + number}}})
	}
}

// daemonTolerations returns the tolerations that the DaemonSet controller gives to its pods
// (pkg/controller/daemon/util, AddOrUpdateDaemonPodTolerations).
func daemonTolerations() []v1.Toleration {
	var out []v1.Toleration
	for _, key := range []string{v1.TaintNodeNotReady, v1.TaintNodeUnreachable} {
		out = append(out, v1.Toleration{Key: key, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute})
	}
	for _, key := range []string{v1.TaintNodeDiskPressure, v1.TaintNodeMemoryPressure, v1.TaintNodePIDPressure,
		v1.TaintNodeUnschedulable} {
		out = append(out, v1.Toleration{Key: key, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule})
	}
	return out
}

func template(kind string, meta metav1.ObjectMeta, pod *v1.Pod, count int) Template {
	name := meta.Name
	if name == "" {
		name = meta.GenerateName
	}
	return Template{Kind: kind, Namespace: meta.Namespace, Name: name, Count: count, Pod: pod, prefix: meta.Name == ""}
}

func podOf(t v1.PodTemplateSpec) *v1.Pod {
	return &v1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
}

// replicated returns the template of an object with replicas. Without a number of replicas, it has one pod.
func replicated(kind string, meta metav1.ObjectMeta, t v1.PodTemplateSpec, field string,
	replicas *int32) (Template, error) {
	n, err := count(field, replicas)
	return template(kind, meta, podOf(t), n), err
}

// job returns the template of a job. It counts the pods that run at a time: parallelism, but no more than completions.
func job(kind string, meta metav1.ObjectMeta, s batchv1.JobSpec, path string) (Template, error) {
	n, err := count(path+".parallelism", s.Parallelism)
	if err != nil {
		return Template{}, err
	}
	if s.Completions != nil {
		all, err := count(path+".completions", s.Completions)
		if err != nil {
			return Template{}, err
		}
		n = min(n, all)
	}
	t := template(kind, meta, podOf(s.Template), n)
	t.Refused = restartRefusal(&s.Template, path, v1.RestartPolicyOnFailure, v1.RestartPolicyNever)
	return t, nil
}

// count returns a number of pods; a missing one counts as 1. The error names the field if the number is outside
// 0..MaxPods.
func count(field string, n *int32) (int, error) {
	switch {
	case n == nil:
		return 1, nil
	case *n < 0 || *n > MaxPods:
		return 0, fmt.Errorf("%s: %d is outside 0..%d", field, *n, MaxPods)
	}
	return int(*n), nil
}

// complete checks the object's names, and sets in its pod the amounts that the API server would set. It returns an
// error if the API server would refuse the names, the containers or their amounts.
func complete(t *Template) error {
	if t.Name == "" {
		return errors.New("metadata.name is missing")
	}
	name := t.Name
	if t.prefix { // a generateName may end in characters that no name ends in
		name += "x"
	}
	if bad := validation.IsDNS1123Subdomain(name); len(bad) > 0 {
		return fmt.Errorf("metadata.name: %q: %s", clip(t.Name), bad[0])
	}
	if bad := validation.IsDNS1123Label(t.Namespace); t.Namespace != "" && len(bad) > 0 {
		return fmt.Errorf("metadata.namespace: %q: %s", clip(t.Namespace), bad[0])
	}
	reset(t.Pod)
	t.Pod.Namespace, t.Pod.Name = t.Namespace, t.Name
	if !t.existing {
		t.Written = t.Pod.DeepCopy()
	}
	fill(t.Pod)
	return check(t.Pod)
}

// reset resets a pod to its state before a scheduler saw it. Only a pod with a UID, which comes from a cluster, loses
// its node: in a file, spec.nodeName is a request.
func reset(p *v1.Pod) {
	if p.UID != "" {
		p.Spec.NodeName, p.Spec.EphemeralContainers = "", nil
	}
	p.UID, p.Status = "", v1.PodStatus{}
}

// Like returns a template of one more pod like an existing one. The error names the field that cannot be used.
func Like(pod *v1.Pod) (Template, error) {
	// Files are checked by [Tame]; a pod of a cluster may still request 1e9999999 CPUs.
	t := template("Pod", pod.ObjectMeta, quantity.ClampPod(pod).DeepCopy(), 1)
	t.existing = true
	if err := complete(&t); err != nil {
		return Template{}, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return t, nil
}
