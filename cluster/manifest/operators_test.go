package manifest

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// inner is a pod template of one container that asks for so many GPUs.
func inner(gpus int) string {
	return fmt.Sprintf(`{spec: {containers: [{name: c, image: i, resources: {limits: {cpu: 8, memory: 8Gi, nvidia.com/gpu: %d}}}]}}`,
		gpus)
}

func custom(api, kind, spec string) string {
	return "apiVersion: " + api + "\nkind: " + kind + "\nmetadata: {name: x, namespace: ml}\nspec: " + spec + "\n"
}

// summary is the templates of a file in short: name, count and GPUs of each.
func summary(f *File) string {
	var out []string
	for _, t := range f.Templates {
		gpus := t.Pod.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"]
		out = append(out, fmt.Sprintf("%s %s: %d of %d", t.Kind, t.Name, t.Count, gpus.Value()))
	}
	return strings.Join(out, ", ")
}

func TestPodsOfOperatorsAreFound(t *testing.T) {
	one, two := inner(1), inner(2)
	for text, want := range map[string]string{
		custom("kubeflow.org/v1", "PyTorchJob", "{pytorchReplicaSpecs: {Master: {template: "+one+
			"}, Worker: {replicas: 3, template: "+
			two+"}}}"): "PyTorchJob x-master: 1 of 1, PyTorchJob x-worker: 3 of 2",
		custom("kubeflow.org/v2beta1", "MPIJob", "{mpiReplicaSpecs: {Worker: {replicas: 2, template: "+two+"}}}"): "" +
			"MPIJob x-worker: 2 of 2",
		custom("ray.io/v1", "RayCluster", "{headGroupSpec: {template: "+one+
			"}, workerGroupSpecs: [{groupName: train, replicas: 2, "+
			"numOfHosts: 2, template: "+two+"}]}"): "RayCluster x: 1 of 1, RayCluster x-train: 4 of 2",
		custom("ray.io/v1", "RayJob", "{rayClusterSpec: {headGroupSpec: {template: "+one+"}}}"): "RayJob x: 1 of 1",
		custom("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "{replicas: 2, leaderWorkerTemplate: {size: 4, "+
			"leaderTemplate: "+one+
			", workerTemplate: "+two+"}}"): "LeaderWorkerSet x: 2 of 1, LeaderWorkerSet x: 6 of 2",
		custom("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "{leaderWorkerTemplate: {size: 4, workerTemplate: "+two+
			"}}"): "" +
			"LeaderWorkerSet x: 4 of 2",
		custom("jobset.x-k8s.io/v1alpha2", "JobSet", "{replicatedJobs: [{name: w, replicas: 2, template: {spec: "+
			"{parallelism: 3, "+
			"completions: 2, template: "+two+"}}}]}"): "JobSet x-w: 4 of 2",
		custom("batch.volcano.sh/v1alpha1", "Job", "{tasks: [{name: w, replicas: 4, template: "+two+"}]}"): "Job x-w: 4 of 2",
		custom("argoproj.io/v1alpha1", "Rollout", "{replicas: 5, template: "+one+
			"}"): "Rollout x: 5 of 1",
		custom("serving.knative.dev/v1", "Service", "{template: {spec: {containerConcurrency: 1, containers: [{image: "+
			"i}]}}}"): "" +
			"Service x: 1 of 0",
		custom("example.com/v1", "Trainer", "{roles: [{replicas: 7, template: "+two+"}]}"): "Trainer x: 7 of 2",
		"apiVersion: v1\nkind: PodTemplate\nmetadata: {name: x}\ntemplate: " + one:         "PodTemplate x: 1 of 1",
	} {
		f, err := Read([]byte(text))
		if err != nil || summary(f) != want || len(f.Left)+len(f.Unjudged) > 0 {
			t.Errorf("%s\nis read as %v, %v; want %s", text, f, err, want)
		}
		if err == nil && (f.Templates[0].Guessed != "") != (f.Templates[0].Kind == "Trainer") {
			t.Errorf("%s: found by guess at %q", text, f.Templates[0].Guessed)
		}
	}
}

// The annotation that Volcano gives to the pods of a task is the pods' demand.
func TestTheTopologyPolicyOfAVolcanoTaskIsRead(t *testing.T) {
	text, err := os.ReadFile("../../docs/examples/volcano-job.yaml")
	if err != nil {
		t.Fatal(err)
	}
	f, err := Read(text)
	if err != nil || len(f.Templates) != 1 || f.Templates[0].Count != 4 {
		t.Fatalf("%+v, %v; want four pods", f, err)
	}
	if got := f.Templates[0].Pod.Annotations["volcano.sh/numa-topology-policy"]; got != "single-numa-node" {
		t.Errorf("the policy is %q", got)
	}
}

// A file with a virtual machine and a ConfigMap: nothing is judged, and the file reports that.
func TestObjectsWhosePodsAreNotJudgedAreNamed(t *testing.T) {
	config := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: script}\n"
	vm := custom("kubevirt.io/v1", "VirtualMachine", "{template: {spec: {domain: {cpu: {cores: 26}}}}}")
	_, err := Read([]byte(config + "---\n" + vm))
	if err == nil || !strings.HasPrefix(err.Error(), "no pods that can be judged: document 2: VirtualMachine x "+
		"(kubevirt.io/v1): ") {
		t.Errorf("error %v does not name the machine", err)
	}
	pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}]}\n"
	f, err := Read([]byte(config + "---\n" + vm + "---\n" + pod))
	if err != nil || len(f.Left) != 1 || len(f.Unjudged) != 1 || len(f.Templates) != 1 {
		t.Errorf("%+v, %v; want one object of each sort", f, err)
	}
	_, err = Read([]byte(config))
	const want = "no pods, and no objects that are known to have any: document 1: ConfigMap script (v1)"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	empty := custom("kubeflow.org/v1", "PyTorchJob", "{}")
	if f, err := Read([]byte(pod + "---\n" + empty)); err != nil || len(f.Unjudged) != 1 {
		t.Errorf("a job without templates: %+v, %v", f, err)
	}
}

func TestFaultsOfOperatorsObjectsNameTheField(t *testing.T) {
	for text, want := range map[string]string{
		custom("batch.volcano.sh/v1alpha1", "Job", "{tasks: [{replicas: -1, template: "+inner(1)+"}]}"): "" +
			"document 1: Job x: spec.tasks[0].template: replicas: -1 is outside 0..100000",
		custom("batch.volcano.sh/v1alpha1", "Job", "{tasks: [{template: {spec: {contaners: []}}}]}"): "" +
			`document 1: Job x: spec.tasks[0].template: unknown field "spec.contaners"`,
		custom("ray.io/v1", "RayCluster", "{headGroupSpec: {template: "+strings.Replace(inner(1), "8Gi", "8Gib", 1)+
			"}}"): "" +
			`document 1: RayCluster x: spec.headGroupSpec.template.spec.containers[0].resources.limits.memory: "8Gib" is not an amount`,
		custom("ray.io/v1", "RayCluster", "{workerGroupSpecs: [{replicas: 100000, numOfHosts: 100000, template: "+inner(1)+
			"}]}"): "" +
			"document 1: RayCluster x: spec.workerGroupSpecs[0].template: more than 100000 pods",
	} {
		if _, err := Read([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}
