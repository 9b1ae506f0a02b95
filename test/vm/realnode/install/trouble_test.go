package install_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/lab/workload"
	"github.com/tenon-numa/tenon/test/vm/realnode"
)

// pod returns a pod for Tenon whose containers wait, or end by themselves.
func pod(name string, ends bool, containers ...v1.Container) *v1.Pod {
	p := workload.Pod(name, containers...)
	p.Spec.SchedulerName = "tenon-scheduler"
	p.Spec.TerminationGracePeriodSeconds = new(int64(1))
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		c.Image, c.ImagePullPolicy, c.Args = realnode.Image, v1.PullNever, []string{"8"}
		if ends {
			c.Args = append(c.Args, "end")
		}
	}
	if ends {
		p.Spec.RestartPolicy = v1.RestartPolicyNever
	}
	return p
}

func guaranteed(cpu string) v1.Container {
	return workload.Guaranteed("main", workload.Amounts{"cpu": cpu, "memory": "32Mi"})
}

// await returns a pod of the default namespace once it has one of some fates.
func (w *world) await(ctx context.Context, t *testing.T, name string, want ...workload.Fate) *v1.Pod {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	var found *v1.Pod
	_, err := w.pods.Until(ctx, func(pods []*v1.Pod) bool {
		i := slices.IndexFunc(pods, func(p *v1.Pod) bool { return p.Name == name })
		if i < 0 {
			return false
		}
		found = pods[i]
		got, _ := workload.FateOf(found)
		return slices.Contains(want, got) || got == workload.Refused
	})
	if err != nil {
		t.Fatalf("pod %s is none of %v: %v", name, want, err)
	}
	if got, why := workload.FateOf(found); !slices.Contains(want, got) {
		t.Fatalf("pod %s is %s, want %v: %s: %s", name, got, want, why, found.Status.Message)
	}
	return found
}

// runs creates a pod and waits until it runs. With Tenon, no trouble of an agent makes a pod wait.
func (w *world) runs(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	if err := workload.Create(ctx, w.client, pod(name, false, guaranteed("1"))); err != nil {
		t.Fatal(err)
	}
	w.await(ctx, t, name, workload.Running)
	w.must(ctx, t, "kubectl delete pod "+name)
}

// waits creates a pod, which has to wait for a reason that the plugin explains.
func (w *world) waits(ctx context.Context, t *testing.T, name, why string) {
	t.Helper()
	if err := workload.Create(ctx, w.client, pod(name, false, guaranteed("1"))); err != nil {
		t.Fatal(err)
	}
	w.await(ctx, t, name, workload.Pending)
	w.explained(ctx, t, name, why)
}

// explained fails unless the plugin gives the reason why a pod waits.
func (w *world) explained(ctx context.Context, t *testing.T, name, why string) {
	t.Helper()
	if out := w.must(ctx, t, "kubectl tenon explain pod "+name); !strings.Contains(out, why) {
		t.Errorf("the explanation of pod %s does not contain %q", name, why)
	}
}

// killed ends the agent's process. Placement continues with the agent's last report and predictions.
func killed(ctx context.Context, t *testing.T, w *world) {
	if _, err := w.node.Run(ctx, "kill -9 $(pidof tenon-agent)"); err != nil {
		t.Fatal(err)
	}
	w.runs(ctx, t, "while-the-agent-starts")
	w.must(ctx, t, "kubectl -n tenon-agents wait pods --all --for=condition=Ready --timeout=2m")
	out := w.must(ctx, t, "kubectl -n tenon-agents get pods")
	if !strings.Contains(out, "1 (") {
		t.Error("no container of the agent has started again")
	}
}

// drained drains the only node.
func drained(ctx context.Context, t *testing.T, w *world) {
	out, err := w.shell.run(ctx, "kubectl drain "+nodeName+" --ignore-daemonsets --timeout=20s")
	t.Logf("$ kubectl drain %s --ignore-daemonsets --timeout=20s\n%s", nodeName, out)
	if err == nil || !strings.Contains(out, "disruption budget") {
		t.Errorf("the drain ends with %v, want that the disruption budget keeps one scheduler", err)
	}
	w.must(ctx, t, "kubectl get pods -A")
	w.waits(ctx, t, "cordoned", "node is cordoned")
	w.must(ctx, t, "kubectl uncordon "+nodeName)
	w.await(ctx, t, "cordoned", workload.Running)
	w.must(ctx, t, "kubectl delete pod cordoned")
	w.must(ctx, t, "kubectl -n tenon-system rollout status deployment/tenon-scheduler --timeout=3m")
}

// full fills the file system of /var/lib.
func full(ctx context.Context, t *testing.T, w *world) {
	// The most that a node can be short of while its kubelet can still write its own state.
	const fill = `fallocate -l $(($(df -k /var/lib | awk 'END {print $4}') - 16384))K /var/lib/ballast && df -h /var/lib`
	out, err := w.node.Run(ctx, fill)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(out)
	defer func() { // later tests need the room
		if t.Failed() {
			w.emptyDisk(ctx, t)
			w.must(ctx, t, "kubectl delete pods --all")
			w.pressure(ctx, t, "False")
		}
	}()
	w.pressure(ctx, t, "True")
	out = w.must(ctx, t, "kubectl describe node "+nodeName+" | sed -n '/^Taints/p; /DiskPressure/p'; kubectl get pods -A")
	if !strings.Contains(out, "node.kubernetes.io/disk-pressure:NoSchedule") {
		t.Error("the node has no taint")
	}
	name := w.crowded(ctx, t)
	w.explained(ctx, t, name, "node.kubernetes.io/disk-pressure")
	w.emptyDisk(ctx, t)
	w.pressure(ctx, t, "False")
	w.await(ctx, t, name, workload.Running)
	w.must(ctx, t, "kubectl delete pod "+name+"; kubectl get pods -A")
	images, err := w.node.Run(ctx, "ctr -n k8s.io images list -q | grep -v sha256:")
	t.Logf("images that are left on the node: %v\n%s", err, images)
}

// crowded creates pods until one waits, and returns its name. A scheduler may receive the taint after it has bound a
// pod, which the kubelet then rejects.
func (w *world) crowded(ctx context.Context, t *testing.T) string {
	t.Helper()
	for i := range 5 {
		name := fmt.Sprintf("crowded-%d", i)
		if err := workload.Create(ctx, w.client, pod(name, false, guaranteed("1"))); err != nil {
			t.Fatal(err)
		}
		p := w.await(ctx, t, name, workload.Pending, workload.Refused)
		if fate, _ := workload.FateOf(p); fate == workload.Pending {
			return name
		}
		w.must(ctx, t, "kubectl get pod "+name+"; kubectl delete pod "+name)
		if !strings.Contains(p.Status.Message, "DiskPressure") {
			t.Fatalf("pod %s is rejected, and not for the pressure: %s", name, p.Status.Message)
		}
	}
	t.Fatal("the scheduler does not learn of the taint")
	return ""
}

// emptyDisk removes what filled the disk.
func (w *world) emptyDisk(ctx context.Context, t *testing.T) {
	t.Helper()
	if _, err := w.node.Run(ctx, "rm -f /var/lib/ballast"); err != nil {
		t.Fatal(err)
	}
}

// pressure waits until the node reports whether its disk is full.
func (w *world) pressure(ctx context.Context, t *testing.T, want string) {
	t.Helper()
	w.must(ctx, t, fmt.Sprintf("kubectl wait node/%s --for=condition=DiskPressure=%s --timeout=3m", nodeName, want))
}

// unpulled upgrades to images that do not exist. The running scheduler continues.
func unpulled(ctx context.Context, t *testing.T, w *world) {
	const upgrade = "helm upgrade tenon dist/tenon-*.tgz --namespace tenon-system --set image.tag=0.0.0-none --wait " +
		"--timeout 40s"
	out, err := w.shell.run(ctx, upgrade)
	t.Logf("$ %s\n%s", upgrade, out)
	if err == nil {
		t.Error("the upgrade succeeds")
	}
	out = w.must(ctx, t, "kubectl get pods -A")
	if !strings.Contains(out, "ImagePullBackOff") && !strings.Contains(out, "ErrImagePull") {
		t.Error("no pod says that its image cannot be pulled")
	}
	w.must(ctx, t, "kubectl -n tenon-agents get events --field-selector reason=Failed")
	w.runs(ctx, t, "without-an-agent")
	w.must(ctx, t, "helm rollback tenon --namespace tenon-system --wait --timeout 10m")
	pods, err := w.client.CoreV1().Pods("tenon-agents").List(ctx, metav1.ListOptions{})
	if err != nil || len(pods.Items) != 1 {
		t.Errorf("%d agents after the rollback: %v", len(pods.Items), err)
	}
}
