package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
	"sigs.k8s.io/yaml"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/face/cli"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/machines"
	"github.com/tenon-numa/tenon/lab/workload"
)

var (
	planSeed     = flag.Uint64("plan.seed", 0, "seed of TestAPlanSaysWhatKubeletsDo; 0: a new one")
	planClusters = flag.Int("plan.clusters", 2, "random clusters of TestAPlanSaysWhatKubeletsDo")
)

// Random pods run on a random machine, its kubelet gets another configuration, and the same pods start again in the
// same order. The real kubelet admits exactly the pods that the plan lists as admitted, and refuses the others with the
// errors in the plan. The test removes only the state files that the plan names.
func TestAPlanSaysWhatKubeletsDo(t *testing.T) {
	seed := *planSeed
	if seed == 0 {
		seed = rand.Uint64N(1 << 32)
	}
	t.Logf("-plan.seed=%d", seed)
	started, refused := 0, 0
	for i := range *planClusters {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		x := drawRollout(ctx, t, rand.New(rand.NewPCG(seed, uint64(i))))
		pods := x.fill(ctx, t)
		args := x.draw(t)
		out, stderr, code := run(ctx, x.Cluster, append([]string{"kubelet", "plan", "-o", "json"}, args...)...)
		var plan document.KubeletPlan
		if err := json.Unmarshal([]byte(out), &plan); err != nil || len(plan.Nodes) != 1 || code == cli.ExitError {
			t.Fatalf("%s: plan %v: exit code %d, %s, %v", x.machine.Name, args, code, stderr, err)
		}
		n := x.again(ctx, t, plan.Nodes[0], pods)
		t.Logf("cluster %d, %s, %v: %d of %d pods started again, state files %v", i, x.machine.Name, args, n, len(pods),
			plan.Nodes[0].StateFiles)
		started, refused = started+n, refused+len(pods)-n
		if err := x.Stop(); err != nil {
			t.Error(err)
		}
		cancel()
	}
	t.Logf("%d clusters: %d pods started again, %d were refused, as planned", *planClusters, started, refused)
}

// rolled is a node whose kubelet changes.
type rolled struct {
	*lab.Cluster
	user    kubernetes.Interface
	r       *rand.Rand
	machine machines.Machine
	config  map[string]any // of its kubelet
}

// drawRollout starts a cluster of one random machine, whose kubelet is willing to spread pods.
func drawRollout(ctx context.Context, t *testing.T, r *rand.Rand) *rolled {
	t.Helper()
	names := slices.DeleteFunc(machines.List(), func(name string) bool { return name == "laptop" }) // it has one NUMA node
	m, err := machines.Load(names[r.IntN(len(names))])
	if err != nil {
		t.Fatal(err)
	}
	x := &rolled{r: r, machine: m}
	if err := yaml.Unmarshal([]byte(m.YAML), &x.config); err != nil {
		t.Fatal(err)
	}
	x.config["topologyManagerPolicy"], x.config["topologyManagerScope"] = "best-effort", "container"
	x.Cluster, err = lab.Start(ctx, lab.Config{Apart: true, Nodes: []lab.Node{{Name: "a", Machine: m.Name}},
		Machines: fstest.MapFS{m.Name + ".txt": {Data: []byte(m.Text)}, m.Name + ".yaml": {Data: []byte(x.yaml(t))}}})
	if err != nil {
		t.Fatal(err)
	}
	x.user = kubernetes.NewForConfigOrDie(x.RESTConfig())
	return x
}

func (x *rolled) yaml(t *testing.T) string {
	t.Helper()
	text, err := yaml.Marshal(x.config)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// draw changes the configuration at random, and returns the flags for the change.
func (x *rolled) draw(t *testing.T) []string {
	t.Helper()
	policy := []string{"single-numa-node", "restricted"}[x.r.IntN(2)]
	x.config["topologyManagerPolicy"] = policy
	flags := []string{"--policy", policy}
	if x.r.IntN(2) == 0 {
		x.config["topologyManagerScope"] = "pod"
		flags = append(flags, "--option", "scope=pod")
	}
	if x.r.IntN(4) == 0 {
		x.config["memoryManagerPolicy"] = "None"
		delete(x.config, "reservedMemory")
		flags = append(flags, "--memory-manager-policy", "None")
	}
	options, _ := x.config["cpuManagerPolicyOptions"].(map[string]any)
	options = maps.Clone(options)
	if options == nil {
		options = map[string]any{}
	}
	if reserved, _ := x.config["reservedSystemCPUs"].(string); reserved != "" && x.r.IntN(3) == 0 {
		options["strict-cpu-reservation"] = "true"
		flags = append(flags, "--option", "strict-cpu-reservation")
	}
	x.config["cpuManagerPolicyOptions"] = options
	return flags
}

// fill creates pods, and returns the pods that run.
func (x *rolled) fill(ctx context.Context, t *testing.T) map[string]*v1.Pod {
	t.Helper()
	out := map[string]*v1.Pod{}
	for i := range 10 {
		containers := []v1.Container{workload.Guaranteed("c", x.amounts(true))}
		if x.r.IntN(3) == 0 {
			containers = append(containers, workload.Guaranteed("d", x.amounts(false)))
		}
		p := workload.Pod(fmt.Sprintf("p-%d", i), containers...)
		p.Spec.NodeName = "a"
		if seen := x.start(ctx, t, p); seen.Status.Phase == v1.PodRunning {
			out[p.Name] = p
		} else if err := x.user.CoreV1().Pods("default").Delete(ctx, p.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	reported(ctx, t, x.Cluster, len(out))
	return out
}

// amounts returns a random part of a NUMA node of the machine, or somewhat more than a NUMA node.
func (x *rolled) amounts(devices bool) workload.Amounts {
	m := x.machine.Topo
	numas := m.NUMAs()
	cpus := m.CPUs().Len() / len(numas)
	memory := int64(0)
	for _, n := range numas {
		memory += n.Bytes / int64(len(numas))
	}
	out := workload.Amounts{"cpu": fmt.Sprint(2 * (1 + x.r.IntN(cpus*2/5))),
		"memory": fmt.Sprintf("%dGi", 1+x.r.Int64N(memory>>30*3/5))}
	if all := m.Resources(); devices && len(all) > 0 && x.r.IntN(3) == 0 {
		one := all[x.r.IntN(len(all))]
		out[v1.ResourceName(one.Name)] = fmt.Sprint(1 + x.r.IntN(2))
	}
	return out
}

// start creates a pod, and returns it once the kubelet has admitted or refused it.
func (x *rolled) start(ctx context.Context, t *testing.T, p *v1.Pod) (seen *v1.Pod) {
	t.Helper()
	if err := workload.Create(ctx, x.user, p.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		var err error
		seen, err = x.user.CoreV1().Pods("default").Get(ctx, p.Name, metav1.GetOptions{})
		return err == nil && (seen.Status.Phase == v1.PodRunning || seen.Status.Phase == v1.PodFailed), err
	})
	if err != nil {
		t.Fatalf("pod %s is neither admitted nor refused: %v", p.Name, err)
	}
	return seen
}

// again drains the node, changes its kubelet, starts the pods in the order of the plan, and compares. It returns how
// many started.
func (x *rolled) again(ctx context.Context, t *testing.T, plan document.KubeletPlanNode,
	pods map[string]*v1.Pod) (started int) {
	t.Helper()
	if len(plan.Pods) != len(pods) || len(plan.Errors) > 0 {
		t.Fatalf("the plan has %d pods and errors %v; want %d pods", len(plan.Pods), plan.Errors, len(pods))
	}
	x.remove(ctx, t)
	for _, name := range plan.StateFiles {
		if err := os.Remove(filepath.Join(x.NodeDir("a"), name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.RestartKubelet(ctx, "a", x.yaml(t)); err != nil {
		t.Fatal(err)
	}
	x.await(ctx, t, plan.After.TopologyManagerPolicy, plan.After.TopologyManagerScope)
	// Until a kubelet has seen its pods once, it counts the devices in its checkpoint as taken, even for deleted pods
	// (devicemanager, UpdateAllocatedDevices). So a pod that holds nothing comes first.
	first := workload.Pod("first", workload.Burstable("c", nil, nil))
	first.Spec.NodeName = "a"
	if seen := x.start(ctx, t, first); seen.Status.Phase != v1.PodRunning {
		t.Fatalf("a pod that asks for nothing was refused: %s", seen.Status.Message)
	}
	for _, want := range plan.Pods {
		got := x.start(ctx, t, pods[want.Name])
		starts := got.Status.Phase == v1.PodRunning
		if starts != want.Starts || !starts && got.Status.Reason != want.Error {
			t.Errorf("%s on %s under %s: phase %s, reason %q (%s); the plan says %v, %q", want.Name, x.machine.Name,
				plan.After.TopologyManagerPolicy, got.Status.Phase, got.Status.Reason, got.Status.Message, want.Starts,
				want.Error)
		}
		if starts {
			started++
		}
	}
	return started
}

// remove deletes all pods and waits until the node holds nothing.
func (x *rolled) remove(ctx context.Context, t *testing.T) {
	t.Helper()
	none := int64(0)
	pods := x.user.CoreV1().Pods("default")
	now := metav1.DeleteOptions{GracePeriodSeconds: &none}
	if err := pods.DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	reported(ctx, t, x.Cluster, 0)
}

// await waits until the kubelet serves with all devices, and its agent reports policy and scope. The devices in the
// Node may be from before the restart; the kubelet itself has none until their plugins have registered again.
func (x *rolled) await(ctx context.Context, t *testing.T, policy, scope string) {
	t.Helper()
	layouts, err := client.New(x.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient("unix://"+filepath.Join(x.NodeDir("a"), "pod-resources", "kubelet.sock"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	lacks := ""
	err = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		if err := x.NodeErr("a"); err != nil {
			return false, err
		}
		lacks = x.lacks(ctx, podresources.NewPodResourcesListerClient(conn))
		if lacks != "" {
			return false, nil
		}
		l, err := layouts.Get(ctx, "a", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		lacks = "its rules"
		return l.Rules.TopologyManagerPolicy == policy && l.Rules.TopologyManagerScope == scope, nil
	})
	if err != nil {
		t.Fatalf("the kubelet does not serve %s per %s, it lacks %s: %v", policy, scope, lacks, err)
	}
}

// lacks returns the devices that the kubelet lacks.
func (x *rolled) lacks(ctx context.Context, kubelet podresources.PodResourcesListerClient) string {
	all, err := kubelet.GetAllocatableResources(ctx, &podresources.AllocatableResourcesRequest{})
	if err != nil {
		return "an answer: " + err.Error()
	}
	have := map[string]int{}
	for _, d := range all.Devices {
		have[d.ResourceName] += len(d.DeviceIds)
	}
	n, err := x.user.CoreV1().Nodes().Get(ctx, "a", metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	for _, r := range x.machine.Topo.Resources() {
		reported := n.Status.Allocatable[v1.ResourceName(r.Name)]
		if have[r.Name] != len(r.Devices) || reported.Value() != int64(len(r.Devices)) {
			return fmt.Sprintf("devices: it has %d %s, its Node %s", have[r.Name], r.Name, reported.String())
		}
	}
	if !slices.ContainsFunc(n.Status.Conditions, func(c v1.NodeCondition) bool {
		return c.Type == v1.NodeReady && c.Status == v1.ConditionTrue
	}) {
		return "readiness"
	}
	return ""
}
