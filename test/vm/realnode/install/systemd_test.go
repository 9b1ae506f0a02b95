package install_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/deploy"
	"github.com/tenon-numa/tenon/deploy/crd"
	"github.com/tenon-numa/tenon/lab/control"
	"github.com/tenon-numa/tenon/lab/machines"
	"github.com/tenon-numa/tenon/lab/rights"
	"github.com/tenon-numa/tenon/lab/scheduler"
	"github.com/tenon-numa/tenon/test/vm/guest"
	"github.com/tenon-numa/tenon/test/vm/realnode"
)

// A kubelet that is a unit of systemd, with the drop-ins of its packages, is changed by kubectl tenon kubelet apply: to
// alignment and back while pods run, also where the kubelet refuses, a budget allows nothing, or the power fails.
func TestKubeletsUnderSystemd(t *testing.T) {
	if testing.Short() {
		t.Skip("boots a machine")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 70*time.Minute)
	defer cancel()
	w := startSystemd(ctx, t)
	w.deployment(ctx, t)
	t.Run("there and back", func(t *testing.T) {
		w.changes(ctx, t, aligned)
		if got := w.allowed(ctx, t); got != "1" && got != "2" && got != "3" {
			t.Errorf("with the static policy the kernel allows the pod CPUs %s, want one of its own", got)
		}
		w.changes(ctx, t, plain)
		if got := w.allowed(ctx, t); got != "0-3" {
			t.Errorf("without it the kernel allows the pod CPUs %s, want all", got)
		}
	})
	t.Run("a kubelet that refuses", func(t *testing.T) { w.refuses(ctx, t) })
	t.Run("a budget that allows nothing", func(t *testing.T) { w.keeps(ctx, t) })
	t.Run("the power fails before each step", func(t *testing.T) { w.cut(ctx, t) })
	t.Run("the power fails while the kubelet is changed", func(t *testing.T) { w.cutWithin(ctx, t) })
}

// Flags of kubectl tenon kubelet plan.
const (
	aligned = "--policy single-numa-node --cpu-manager-policy static --memory-manager-policy Static " +
		"--reserved-cpus 0 --reserved-memory 0:memory=400Mi"
	plain = "--policy none --cpu-manager-policy none --memory-manager-policy None"
)

// apply applies plan.json.
const apply = "kubectl tenon kubelet apply plan.json --yes --image " + realnode.ToolImage

// startSystemd boots a node with systemd, whose kubelet the API server reaches.
func startSystemd(ctx context.Context, t *testing.T) *world {
	t.Helper()
	w := &world{dir: t.TempDir(), played: map[string]bool{}}
	redirectLogs(t, filepath.Join(w.dir, "kubernetes.log"))
	say := func(line string) { t.Log(line) }
	onAMD64(t)
	disk, err := realnode.BuildSystemdDisk(ctx, w.dir, say)
	if missing := (*guest.MissingError)(nil); errors.As(err, &missing) && os.Getenv("CI") == "" {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	if w.root, err = realnode.Root(ctx); err != nil {
		t.Fatal(err)
	}
	if w.tools, err = realnode.BuildTools(ctx, say); err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	egress, stop, err := realnode.Egress(w.dir, port)
	if err != nil {
		t.Fatal(err)
	}
	cleanup(t, stop)
	w.control(ctx, t, control.Options{Kubelets: control.Kubelets{Egress: egress}, Manifests: deploy.Access(),
		CRDs: append(crd.Layouts(), crd.NodeResourceTopology())})
	s, err := scheduler.Start(w.dir, w.plane.Kubeconfig, scheduler.Plain, nil)
	if err != nil {
		t.Fatal(err)
	}
	cleanup(t, s.Stop)
	machine, err := machines.Read(os.DirFS("testdata"), "systemd")
	if err != nil {
		t.Fatal(err)
	}
	access, err := w.plane.Node(nodeName)
	if err != nil {
		t.Fatal(err)
	}
	ca := map[string]guest.File{"/etc/kubernetes/pki/ca.crt": {Host: filepath.Join(w.dir, "ca.crt"), Mode: 0o644}}
	w.node, err = realnode.Start(ctx, realnode.Config{Name: nodeName, Machine: machine, Disk: disk, Kubelet: access,
		Admin: w.plane.Admin, Port: port, Progress: say, Dir: w.dir,
		Files: ca,
		Agent: func(ctx context.Context) (*rest.Config, error) {
			return rights.As(ctx, w.plane.Admin, rights.Account{Namespace: deploy.AgentNamespace, Name: deploy.Agent,
				Node: nodeName})
		}})
	if err != nil {
		t.Fatal(err)
	}
	cleanup(t, func() error {
		if t.Failed() {
			w.explain(t)
		}
		return w.node.Stop()
	})
	return w
}

// freePort returns a port on which no program listens.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// deployment runs a pod that has a CPU of its own where the kubelet gives it one.
func (w *world) deployment(ctx context.Context, t *testing.T) {
	t.Helper()
	const text = `kubectl create -f - <<END
apiVersion: apps/v1
kind: Deployment
metadata: {name: db}
spec:
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: c
        image: %s
        args: ["16"]
        resources: {limits: {cpu: 1, memory: 64Mi}}
END
kubectl rollout status deployment/db --timeout=3m`
	w.must(ctx, t, fmt.Sprintf(text, realnode.Image))
}

// plan writes plan.json.
func (w *world) plan(ctx context.Context, t *testing.T, flags string) {
	t.Helper()
	// Exit code 2: a pod has no place while its only node changes.
	w.must(ctx, t, "kubectl tenon kubelet plan "+flags+" -o json > plan.json || test $? = 1")
}

// changes plans a change, has it made, and sees that the node is as it was otherwise.
func (w *world) changes(ctx context.Context, t *testing.T, flags string) {
	t.Helper()
	w.plan(ctx, t, flags)
	w.must(ctx, t, apply)
	w.rests(ctx, t, flags)
}

// rests fails the test unless the node is as a change must leave it: with the policy of the flags, a kubelet that runs,
// and the pod; without a cordon, an annotation, and a pod or file of the change.
func (w *world) rests(ctx context.Context, t *testing.T, flags string) {
	t.Helper()
	want := strings.Fields(flags)[1]
	n, err := w.client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n.Spec.Unschedulable || n.Annotations["tenon.sh/kubelet-change"] != "" {
		t.Errorf("the node is cordoned (%v), or being changed (%q)", n.Spec.Unschedulable,
			n.Annotations["tenon.sh/kubelet-change"])
	}
	left, err := w.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: "tenon.sh/kubelet-change"})
	if err != nil || len(left.Items) > 0 {
		t.Errorf("%d pods of the change are left (%v)", len(left.Items), err)
	}
	// For 40 seconds after the power has failed the node still counts as ready.
	out := ""
	err = wait.PollUntilContextTimeout(ctx, time.Second, 4*time.Minute, true, func(ctx context.Context) (bool, error) {
		out, err = w.shell.run(ctx, "kubectl get --raw /api/v1/nodes/"+nodeName+"/proxy/configz")
		return err == nil, nil
	})
	if err != nil {
		t.Fatalf("the kubelet does not answer: %s", out)
	}
	if !strings.Contains(out, `"topologyManagerPolicy":"`+want+`"`) {
		t.Errorf("the kubelet does not run with policy %s: %s", want, out)
	}
	if out, err = w.node.Run(ctx, "systemctl is-active kubelet && test ! -e /var/lib/kubelet/tenon-change"); err != nil {
		t.Errorf("on the node: %v: %s", err, out)
	}
	w.must(ctx, t, "kubectl rollout status deployment/db --timeout=4m")
}

// allowed returns the CPUs that the kernel allows the pod.
func (w *world) allowed(ctx context.Context, t *testing.T) (cpus string) {
	t.Helper()
	const script = `for p in /proc/[0-9]*; do
		if grep -q %s $p/cgroup 2>/dev/null; then sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' $p/status; exit; fi
	done; exit 1`
	err := wait.PollUntilContextTimeout(ctx, time.Second, time.Minute, true, func(ctx context.Context) (bool, error) {
		p, err := w.running(ctx)
		if err != nil || p == nil {
			return false, err
		}
		id := strings.TrimPrefix(p.Status.ContainerStatuses[0].ContainerID, "containerd://")
		out, err := w.node.Run(ctx, fmt.Sprintf(script, id))
		cpus = strings.TrimSpace(out)
		return err == nil && cpus != "", nil
	})
	if err != nil {
		t.Fatalf("no process of pod db: %v", err)
	}
	return cpus
}

// running returns the pod of the deployment that runs; nil while there is none.
func (w *world) running(ctx context.Context) (*v1.Pod, error) {
	pods, err := w.client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{LabelSelector: "app=db"})
	if err != nil {
		return nil, err
	}
	for i, p := range pods.Items {
		if p.Status.Phase == v1.PodRunning && p.DeletionTimestamp == nil && len(p.Status.ContainerStatuses) > 0 {
			return &pods.Items[i], nil
		}
	}
	return nil, nil
}

// refuses changes a plan so that the kubelet does not start with it: the node gets its old configuration again.
func (w *world) refuses(ctx context.Context, t *testing.T) {
	w.plan(ctx, t, aligned)
	file := filepath.Join(w.shell.dir, "plan.json")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var p document.KubeletPlan
	if err := json.Unmarshal(data, &p); err != nil {
		t.Fatal(err)
	}
	p.Nodes[0].DropIn = strings.ReplaceAll(p.Nodes[0].DropIn, "400Mi", "401Mi") // it has to equal what the kubelet keeps
	if data, err = json.Marshal(p); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := w.shell.run(ctx, apply+" --verify-timeout 45s")
	t.Log(out)
	if err == nil || !strings.Contains(out, "has its old configuration") {
		t.Errorf("apply ends with %v", err)
	}
	w.rests(ctx, t, plain)
}

// keeps has a budget refuse the eviction: nothing is changed, and the pod stays.
func (w *world) keeps(ctx context.Context, t *testing.T) {
	w.must(ctx, t, "kubectl create poddisruptionbudget db --selector=app=db --min-available=1\n"+
		"kubectl wait pdb/db --for=jsonpath='{.status.currentHealthy}'=1 --timeout=1m")
	before, err := w.running(ctx)
	if err != nil || before == nil {
		t.Fatalf("no pod runs: %v", err)
	}
	w.plan(ctx, t, aligned)
	out, err := w.shell.run(ctx, apply+" --evict-timeout 5s")
	t.Log(out)
	if err == nil || !strings.Contains(out, before.Name) || !strings.Contains(out, "disruption budget") {
		t.Errorf("apply ends with %v", err)
	}
	w.rests(ctx, t, plain)
	if after, err := w.running(ctx); err != nil || after == nil || after.UID != before.UID {
		t.Errorf("the pod that the budget keeps is gone: %v", err)
	}
	w.must(ctx, t, "kubectl delete poddisruptionbudget db")
}

// cut ends the command and cuts the node's power before each step in turn, and applies the plan again.
func (w *world) cut(ctx context.Context, t *testing.T) {
	directions := []string{aligned, plain}
	for i, step := range []string{"cordon", "evict", "change", "verify", "keep", "uncordon"} {
		flags := directions[i%2]
		w.plan(ctx, t, flags)
		if err := w.until(ctx, t, apply, step); err != nil {
			t.Fatalf("%s: %v", step, err)
		}
		if err := w.node.Cut(ctx); err != nil {
			t.Fatal(err)
		}
		t.Logf("the power failed before %s", step)
		w.must(ctx, t, "kubectl wait node/"+nodeName+" --for=condition=Ready --timeout=4m\n"+apply+" --verify-timeout 5m")
		w.rests(ctx, t, flags)
	}
}

// until runs a command, and kills it when its output names a step.
func (w *world) until(ctx context.Context, t *testing.T, script, step string) error {
	t.Helper()
	cmd := exec.CommandContext(ctx, "sh", "-ec", "exec "+script)
	cmd.Dir, cmd.Env = w.shell.dir, w.shell.env
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	found := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		t.Log(lines.Text())
		if !found && lines.Text() == nodeName+": "+step {
			found = true
			if err := cmd.Process.Kill(); err != nil {
				return err
			}
		}
	}
	if err := cmd.Wait(); !found {
		return fmt.Errorf("the command ended before that step: %w", err)
	}
	return nil
}

// cutWithin cuts the power between the steps of the pod that changes the kubelet, while the command continues to run.
// The change must be made nevertheless.
func (w *world) cutWithin(ctx context.Context, t *testing.T) {
	const once = "{ [ -e /var/lib/cut ] || { : >/var/lib/cut; sync; busybox reboot -n -f; }; }"
	directions := []string{aligned, plain}
	for i, flags := range []string{
		"--stop-command 'systemctl stop kubelet; " + once + "'",
		"--start-command '" + once + "; systemctl start kubelet'",
		"--start-command 'systemctl start kubelet; " + once + "'",
	} {
		if _, err := w.node.Run(ctx, "rm -f /var/lib/cut"); err != nil {
			t.Fatal(err)
		}
		w.plan(ctx, t, directions[i%2])
		ended := make(chan error, 1)
		go func() {
			out, err := w.shell.run(ctx, apply+" --verify-timeout 6m "+flags)
			if err != nil {
				err = fmt.Errorf("%w\n%s", err, out)
			}
			ended <- err
		}()
		if err := w.node.Booted(ctx); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Fatalf("%s: %v", flags, err)
		}
		w.rests(ctx, t, directions[i%2])
	}
}
