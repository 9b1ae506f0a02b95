package manifest

import "fmt"

// This file finds the runtimes of TrainJobs in a file, and bounds what the TrainJobs copy from them.

// Bounds of what the TrainJobs of a file together copy from their runtimes. A runtime usually has some 4 KiB and may
// serve a thousand TrainJobs; a larger file may copy four times its size.
const (
	minCopied  = 4 << 20 // bytes that any file may copy
	copyFactor = 4
)

// runtimes are the runtimes of a file.
type runtimes struct {
	byKey map[string]trainObject
	// byName has the keys of the TrainingRuntimes of a name, in all namespaces.
	byName map[string][]string
}

// runtimesOf returns the runtimes among the objects. Of two with the same key, the later one counts.
func runtimesOf(all []trainObject) runtimes {
	out := runtimes{map[string]trainObject{}, map[string][]string{}}
	for _, o := range all {
		if !runtimeKind(o.gvk.Kind) {
			continue
		}
		key, name := o.key(), objectMeta(o.root).Name
		if _, twice := out.byKey[key]; !twice && o.gvk.Kind == "TrainingRuntime" {
			out.byName[name] = append(out.byName[name], key)
		}
		out.byKey[key] = o
	}
	return out
}

// of returns the runtime that a TrainJob names, or a zero object if the file does not have it. If only one of the two
// has a namespace, they match if the file has no other TrainingRuntime of that name: people write one of the two for
// "kubectl apply -n", and get the other one from a cluster.
func (r runtimes) of(job object) trainObject {
	kind, namespace, name := jobsRuntime(job)
	if o, ok := r.byKey[runtimeKey(kind, namespace, name)]; ok || kind != "TrainingRuntime" {
		return o
	}
	if keys := r.byName[name]; len(keys) == 1 {
		o := r.byKey[keys[0]]
		if namespace == "" || objectMeta(o.root).Namespace == "" {
			return o
		}
	}
	return trainObject{}
}

// boundCopies refuses TrainJobs that together copy too much from their runtimes, before the copies are made. A job
// copies its runtime, and writes its own resources into each replicated job that takes them. size is the size of the
// file in bytes.
func boundCopies(all []trainObject, known runtimes, size int) error {
	most, copied := min(max(copyFactor*size, minCopied), MaxBytes), 0
	receivers := map[string]int{} // by the runtime's key
	for key, o := range known.byKey {
		receivers[key] = max(1, resourceReceivers(o.root))
	}
	for _, o := range all {
		if o.gvk.Kind != "TrainJob" {
			continue
		}
		with := known.of(o.root)
		if with.root == nil {
			continue
		}
		if copied += with.size + o.size*(receivers[with.key()]-1); copied > most {
			return fmt.Errorf("%s: the TrainJobs up to this one copy more than %d bytes from their runtimes: "+
				"split the file", o.what, most)
		}
	}
	return nil
}

// resourceReceivers returns how many replicated jobs of a runtime take the resources of a TrainJob.
func resourceReceivers(runtime object) (n int) {
	for _, f := range find(runtime, runtimeTemplates) {
		if replicated, _ := replicatedJob(f); takesResources(runtime, replicated) {
			n++
		}
	}
	return n
}

// key returns the name by which TrainJobs find a runtime; "" for a zero object.
func (o trainObject) key() string {
	if o.root == nil {
		return ""
	}
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

// jobsRuntime returns what names the runtime of a TrainJob. The kind is by default ClusterTrainingRuntime.
func jobsRuntime(job object) (kind, namespace, name string) {
	ref := child(job, "spec", "runtimeRef")
	kind = "ClusterTrainingRuntime"
	name, _ = ref["name"].(string)
	if k, ok := ref["kind"].(string); ok && k != "" {
		kind = k
	}
	return kind, objectMeta(job).Namespace, name
}
