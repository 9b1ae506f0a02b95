package manifest

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// Files here are as small as those that tenon-console accepts, at most 1 MiB, and are written to become large.

func list(items ...string) string {
	return `{"apiVersion":"v1","kind":"List","items":[` + strings.Join(items, ",") + `]}`
}

func trainingRuntime(policy string, jobs ...string) string {
	return `{"apiVersion":"trainer.kubeflow.org/v1alpha1","kind":"ClusterTrainingRuntime","metadata":{"name":"r"},"spec":` +
		`{` + policy + `"template":{"spec":{"replicatedJobs":[` + strings.Join(jobs, ",") + `]}}}}`
}

func trainJobOf(name, more string) string {
	return `{"apiVersion":"trainer.kubeflow.org/v1alpha1","kind":"TrainJob","metadata":{"name":"` + name +
		`"},"spec":{"runtimeRef":{"name":"r"}` + more + `}}`
}

// jobOfRuntime is a replicated job whose pod has the container "node". With step set, TrainJobs give it resources.
func jobOfRuntime(name string, step bool) string {
	labels := ""
	if step {
		labels = `"metadata":{"labels":{"trainer.kubeflow.org/trainjob-ancestor-step":"trainer"}},`
	}
	return fmt.Sprintf(`{"name":%q,"template":{%s"spec":{"template":{"spec":{"containers":[{"name":"node","image":"i"}]}}}}}`,
		name, labels)
}

func replicatedJobs(n int, step bool) (out []string) {
	for i := range n {
		out = append(out, jobOfRuntime(fmt.Sprintf("j%d", i), step))
	}
	return out
}

// allocated returns how many bytes Read allocates, whether it keeps them or not, and its error.
func allocated(text string) (bytes uint64, err error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = Read([]byte(text))
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, err
}

// A small file is refused before its TrainJobs become many pods. Each job has a copy of each pod of its runtime.
func TestCopiesOfARuntimeAreBounded(t *testing.T) {
	jobs := func(n int, more string) (out []string) {
		for i := range n {
			out = append(out, trainJobOf(fmt.Sprintf("t%d", i), more))
		}
		return out
	}
	// The largest file of that kind that is read is the measure: the race detector makes each of them cost three times as
	// much.
	largest, err := allocated(list(append(jobs(100, ""), trainingRuntime("", replicatedJobs(100, false)...))...))
	if err != nil {
		t.Fatal(err)
	}
	resources := `,"trainer":{"resourcesPerNode":{"limits":{"a.b/` + strings.Repeat("c", 200_000) + `":"1"}}}`
	for want, text := range map[string]string{
		"bytes from their runtimes: split the file": list(append(jobs(3000, ""),
			trainingRuntime("", replicatedJobs(100, false)...))...),
		"more than 10000 pod templates: split the file": list(append(jobs(300, ""),
			trainingRuntime("", replicatedJobs(101, false)...))...),
		"document 1, item 2: TrainJob t0: the TrainJobs up to this one copy more": list(
			append([]string{trainingRuntime(`"mlPolicy":{},`, replicatedJobs(100, true)...)}, jobs(1, resources)...)...),
	} {
		bytes, err := allocated(text)
		if err == nil || !strings.Contains(err.Error(), want) || bytes > 2*largest {
			t.Errorf("a file of %d bytes: %d MiB, and the largest that is read %d: %.300v, want %q", len(text), bytes>>20,
				largest>>20, err, want)
		}
	}
}

// A thousand TrainJobs with one runtime of usual size are read.
func TestAThousandTrainJobsAreRead(t *testing.T) {
	items := []string{trainingRuntime("", jobOfRuntime("data", false), jobOfRuntime("node", true))}
	for i := range 1000 {
		items = append(items, trainJobOf(fmt.Sprintf("t%d", i), ""))
	}
	f, err := Read([]byte(list(items...)))
	if err != nil || len(f.Templates) != 2000 {
		t.Errorf("%.300v, want 2000 templates", err)
	}
}

// The patches of a TrainJob are searched once, not once for each replicated job.
func TestPatchesTakeLinearTime(t *testing.T) {
	const patch = `{"trainingRuntimeSpec":{"template":{"spec":{"replicatedJobs":[%s]}}}}`
	many := func(n int, inner string) string {
		all := strings.Repeat(fmt.Sprintf(patch, inner)+",", n)
		return `,"runtimePatches":[` + strings.TrimSuffix(all, ",") + `]`
	}
	one := func(name string) string { return `{"name":"` + name + `","template":{"spec":{"template":{}}}}` }
	large := trainingRuntime("", replicatedJobs(2000, false)...)
	alone, err := allocated(list(large, trainJobOf("t", "")))
	if err != nil {
		t.Fatal(err)
	}
	if with, err := allocated(list(large, trainJobOf("t", many(maxPatches, one("x"))))); err != nil || with > 2*alone {
		t.Errorf("%d bytes are allocated without patches, and %d with patches that change nothing: %v", alone, with, err)
	}
	small := trainingRuntime("", replicatedJobs(2, false)...)
	for want, text := range map[string]string{
		"TrainJob t: spec.runtimePatches: 3500 patches, at most 100 are read": list(large,
			trainJobOf("t", many(3500, one("x")))),
		`TrainJob t: spec.runtimePatches[0]: replicated job "x" is there twice`: list(small,
			trainJobOf("t", many(1, one("x")+","+one("x")))),
		`TrainJob t: the runtime has two replicated jobs "j"`: list(trainJobOf("t", ""),
			trainingRuntime("", jobOfRuntime("j", false), jobOfRuntime("j", false))),
	} {
		if _, err := Read([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %.300v, want %s", err, want)
		}
	}
}

// The path of a value is made for an error only: a list deep in an object may have many values.
func TestLongPathsTakeLinearTime(t *testing.T) {
	const depth = 2000
	deep := func(values string) string {
		return `{"apiVersion":"kubeflow.org/v1","kind":"PyTorchJob","metadata":{"name":"x"},"spec":` +
			strings.Repeat(`{"`+strings.Repeat("a", 80)+`":`, depth) + values + strings.Repeat("}", depth) + "}"
	}
	// The first number makes tame look at all others.
	const values = 10_000
	text := deep(`["a1e1000",` + strings.Repeat("1,", values) + "1]")
	bytes, err := allocated(text)
	var none *NoPodsError
	if !errors.As(err, &none) || bytes > values*depth*80/10 {
		t.Errorf("a file of %d bytes: %d MiB are allocated, %.200v", len(text), bytes>>20, err)
	}
	_, err = allocated(deep(`{"limits":[1e1000]}`))
	if err == nil || !strings.HasPrefix(err.Error(), "document 1: PyTorchJob x: spec.aaa") ||
		!strings.HasSuffix(err.Error(), `a...: "1e1000" is not an amount`) || len(err.Error()) > 2*maxPath {
		t.Errorf("error of %d bytes: %.200v", len(fmt.Sprint(err)), err)
	}
}

// Names that are no names do not end the program.
func TestNamesOfJobsMayBeObjects(t *testing.T) {
	job := `{name: {}, replicas: 1, dependsOn: {name: [{}, a]}, template: {spec: {template: ` + inner(1) + `}}}`
	_, _ = Read([]byte(custom("jobset.x-k8s.io/v1alpha2", "JobSet", "{startupPolicy: {startupPolicyOrder: InOrder}, "+
		"replicatedJobs: ["+job+", "+job+"]}")))
	task := `{name: {}, dependsOn: {name: [{}, a], iteration: {}}, template: ` + inner(1) + `}`
	_, _ = Read([]byte(custom("batch.volcano.sh/v1alpha1", "Job", "{tasks: ["+task+", "+task+"]}")))
}
