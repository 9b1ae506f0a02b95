package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// This file makes the pods of Kubeflow Trainer's TrainJobs (github.com/kubeflow/trainer, pkg/apis/trainer/v1alpha1). A
// TrainJob names a runtime, whose template is a JobSet, and overrides some of its fields (pkg/runtime/core,
// newRuntimeInfo, and pkg/runtime/framework/plugins). A runtime that no TrainJob of the file names is judged alone.

const trainerGroup = "trainer.kubeflow.org"

// trainObject is a runtime or a TrainJob of the file.
type trainObject struct {
	what string // for errors, such as "document 2: TrainJob llm"
	gvk  schema.GroupVersionKind
	root object
	at   int // how many templates are before it in the file
}

// runtimeKind reports whether a kind is one of Trainer's runtimes.
func runtimeKind(kind string) bool {
	return kind == "TrainingRuntime" || kind == "ClusterTrainingRuntime"
}

// keepTrainer keeps an object of Trainer until the file is read, because a TrainJob may stand before its runtime. It
// returns false for objects of other groups and kinds.
func (r *reader) keepTrainer(what string, gvk schema.GroupVersionKind, text []byte) (bool, error) {
	if gvk.Group != trainerGroup || gvk.Kind != "TrainJob" && !runtimeKind(gvk.Kind) {
		return false, nil
	}
	if err := quantities(text); err != nil {
		return true, fmt.Errorf("%s: %w", what, err)
	}
	value, err := decode(text)
	if err != nil {
		return true, fmt.Errorf("%s: %w", what, err)
	}
	root, _ := value.(object) // ReadHeader has read an object
	r.trainer = append(r.trainer, trainObject{what, gvk, root, len(r.file.Templates)})
	return true, nil
}

// trainJobs adds the pods of the TrainJobs that were kept, and of runtimes that none of them names, at their places.
func (r *reader) trainJobs() error {
	runtimes, named := map[string]trainObject{}, map[string]bool{}
	for _, o := range r.trainer {
		if runtimeKind(o.gvk.Kind) {
			runtimes[runtimeKey(o.gvk.Kind, objectMeta(o.root).Namespace, objectMeta(o.root).Name)] = o
			continue
		}
		named[jobsRuntime(o.root)] = true
	}
	added := 0
	for _, o := range r.trainer {
		job, with := o.root, o
		if runtimeKind(o.gvk.Kind) {
			if named[runtimeKey(o.gvk.Kind, objectMeta(o.root).Namespace, objectMeta(o.root).Name)] {
				continue
			}
			job = object{}
		} else if found, ok := runtimes[jobsRuntime(o.root)]; ok {
			with = found
		} else {
			r.unjudgedTrainer(o, fmt.Sprintf("its pods come from %s, which is not in the file; add it",
				clip(jobsRuntime(o.root))))
			continue
		}
		if why := notReadOfTrainer(with.root, job); why != "" {
			r.unjudgedTrainer(o, why)
			continue
		}
		all, err := r.trained(o, with.root, job)
		if err != nil {
			return fmt.Errorf("%s: %w", o.what, err)
		}
		r.file.Templates = slices.Insert(r.file.Templates, o.at+added, all...)
		added += len(all)
	}
	return nil
}

func (r *reader) unjudgedTrainer(o trainObject, why string) {
	r.file.Unjudged = append(r.file.Unjudged, fmt.Sprintf("%s (%s): %s", o.what, clip(o.gvk.GroupVersion().String()), why))
}

// runtimeKey names a runtime. A ClusterTrainingRuntime has no namespace.
func runtimeKey(kind, namespace, name string) string {
	if kind == "TrainingRuntime" && namespace != "" {
		name = namespace + "/" + name
	}
	return kind + " " + name
}

// jobsRuntime returns the key of the runtime that a TrainJob names. The kind is by default ClusterTrainingRuntime.
func jobsRuntime(job object) string {
	ref := child(job, "spec", "runtimeRef")
	kind, name := "ClusterTrainingRuntime", fmt.Sprint(ref["name"])
	if k, ok := ref["kind"].(string); ok && k != "" {
		kind = k
	}
	return runtimeKey(kind, objectMeta(job).Namespace, name)
}

// notReadOfTrainer returns why the pods of a job with a runtime are not judged, or "".
func notReadOfTrainer(runtime, job object) string {
	spec := child(job, "spec")
	for _, old := range []string{"podTemplateOverrides", "podSpecOverrides"} {
		if spec[old] != nil {
			return "its spec." + old + " belongs to an older release of Trainer and is not read"
		}
	}
	if child(runtime, "spec", "mlPolicy")["flux"] != nil {
		return "its runtime has the policy flux, which adds containers to its pods"
	}
	return ""
}

// child returns the object at a path of fields, or an empty one.
func child(o object, path ...string) object {
	for _, field := range path {
		o, _ = o[field].(object)
	}
	return o
}

// trained returns the templates of a job with its runtime; an empty job changes nothing. o is the object of the file
// that the templates belong to.
func (r *reader) trained(o trainObject, runtime, job object) (all []Template, err error) {
	const path = "spec.template.spec.replicatedJobs.*.template.spec.template"
	for _, f := range find(runtime, path) {
		// Above the template are root, spec, template, spec, the replicated job, its template and that one's spec.
		replicated := f.above[len(f.above)-3]
		n, err := trainedPods(runtime, job, replicated)
		if err != nil {
			return nil, err
		}
		if f.value, err = patched(job, f); err != nil {
			return nil, err
		}
		if takesResources(runtime, replicated) {
			f.value = override(f.value, child(job, "spec", "trainer"))
		}
		s := source{count: func([]object) (int, error) { return n, nil }}
		t, err := r.embedded(o.gvk, o.root, f, s, true)
		if err != nil && !runtimeKind(o.gvk.Kind) {
			err = fmt.Errorf("its runtime %s: %w", clip(objectMeta(runtime).Name), err)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	if len(all) == 0 {
		return nil, errors.New("the runtime has no pod template in " + path)
	}
	return all, nil
}

// step returns the value of the label by which Trainer finds the replicated jobs that it changes, such as "trainer".
func step(replicated object) string {
	labels := child(replicated, "template", "metadata", "labels")
	value, _ := labels["trainer.kubeflow.org/trainjob-ancestor-step"].(string)
	return value
}

// mpiNode reports whether a replicated job is the one whose pods an MPI policy counts and gives resources to.
func mpiNode(runtime, replicated object) (counts, resources bool) {
	mpi := child(runtime, "spec", "mlPolicy", "mpi")
	asNode, _ := mpi["runLauncherAsNode"].(bool)
	isNode := replicated["name"] == "node" && child(runtime, "spec", "mlPolicy")["mpi"] != nil
	return isNode, isNode && asNode
}

// takesResources reports whether the container "node" of a replicated job takes the resources of spec.trainer.
func takesResources(runtime, replicated object) bool {
	_, asNode := mpiNode(runtime, replicated)
	return asNode || step(replicated) == "trainer" && child(runtime, "spec")["mlPolicy"] != nil
}

// trainedPods returns how many pods of a replicated job run at a time.
func trainedPods(runtime, job, replicated object) (int, error) {
	policy, trainer := child(runtime, "spec", "mlPolicy"), child(job, "spec", "trainer")
	n, err := number(child(replicated, "template", "spec"), "parallelism", 1)
	if step(replicated) == "trainer" && policy != nil {
		n, err = number(policy, "numNodes", 1)
		if policy["mpi"] == nil && err == nil {
			n, err = number(trainer, "numNodes", n)
		}
	}
	if counts, launcher := mpiNode(runtime, replicated); counts && trainer["numNodes"] != nil && err == nil {
		if n, err = number(trainer, "numNodes", 1); launcher {
			n = max(n-1, 1)
		}
	}
	copies := 1
	if step(replicated) == "" && err == nil {
		copies, err = number(replicated, "replicas", 1)
	}
	if copies*n > MaxPods {
		return 0, fmt.Errorf("more than %d pods", MaxPods)
	}
	return copies * n, err
}

// override returns a pod template whose container "node" has the image and the resources of a TrainJob's trainer. A
// resource that the trainer does not name keeps the amount of the runtime.
func override(template, trainer object) object {
	list, _ := child(template, "spec")["containers"].([]any)
	containers := slices.Clone(list)
	for i := range containers {
		c, _ := containers[i].(object)
		if c["name"] != "node" {
			continue
		}
		c = maps.Clone(c)
		if image, ok := trainer["image"].(string); ok {
			c["image"] = image
		}
		resources := object{}
		maps.Copy(resources, child(c, "resources"))
		for _, which := range []string{"limits", "requests"} {
			amounts := object{}
			maps.Copy(amounts, child(resources, which))
			maps.Copy(amounts, child(trainer, "resourcesPerNode", which))
			if len(amounts) > 0 {
				resources[which] = amounts
			}
		}
		c["resources"], containers[i] = resources, c
	}
	out, spec := maps.Clone(template), maps.Clone(child(template, "spec"))
	if len(containers) > 0 {
		spec["containers"] = containers
	}
	if spec != nil {
		out["spec"] = spec
	}
	return out
}

// patched returns a pod template of a runtime with the patches of a TrainJob for its replicated job.
func patched(job object, f found) (object, error) {
	const path = "template.spec.replicatedJobs.*.template.spec.template"
	patches, _ := child(job, "spec")["runtimePatches"].([]any)
	value := f.value
	for i, p := range patches {
		patch, _ := p.(object)
		for _, of := range find(child(patch, "trainingRuntimeSpec"), path) {
			if of.above[len(of.above)-3]["name"] != f.above[len(f.above)-3]["name"] {
				continue
			}
			next, err := merged(value, of.value)
			if err != nil {
				return nil, fmt.Errorf("spec.runtimePatches[%d]: %w", i, err)
			}
			value = next
		}
	}
	return value, nil
}

// merged applies a strategic merge patch to a pod template.
func merged(template, patch object) (object, error) {
	before, err := json.Marshal(template)
	if err != nil {
		return nil, err
	}
	change, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}
	after, err := strategicpatch.StrategicMergePatch(before, change, v1.PodTemplateSpec{})
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(after))
	d.UseNumber()
	out := object{}
	return out, d.Decode(&out)
}
