package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// This file finds pods in objects of operators, whose types are not linked. The table sources has the places of the
// templates in some kinds; in other kinds, search finds templates by their form.

// object is a decoded JSON object.
type object = map[string]any

// source is a place of pod templates in a kind.
type source struct {
	// path leads to the templates; "*" stands for all values of an object or a list.
	path string
	// count returns how many pods of a template run at a time. above are the objects on the path, from the whole object
	// to the one that has the template.
	count func(above []object) (int, error)
	// build, if not nil, makes the template of what is at the path.
	build func(value object, above []object) object
	// perNode, if not nil, reports whether every node gets one pod.
	perNode func(above []object) bool
	// finish, if not nil, adds to the pod what the operator would add and Tenon reads.
	finish func(p *v1.Pod, above []object)
	// late, if not nil, tells which of the pods are made only when others run.
	late func(f found) Late
}

// sources has the kinds of operators whose pods are judged, by group and kind. All versions of a kind have their
// templates at the same places.
var sources = map[schema.GroupKind][]source{
	{Group: "", Kind: "PodTemplate"}: {{path: "template", count: product()}},
	// github.com/kubeflow/training-operator, pkg/apis/kubeflow.org/v1; github.com/kubeflow/mpi-operator.
	{Group: "kubeflow.org", Kind: "PyTorchJob"}: replicaSpecs("pytorchReplicaSpecs"),
	{Group: "kubeflow.org", Kind: "TFJob"}:      replicaSpecs("tfReplicaSpecs"),
	{Group: "kubeflow.org", Kind: "XGBoostJob"}: replicaSpecs("xgbReplicaSpecs"),
	{Group: "kubeflow.org", Kind: "PaddleJob"}:  replicaSpecs("paddleReplicaSpecs"),
	{Group: "kubeflow.org", Kind: "JAXJob"}:     replicaSpecs("jaxReplicaSpecs"),
	{Group: "kubeflow.org", Kind: "MXJob"}:      replicaSpecs("mxReplicaSpecs"),
	{Group: "kubeflow.org", Kind: "MPIJob"}: {{path: "spec.mpiReplicaSpecs.*.template", count: product("replicas"),
		late: launcherLate}},
	// github.com/ray-project/kuberay, ray-operator/apis/ray/v1.
	{Group: "ray.io", Kind: "RayCluster"}: ray("spec"),
	{Group: "ray.io", Kind: "RayService"}: ray("spec.rayClusterConfig"),
	{Group: "ray.io", Kind: "RayJob"}: append(ray("spec.rayClusterSpec"),
		source{path: "spec.submitterPodTemplate", count: submitters, late: submitterLate}),
	// sigs.k8s.io/lws, api/leaderworkerset/v1; sigs.k8s.io/jobset, api/jobset/v1alpha2.
	{Group: "leaderworkerset.x-k8s.io", Kind: "LeaderWorkerSet"}: {
		{path: "spec.leaderWorkerTemplate.leaderTemplate", count: leaders},
		{path: "spec.leaderWorkerTemplate.workerTemplate", count: followers, late: workersLate}},
	{Group: "jobset.x-k8s.io", Kind: "JobSet"}: {{path: "spec.replicatedJobs.*.template.spec.template", count: jobs,
		late: jobLate}},
	// volcano.sh/apis, pkg/apis/batch/v1alpha1; the annotation is set by pkg/controllers/job (createJobPod).
	{Group: "batch.volcano.sh", Kind: "Job"}: {{path: "spec.tasks.*.template", count: product("replicas"),
		finish: volcano, late: taskLate}},
	// knative.dev/serving, pkg/apis/serving/v1; argo-rollouts, pkg/apis/rollouts/v1alpha1; openkruise.
	{Group: "serving.knative.dev", Kind: "Service"}: {
		{path: "spec.template", count: product(), finish: knative}},
	{Group: "argoproj.io", Kind: "Rollout"}:        {{path: "spec.template", count: product("replicas")}},
	{Group: "apps.kruise.io", Kind: "CloneSet"}:    {{path: "spec.template", count: product("replicas")}},
	{Group: "apps.kruise.io", Kind: "StatefulSet"}: {{path: "spec.template", count: product("replicas")}},
	// github.com/SlinkyProject/slurm-operator, api/v1beta1.
	{Group: "slinky.slurm.net", Kind: "NodeSet"}: {{path: "spec.slurmd", count: slurmNodes, build: slurmNode,
		perNode: slurmPerNode, finish: slurmAlone}},
	{Group: "kueue.x-k8s.io", Kind: "Workload"}: {
		{path: "spec.podSets.*.template", count: product("count")}},
}

// notJudged has the kinds of operators whose pods are not judged, with the reasons.
var notJudged = map[schema.GroupKind]string{
	{Group: "kubevirt.io", Kind: "VirtualMachine"}:                   virtual,
	{Group: "kubevirt.io", Kind: "VirtualMachineInstance"}:           virtual,
	{Group: "kubevirt.io", Kind: "VirtualMachineInstanceReplicaSet"}: virtual,
	{Group: "pool.kubevirt.io", Kind: "VirtualMachinePool"}:          virtual,
	{Group: "argoproj.io", Kind: "Workflow"}:                         "its pods are made step by step",
	{Group: "argoproj.io", Kind: "CronWorkflow"}:                     "its pods are made step by step",
	{Group: "argoproj.io", Kind: "WorkflowTemplate"}:                 "its pods are made step by step",
	{Group: "tekton.dev", Kind: "PipelineRun"}:                       "its pods are made step by step",
	{Group: "tekton.dev", Kind: "TaskRun"}:                           "its pods are made step by step",
	{Group: "sparkoperator.k8s.io", Kind: "SparkApplication"}:        "its pods are not templates",
}

const virtual = "its pods have KubeVirt's overhead, which depends on KubeVirt's release and configuration; judge the " +
	"virt-launcher pod that it makes"

func replicaSpecs(field string) []source {
	return []source{{path: "spec." + field + ".*.template", count: product("replicas")}}
}

func ray(at string) []source {
	return []source{{path: at + ".headGroupSpec.template", count: product()},
		{path: at + ".workerGroupSpecs.*.template", count: rayWorkers}}
}

// rayWorkers counts the pods of a group of workers as KubeRay makes them: replicas within minReplicas and maxReplicas,
// on numOfHosts nodes each, and none of a group that is suspended (GetWorkerGroupDesiredReplicas in
// ray-operator/controllers/ray/utils). Its autoscaler changes replicas within the same bounds later.
func rayWorkers(above []object) (int, error) {
	group := above[len(above)-1]
	if suspended, _ := group["suspend"].(bool); suspended {
		return 0, nil
	}
	least, err := number(group, "minReplicas", 0)
	if err != nil {
		return 0, err
	}
	most, err := bound(group, "maxReplicas")
	if err != nil {
		return 0, err
	}
	n, err := number(group, "replicas", 0)
	if err != nil {
		return 0, err
	}
	hosts, err := number(group, "numOfHosts", 1)
	if n = min(max(n, least), most) * hosts; err == nil && n > MaxPods { // both are at most MaxPods
		err = fmt.Errorf("more than %d pods", MaxPods)
	}
	return n, err
}

// submitters counts the pod that submits a RayJob, which only its default mode has. above ends with the object's spec.
func submitters(above []object) (int, error) {
	if mode, _ := above[len(above)-1]["submissionMode"].(string); mode == "" || mode == "K8sJobMode" {
		return 1, nil
	}
	return 0, nil
}

// bound reads an upper bound on pods from a field: MaxPods if it is missing or larger.
func bound(o object, field string) (int, error) {
	text, isNumber := o[field].(json.Number)
	if n, err := text.Int64(); isNumber && err == nil && n > MaxPods {
		return MaxPods, nil
	}
	return number(o, field, MaxPods)
}

// product counts pods by the product of fields of the object that has the template; a missing field is 1.
func product(fields ...string) func([]object) (int, error) {
	return func(above []object) (int, error) {
		n := 1
		for _, f := range fields {
			more, err := number(above[len(above)-1], f, 1)
			if err != nil {
				return 0, err
			}
			if n *= more; n > MaxPods { // both are at most MaxPods
				return 0, fmt.Errorf("more than %d pods", MaxPods)
			}
		}
		return n, nil
	}
}

// number reads a count from a field. If the field is missing, number returns fallback.
func number(o object, field string, fallback int) (int, error) {
	x, ok := o[field]
	if !ok || x == nil {
		return fallback, nil
	}
	text, ok := x.(json.Number)
	if !ok {
		return 0, fmt.Errorf("%s: not a number", field)
	}
	n, err := text.Int64()
	if err != nil || n < 0 || n > MaxPods {
		return 0, fmt.Errorf("%s: %s is outside 0..%d", field, clip(text.String()), MaxPods)
	}
	return int(n), nil
}

// leaders counts one pod for each group of a LeaderWorkerSet. above[1] is the object's spec.
func leaders(above []object) (int, error) { return number(above[1], "replicas", 1) }

// followers counts the pods that a LeaderWorkerSet makes of its workers' template. Without a leader's template, these
// include the leaders. above[1] is the object's spec, and above[2] its leaderWorkerTemplate.
func followers(above []object) (int, error) {
	groups, err := number(above[1], "replicas", 1)
	if err != nil {
		return 0, err
	}
	size, err := number(above[2], "size", 1)
	if _, hasLeader := above[2]["leaderTemplate"]; hasLeader {
		size = max(0, size-1)
	}
	if groups*size > MaxPods {
		return 0, fmt.Errorf("more than %d pods", MaxPods)
	}
	return groups * size, err
}

// jobs counts the pods of a replicated job of a JobSet: above ends with the job, its template, and the template's spec.
func jobs(above []object) (int, error) {
	copies, err := number(above[len(above)-3], "replicas", 1)
	if err != nil {
		return 0, err
	}
	spec := above[len(above)-1]
	at, err := number(spec, "parallelism", 1)
	if err != nil {
		return 0, err
	}
	all, err := number(spec, "completions", at)
	if n := copies * min(at, all); err != nil || n <= MaxPods {
		return n, err
	}
	return 0, fmt.Errorf("more than %d pods", MaxPods)
}

// volcano adds the annotation with a task's topology policy that Volcano gives to the task's pods. Tenon reads a
// pod's demand from it.
func volcano(p *v1.Pod, above []object) {
	policy, _ := above[len(above)-1]["topologyPolicy"].(string)
	if policy == "" {
		return
	}
	p.Annotations = maps.Clone(p.Annotations)
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	p.Annotations["volcano.sh/numa-topology-policy"] = policy
}

// knative names containers that have no name, as Knative's defaults do: of several containers each gets its position.
func knative(p *v1.Pod, _ []object) {
	for i := range p.Spec.Containers {
		if p.Spec.Containers[i].Name != "" {
			continue
		}
		p.Spec.Containers[i].Name = "user-container"
		if len(p.Spec.Containers) > 1 {
			p.Spec.Containers[i].Name += fmt.Sprintf("-%d", i)
		}
	}
}

// found is a template in an object.
type found struct {
	where string
	part  string // what the last "*" of the path stands for, or the field before the template
	above []object
	value object
}

// find returns the templates at a path. For a "*", they are in the order of the list, or of the names of an object's
// fields.
func find(root object, path string) (out []found) {
	var walk func(at any, above []object, where, part string, rest []string)
	walk = func(at any, above []object, where, part string, rest []string) {
		if list, ok := at.([]any); ok && len(rest) > 0 && rest[0] == "*" {
			for i, x := range list {
				walk(x, above, fmt.Sprintf("%s[%d]", where, i), nameOf(x, i), rest[1:])
			}
			return
		}
		o, ok := at.(object)
		switch {
		case !ok:
		case len(rest) == 0:
			out = append(out, found{where, part, above, o})
		case rest[0] == "*":
			for _, name := range slices.Sorted(maps.Keys(o)) {
				walk(o[name], above, subfield(where, name), name, rest[1:])
			}
		default:
			walk(o[rest[0]], append(slices.Clone(above), o), subfield(where, rest[0]), part, rest[1:])
		}
	}
	walk(root, nil, "", "", strings.Split(path, "."))
	return out
}

// nameOf returns the name of an element of a list, or its index if it has none.
func nameOf(x any, i int) string {
	if o, ok := x.(object); ok {
		for _, field := range []string{"name", "groupName"} {
			if name, ok := o[field].(string); ok && name != "" {
				return name
			}
		}
	}
	return fmt.Sprint(i)
}

// search returns the templates of an object of an unknown kind: objects in a field "template", or in one that ends in
// "Template", whose spec has containers. It looks no deeper than maxSearch.
func search(at any, above []object, where string, depth int) (out []found) {
	if depth > maxSearch {
		return nil
	}
	switch x := at.(type) {
	case []any:
		for i := range x {
			out = append(out, search(x[i], above, fmt.Sprintf("%s[%d]", where, i), depth+1)...)
		}
	case object:
		above = append(slices.Clone(above), x)
		for _, name := range slices.Sorted(maps.Keys(x)) {
			next, _ := x[name].(object)
			spec, _ := next["spec"].(object)
			if list, ok := spec["containers"].([]any); ok && len(list) > 0 &&
				(name == "template" || strings.HasSuffix(name, "Template")) {
				out = append(out, found{subfield(where, name), "", above, next})
				continue
			}
			out = append(out, search(x[name], above, subfield(where, name), depth+1)...)
		}
	}
	return out
}

// maxSearch bounds how deep search looks for templates.
const maxSearch = 12

// operators reads an object of a kind that an operator defines, or of an unknown kind. whyNot is the reason why the
// object's pods are not judged, or "". known is false if the kind is unknown and the object has no template.
func (r *reader) operators(gvk schema.GroupVersionKind, text []byte) (all []Template, whyNot string, known bool,
	err error) {
	if why, ok := notJudged[gvk.GroupKind()]; ok {
		return nil, why, true, nil
	}
	if err := quantities(text); err != nil {
		return nil, "", true, err
	}
	value, err := decode(text)
	if err != nil {
		return nil, "", true, err
	}
	root, ok := value.(object)
	if !ok {
		return nil, "", false, nil
	}
	list, inTable := sources[gvk.GroupKind()]
	if !inTable && builtin(gvk.Group) {
		return nil, "", false, nil
	}
	for _, s := range list {
		for _, f := range find(root, s.path) {
			t, err := r.embedded(gvk, root, f, s, true)
			if err != nil {
				return nil, "", true, err
			}
			all = append(all, t)
		}
	}
	if inTable {
		if len(all) == 0 {
			whyNot = "it has no pod template where such objects have theirs"
		}
		return all, whyNot, true, nil
	}
	for _, f := range search(root, nil, "", 0) {
		t, err := r.embedded(gvk, root, f, source{count: product("replicas")}, false)
		if err != nil {
			return nil, "found by its form; not read: " + shown(err.Error(), maxRefusal), true, nil
		}
		t.Guessed = f.where
		all = append(all, t)
	}
	return all, "", len(all) > 0, nil
}

// builtin reports whether a group is Kubernetes' own. Kinds of such a group that are not in the table kinds have no
// pods.
func builtin(group string) bool {
	return !strings.Contains(group, ".") || strings.HasSuffix(group, ".k8s.io")
}

// embedded makes a Template of a pod template in an object. If strict is set, a field that pods do not have is an
// error. The errors name the place of the template in the object.
func (r *reader) embedded(gvk schema.GroupVersionKind, root object, f found, s source, strict bool) (t Template,
	err error) {
	if s.build != nil {
		f.value = s.build(f.value, f.above)
	}
	meta, _ := f.value["metadata"].(object)
	pod := object{"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": f.value["spec"]}
	if s.finish != nil && gvk.Group == "serving.knative.dev" {
		strict = false // its revisions have fields in addition to a pod's
	}
	text, err := json.Marshal(pod)
	if err != nil {
		return t, fmt.Errorf("%s: %w", f.where, err)
	}
	podKind := v1.SchemeGroupVersion.WithKind("Pod")
	got, _, err := r.decoder.Decode(text, &podKind, nil)
	if err != nil && (strict || got == nil) {
		return t, fmt.Errorf("%s: %w", f.where, firstError(err))
	}
	p, ok := got.(*v1.Pod)
	if !ok {
		return t, errors.New(f.where + ": no pod")
	}
	n, err := s.count(f.above)
	if err != nil {
		return t, fmt.Errorf("%s: %w", f.where, err)
	}
	if s.finish != nil {
		s.finish(p, f.above)
	}
	t = template(gvk.Kind, objectMeta(root), &v1.Pod{ObjectMeta: p.ObjectMeta, Spec: p.Spec}, n)
	t.PerNode = s.perNode != nil && s.perNode(f.above)
	if s.late != nil {
		t.Late = s.late(f)
	}
	if err := complete(&t); err != nil {
		return t, fmt.Errorf("%s: %w", f.where, err)
	}
	if err := validate(&t); err != nil {
		return t, fmt.Errorf("%s: %w", f.where, err)
	}
	if f.part != "" {
		t.Name += "-" + strings.ToLower(clip(f.part))
	}
	return t, nil
}

// objectMeta returns the name and namespace of an object.
func objectMeta(root object) (out metav1.ObjectMeta) {
	meta, _ := root["metadata"].(object)
	out.Name, _ = meta["name"].(string)
	out.GenerateName, _ = meta["generateName"].(string)
	out.Namespace, _ = meta["namespace"].(string)
	return out
}
