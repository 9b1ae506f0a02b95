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
	runtimes, named := map[string]trainObject{}, map[string]bool{}
	for _, o := range r.trainer {
		if runtimeKind(o.gvk.Kind) {
			runtimes[o.key()] = o
		} else {
			named[jobsRuntime(o.root)] = true
		}
	}
	if err := boundCopies(r.trainer, runtimes); err != nil {
		return err
	}
	added := 0
	for _, o := range r.trainer {
		var job object // nil for a runtime
		with := o
		if !runtimeKind(o.gvk.Kind) {
			job, with = o.root, runtimes[jobsRuntime(o.root)]
		} else if named[o.key()] {
			continue
		}
		if why := notReadOfTrainer(with.root, job); why != "" {
			at := clip(o.gvk.GroupVersion().String())
			r.file.Unjudged = append(r.file.Unjudged, fmt.Sprintf("%s (%s): %s", o.what, at, why))
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

// boundCopies refuses TrainJobs whose runtimes together are larger than a file may be: each job takes a copy of its
// runtime.
func boundCopies(all []trainObject, runtimes map[string]trainObject) error {
	copied := 0
	for _, o := range all {
		if copied += runtimes[jobsRuntime(o.root)].size; copied > MaxBytes {
			return fmt.Errorf("%s: the runtimes of all TrainJobs together are larger than %d bytes", o.what, MaxBytes)
		}
	}
	return nil
}

// key returns the name by which TrainJobs find a runtime.
func (o trainObject) key() string {
	meta := objectMeta(o.root)
	return runtimeKey(o.gvk.Kind, meta.Namespace, meta.Name)
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
	kind := "ClusterTrainingRuntime"
	name, _ := ref["name"].(string)
	if k, ok := ref["kind"].(string); ok && k != "" {
		kind = k
	}
	return runtimeKey(kind, objectMeta(job).Namespace, name)
}

// notReadOfTrainer returns why the pods of a job with a runtime are not judged, or "". The runtime is nil if the file
// does not have it.
func notReadOfTrainer(runtime, job object) string {
	spec := child(job, "spec")
	if runtime == nil {
		return "its pods come from " + clip(jobsRuntime(job)) + ", which is not in the file; add it"
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
	const path = "spec.template.spec.replicatedJobs.*.template.spec.template"
	for _, f := range find(runtime, path) {
		// Above the template are root, spec, template, spec, the replicated job, its template and that one's spec.
		replicated := f.above[len(f.above)-3]
		n, err := trainedPods(runtime, job, replicated)
		if err != nil {
			return nil, err
		}
		f.value = patched(job, f)
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
func patched(job object, f found) object {
	const path = "template.spec.replicatedJobs.*.template.spec.template"
	value := f.value
	patches, _ := child(job, "spec")["runtimePatches"].([]any)
	for _, p := range patches {
		patch, _ := p.(object)
		for _, of := range find(child(patch, "trainingRuntimeSpec"), path) {
			name, ok := of.above[len(of.above)-3]["name"].(string)
			if ok && name == f.above[len(f.above)-3]["name"] {
				value = patchedBy(value, of.value)
			}
		}
	}
	return value
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
