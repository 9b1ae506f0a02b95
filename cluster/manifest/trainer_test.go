package manifest

import (
	"strings"
	"testing"
)

// torch is a runtime with the parts RUNTIME of a policy and the given pod template.
func torch(kind, policy, template string) string {
	return "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: " + kind + "\nmetadata: {name: numa, namespace: ml}\n" +
		"spec: {mlPolicy: " + policy + ", template: {spec: {replicatedJobs: [{name: data, template: {metadata: {labels: " +
		"{trainer.kubeflow.org/trainjob-ancestor-step: dataset-initializer}}, spec: {template: " + inner(0) + "}}}, " +
		"{name: node, template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}, " +
		"spec: {template: " + template + "}}}]}}}\n"
}

func trainJob(spec string) string { return custom("trainer.kubeflow.org/v1alpha1", "TrainJob", spec) }

// node is a pod template with the container that TrainJobs change, and one GPU.
var node = strings.Replace(inner(1), "name: c", "name: node", 1)

// A TrainJob has the pods of its runtime, with the job's number of nodes, resources and patches.
func TestTrainJobsTakePodsFromTheirRuntime(t *testing.T) {
	const ref = "runtimeRef: {name: numa, kind: TrainingRuntime}"
	own := torch("TrainingRuntime", "{numNodes: 2, torch: {}}", node)
	mpi := torch("TrainingRuntime", "{mpi: {runLauncherAsNode: true}}", node)
	for text, want := range map[string]string{
		own + "---\n" + trainJob("{"+ref+"}"): "TrainJob x-data: 1 of 0, TrainJob x-node: 2 of 1",
		trainJob("{"+ref+", trainer: {numNodes: 5, resourcesPerNode: {limits: {nvidia.com/gpu: 4}}}}") + "---\n" + own: "" +
			"TrainJob x-data: 1 of 0, TrainJob x-node: 5 of 4",
		own: "TrainingRuntime numa-data: 1 of 0, TrainingRuntime numa-node: 2 of 1",
		mpi + "---\n" + trainJob("{"+ref+", trainer: {numNodes: 4}}"): "TrainJob x-data: 1 of 0, TrainJob x-node: 3 of 1",
		// A template of another object stays where the file has it.
		trainJob("{"+ref+"}") + "---\napiVersion: v1\nkind: PodTemplate\nmetadata: {name: z}\ntemplate: " + inner(3) +
			"\n---\n" + own: "TrainJob x-data: 1 of 0, TrainJob x-node: 2 of 1, PodTemplate z: 1 of 3",
	} {
		f, err := Read([]byte(text))
		if err != nil || summary(f) != want || len(f.Left)+len(f.Unjudged) > 0 {
			t.Errorf("%s\nis read as %+v, %v; want %s", text, f, err, want)
		}
	}
	patch := trainJob("{" + ref + ", trainer: {image: other, resourcesPerNode: {requests: {memory: 4Gi}}}, " +
		"runtimePatches: [{manager: me, trainingRuntimeSpec: {template: {spec: {replicatedJobs: [{name: node, " +
		"template: {spec: {template: {metadata: {annotations: {tenon.sh/numa-policy: restricted}}, " +
		"spec: {nodeSelector: {pool: gpu}}}}}}]}}}}]}")
	f, err := Read([]byte(own + "---\n" + patch))
	if err != nil || len(f.Templates) != 2 {
		t.Fatalf("%+v, %v; want two templates", f, err)
	}
	p := f.Templates[1].Pod
	c := p.Spec.Containers[0]
	memory := c.Resources.Requests.Memory().String() + " " + c.Resources.Limits.Memory().String()
	if p.Annotations["tenon.sh/numa-policy"] != "restricted" || p.Spec.NodeSelector["pool"] != "gpu" ||
		c.Image != "other" || memory != "4Gi 8Gi" {
		t.Errorf("the patched pod is %+v", p)
	}
	if q := f.Templates[0].Pod; len(q.Annotations)+len(q.Spec.NodeSelector) > 0 {
		t.Errorf("the pod of another replicated job is patched: %+v", q)
	}
}

// What cannot be read of a TrainJob is named.
func TestTrainJobsThatAreNotJudgedAreNamed(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}]}\n---\n"
	own := "---\n" + torch("ClusterTrainingRuntime", "{torch: {}}", node)
	for text, want := range map[string]string{
		trainJob("{runtimeRef: {name: numa}}"): "TrainJob x (trainer.kubeflow.org/v1alpha1): its pods come from " +
			"ClusterTrainingRuntime numa, which is not in the file; add it",
		trainJob("{runtimeRef: {name: numa}, podTemplateOverrides: [{}]}") + own: "TrainJob x " +
			"(trainer.kubeflow.org/v1alpha1): its spec.podTemplateOverrides belongs to an older release of Trainer and is " +
			"not read",
		torch("TrainingRuntime", "{flux: {}}", node): "TrainingRuntime numa (trainer.kubeflow.org/v1alpha1): its runtime " +
			"has the policy flux, which adds containers to its pods",
	} {
		f, err := Read([]byte(pod + text))
		if err != nil || len(f.Unjudged) != 1 || f.Unjudged[0] != "document 2: "+want {
			t.Errorf("%s\nis read as %+v, %v; want unjudged %s", text, f, err, want)
		}
	}
}

// The errors name the TrainJob, its runtime, and the field.
func TestFaultsOfTrainJobsNameTheField(t *testing.T) {
	const path = "spec.template.spec.replicatedJobs[0].template.spec.template"
	own := "---\n" + torch("ClusterTrainingRuntime", "{torch: {}}", node)
	job := trainJob("{runtimeRef: {name: numa}}")
	for text, want := range map[string]string{
		trainJob("{runtimeRef: {name: numa}, trainer: {numNodes: 1000000}}") + own: "document 1: TrainJob x: " +
			"numNodes: 1000000 is outside 0..100000",
		job + strings.Replace(own, "containers", "contaners", 2): "document 1: TrainJob x: its runtime numa: " + path +
			`: unknown field "spec.contaners"`,
		job + strings.Replace(own, "8Gi", "8Gib", 2): "document 2: ClusterTrainingRuntime numa: " + path +
			`.spec.containers[0].resources.limits.memory: "8Gib" is not an amount`,
		torch("TrainingRuntime", "{}", "{}"): "document 1: TrainingRuntime numa: " +
			strings.Replace(path, "[0]", "[1]", 1) + ": the pod has no containers",
		"apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainingRuntime\nmetadata: {name: x}\n": "document 1: " +
			"TrainingRuntime x: the runtime has no pod template in " + strings.Replace(path, "[0]", ".*", 1),
	} {
		if _, err := Read([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// Many small TrainJobs with one large runtime are refused before their pods fill the memory.
func TestCopiesOfRuntimesAreBounded(t *testing.T) {
	large := strings.Replace(node, "image: i", "image: i, args: ["+strings.Repeat("x", 1<<20)+"]", 1)
	text := torch("ClusterTrainingRuntime", "{torch: {}}", large) +
		strings.Repeat("---\n"+trainJob("{runtimeRef: {name: numa}}"), MaxBytes>>20)
	_, err := Read([]byte(text))
	if err == nil || !strings.Contains(err.Error(), "bytes from their runtimes: split the file") {
		t.Errorf("error %.200v", err)
	}
}

// "kubectl get trainingruntime -o yaml" writes the namespace, and a TrainJob for "kubectl apply -n ml" has none, or the
// other way round. Where several runtimes have the name, none of them is guessed.
func TestRuntimesAreFoundWhereOneOfTheTwoHasNoNamespace(t *testing.T) {
	runtime := torch("TrainingRuntime", "{numNodes: 2, torch: {}}", node) + "---\n"
	job := trainJob("{runtimeRef: {name: numa, kind: TrainingRuntime}}")
	without := func(text string) string {
		return strings.NewReplacer(", namespace: ml", "", "namespace: ml, ", "").Replace(text)
	}
	other := strings.Replace(runtime, "namespace: ml", "namespace: other", 1)
	for what, c := range map[string]struct {
		text  string
		found bool
	}{
		"neither":           {without(runtime + job), true},
		"both":              {runtime + job, true},
		"the runtime":       {runtime + without(job), true},
		"the job":           {without(runtime) + job, true},
		"another":           {other + job, false},
		"one of two":        {runtime + other + without(job), false},
		"both, and another": {runtime + other + job, true},
	} {
		f, err := Read([]byte(c.text))
		if err != nil {
			t.Errorf("%s: %v\n%s", what, err, c.text)
			continue
		}
		n := 0
		for _, x := range f.Templates {
			if x.Kind == "TrainJob" {
				n++
			}
		}
		if (n == 2) != c.found || (len(f.Unjudged) == 0) != c.found {
			t.Errorf("namespace in %s: %s, not judged %q", what, summary(f), f.Unjudged)
		}
	}
}
