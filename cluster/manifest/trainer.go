package manifest

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// This file makes the pods of Kubeflow Trainer's TrainJobs (github.com/kubeflow/trainer, pkg/apis/trainer/v1alpha1). A
// TrainJob names a runtime, whose template is a JobSet, and overrides some of its fields (pkg/runtime/core,
// newRuntimeInfo, and pkg/runtime/framework/plugins). A runtime that no TrainJob of the file names is judged alone.

const trainerGroup = "trainer.kubeflow.org"

// The places of the pod templates in the spec of a runtime, and in a runtime.
const (
	specTemplates    = "template.spec.replicatedJobs.*.template.spec.template"
	runtimeTemplates = "spec." + specTemplates
)

// trainObject is a runtime or a TrainJob of the file.
type trainObject struct {
	what string // for errors, such as "document 2: TrainJob llm"
	gvk  schema.GroupVersionKind
	root object
	size int // bytes of its text
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
	r.trainer = append(r.trainer, trainObject{what, gvk, root, len(text), len(r.file.Templates)})
	return true, nil
}

// trainJobs adds the pods of the TrainJobs that were kept, and of runtimes that none of them names, at their places.
func (r *reader) trainJobs() error {
	if len(r.trainer) == 0 {
		return nil
	}
	known := runtimesOf(r.trainer)
	if err := boundCopies(r.trainer, known, r.bytes); err != nil {
		return err
	}
	named := map[string]bool{}
	for _, o := range r.trainer {
		if o.gvk.Kind == "TrainJob" {
			named[known.of(o.root).key()] = true
		}
	}
	old, done := r.file.Templates, 0
	r.file.Templates = nil
	for _, o := range r.trainer {
		if err := r.add(old[done:o.at]...); err != nil {
			return err
		}
		done = o.at
		if o.gvk.Kind != "TrainJob" && named[o.key()] {
			continue
		}
		if err := r.trainJob(o, known); err != nil {
			return err
		}
	}
	return r.add(old[done:]...)
}

// trainJob adds the pods of a TrainJob, or of a runtime that no TrainJob names, or the reason why they are not judged.
func (r *reader) trainJob(o trainObject, known runtimes) error {
	var job object // nil for a runtime
	with := o
	if o.gvk.Kind == "TrainJob" {
		job, with = o.root, known.of(o.root)
	}
	if why := notReadOfTrainer(with.root, job); why != "" {
		at := clip(o.gvk.GroupVersion().String())
		r.file.Unjudged = append(r.file.Unjudged, fmt.Sprintf("%s (%s): %s", o.what, at, why))
		return nil
	}
	all, err := r.trained(o, with.root, job)
	if err != nil {
		return fmt.Errorf("%s: %w", o.what, err)
	}
	return r.add(all...)
}

// notReadOfTrainer returns why the pods of a job with a runtime are not judged, or "". The runtime is nil if the file
// does not have it.
func notReadOfTrainer(runtime, job object) string {
	spec := child(job, "spec")
	if runtime == nil {
		return "its pods come from " + clip(runtimeKey(jobsRuntime(job))) + ", which is not in the file; add it"
	}
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

// trained returns the templates of a job with its runtime; a nil job changes nothing. The templates belong to o.
func (r *reader) trained(o trainObject, runtime, job object) (all []Template, err error) {
	changes, err := patchesOf(job)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, f := range find(runtime, runtimeTemplates) {
		replicated, name := replicatedJob(f)
		if seen[name] && name != "" {
			return nil, fmt.Errorf("the runtime has two replicated jobs %q", clip(name))
		}
		seen[name] = true
		n, err := trainedPods(runtime, job, replicated)
		if err != nil {
			return nil, err
		}
		for _, patch := range changes[name] {
			f.value = patchedBy(f.value, patch)
		}
		if takesResources(runtime, replicated) {
			f.value = override(f.value, child(job, "spec", "trainer"))
		}
		s := source{count: func([]object) (int, error) { return n, nil }, late: jobLate}
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
		return nil, errors.New("the runtime has no pod template in " + runtimeTemplates)
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
		break // a pod with two such containers is refused
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

// maxPatches bounds the patches of a TrainJob. Each manager of TrainJobs, such as Kueue, adds one.
const maxPatches = 100

// patchesOf returns the pod templates in the patches of a TrainJob, by the name of the replicated job that they change,
// in the order of the patches. No patch changes a replicated job twice, as in a list that the API server accepts.
func patchesOf(job object) (map[string][]object, error) {
	patches, _ := child(job, "spec")["runtimePatches"].([]any)
	if len(patches) > maxPatches {
		return nil, fmt.Errorf("spec.runtimePatches: %d patches, at most %d are read", len(patches), maxPatches)
	}
	out := map[string][]object{}
	for i, p := range patches {
		patch, _ := p.(object)
		seen := map[string]bool{}
		for _, f := range find(child(patch, "trainingRuntimeSpec"), specTemplates) {
			_, name := replicatedJob(f)
			if seen[name] {
				return nil, fmt.Errorf("spec.runtimePatches[%d]: replicated job %q is there twice", i, clip(name))
			}
			if name != "" {
				seen[name], out[name] = true, append(out[name], f.value)
			}
		}
	}
	return out, nil
}

// replicatedJob returns the replicated job of a template, and its name. Above the template are the replicated job, its
// template, and that one's spec.
func replicatedJob(f found) (job object, name string) {
	job = f.above[len(f.above)-3]
	name, _ = job["name"].(string)
	return job, name
}

// patchedBy returns a pod template with a patch, as far as the patch decides where the pods fit. Patches cannot change
// resources or the scheduler's name. Maps are merged, lists of named elements by name, and tolerations are replaced.
func patchedBy(template, patch object) object {
	out, meta, spec := maps.Clone(template), mergedMap(template, patch, "metadata"), mergedMap(template, patch, "spec")
	for _, field := range []string{"labels", "annotations"} {
		meta[field] = mergedMap(child(template, "metadata"), child(patch, "metadata"), field)
	}
	was, change := child(template, "spec"), child(patch, "spec")
	for _, field := range []string{"containers", "initContainers"} {
		delete(spec, field)
		if list, ok := was[field]; ok {
			spec[field] = list
		}
	}
	for _, field := range []string{"nodeSelector", "affinity"} {
		if change[field] != nil {
			spec[field] = mergedMap(was, change, field)
		}
	}
	for _, field := range []string{"volumes", "schedulingGates"} {
		if change[field] != nil {
			spec[field] = mergedByName(was[field], change[field])
		}
	}
	out["metadata"], out["spec"] = meta, spec
	return out
}

// mergedMap returns a field of an object, with the same field of another object merged into it.
func mergedMap(o, over object, field string) object {
	out := object{}
	maps.Copy(out, child(o, field))
	maps.Copy(out, child(over, field))
	return out
}

// mergedByName returns a list without the elements whose name is in the other list, followed by the other list.
func mergedByName(list, over any) []any {
	old, _ := list.([]any)
	more, _ := over.([]any)
	named := map[any]bool{}
	for _, x := range more {
		o, _ := x.(object)
		name, _ := o["name"].(string)
		named[name] = true
	}
	kept := slices.DeleteFunc(slices.Clone(old), func(x any) bool {
		o, _ := x.(object)
		name, _ := o["name"].(string)
		return named[name]
	})
	return append(kept, more...)
}
