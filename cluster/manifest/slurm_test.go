package manifest

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

// The pod of a NodeSet has slurmd and the sidecar for its log, avoids the pods of other NodeSets, and tolerates the
// taint of Slurm's nodes.
func TestPodsOfNodeSetsAreMade(t *testing.T) {
	const spec = "{controllerRef: {name: slurm}, replicas: 3, slurmd: {image: i, resources: {limits: " +
		"{cpu: 8, memory: 8Gi}}}, logfile: {image: l}, template: {metadata: {annotations: " +
		"{tenon.sh/numa-policy: restricted}}, spec: {schedulerName: tenon-scheduler, " +
		"initContainers: [{name: mine, image: i}]}}"
	f, err := Read([]byte(custom("slinky.slurm.net/v1beta1", "NodeSet", spec+"}")))
	if err != nil || len(f.Templates) != 1 || f.Templates[0].Count != 3 || f.Templates[0].PerNode {
		t.Fatalf("%+v, %v; want three pods", f, err)
	}
	p := f.Templates[0].Pod
	first := p.Spec.InitContainers[0]
	if len(p.Spec.Containers) != 1 || p.Spec.Containers[0].Name != "slurmd" || len(p.Spec.InitContainers) != 2 ||
		first.Name != "logfile" || *first.RestartPolicy != v1.ContainerRestartPolicyAlways ||
		p.Spec.InitContainers[1].Name != "mine" {
		t.Errorf("the containers are %+v and %+v", p.Spec.InitContainers, p.Spec.Containers)
	}
	if p.Spec.SchedulerName != "tenon-scheduler" || p.Annotations["tenon.sh/numa-policy"] != "restricted" ||
		p.Labels["app.kubernetes.io/name"] != "slurmd" || len(p.Spec.Tolerations) != 1 ||
		p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].TopologyKey != v1.LabelHostname {
		t.Errorf("the pod is %+v", p)
	}
	f, err = Read([]byte(custom("slinky.slurm.net/v1beta1", "NodeSet",
		spec+", scalingMode: DaemonSet, oversubscribeNode: true}")))
	if err != nil || !f.Templates[0].PerNode || f.Templates[0].Pod.Spec.Affinity != nil {
		t.Errorf("%+v, %v; want a pod on every node, and no anti-affinity", f, err)
	}
	_, err = Read([]byte(custom("slinky.slurm.net/v1beta1", "NodeSet", "{slurmd: {imag: i}}")))
	const want = `document 1: NodeSet x: spec.slurmd: unknown field "spec.containers[0].imag"`
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}
