// Package trial runs Volcano's scheduler with the plugin on a lab cluster: a real API server, and the kubelet's own
// managers on described machines. The lab has Kubernetes libraries of another release, so it is a process of its own.
package trial

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	volcano "volcano.sh/apis/pkg/client/clientset/versioned"
)

// cluster is a lab cluster with Volcano's definitions.
type cluster struct {
	*testing.T
	ctx        context.Context
	dir        string // of programs and logs
	kubeconfig string
	scheduler  string // the program
	client     kubernetes.Interface
	volcano    volcano.Interface
}

var (
	lab       = flag.String("lab", "", "program tenon-lab; built when empty")
	scheduler = flag.String("scheduler", "", "program tenon-volcano-scheduler; built when empty")
)

// program returns the path of a program of this repository: the given one, or one that it builds in a folder.
func (c *cluster) program(given, dir, work, name string) string {
	if given != "" {
		return given
	}
	path := filepath.Join(c.dir, name)
	goTool(c.T, dir, work, "build", "-ldflags=-s -w", "-o", path, "./cmd/"+name)
	return path
}

// goTool runs a go command in a folder; those in the root of the repository see the workspace.
func goTool(t *testing.T, dir, work string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK="+work)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

// start builds the programs, and starts a cluster with nodes of these machines.
func start(t *testing.T, nodes string) *cluster {
	c := &cluster{T: t, ctx: t.Context(), dir: t.TempDir()}
	c.scheduler = c.program(*scheduler, "..", "off", "tenon-volcano-scheduler")
	c.lab(c.program(*lab, "../..", "", "tenon-lab"), nodes)
	config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.Burst = 200, 400
	c.client, c.volcano = kubernetes.NewForConfigOrDie(config), volcano.NewForConfigOrDie(config)
	c.define(dynamic.NewForConfigOrDie(config))
	system := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "volcano-system"}}
	if _, err := c.client.CoreV1().Namespaces().Create(c.ctx, system, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return c
}

// run starts a program that ends with the test. Its output goes to a file.
func (c *cluster) run(name, program string, args ...string) (log string, stop func()) {
	log = filepath.Join(c.dir, name+".log")
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		c.Fatal(err)
	}
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = out, out, c.dir
	if err := cmd.Start(); err != nil {
		c.Fatal(err)
	}
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			c.Errorf("stop %s: %v", name, err)
		}
		_ = cmd.Wait() // a program that is told to stop may say that it failed
	}
	c.Cleanup(func() {
		stop()
		if c.Failed() {
			lines := c.lines(log)
			c.Logf("the last lines of %s:\n%s", name, strings.Join(lines[max(0, len(lines)-40):], "\n"))
		}
	})
	return log, stop
}

// lab starts the cluster and waits until it is up.
func (c *cluster) lab(program, nodes string) {
	log, _ := c.run("lab", program, "up", "--controllers=false", "--nodes", nodes)
	const begins = "export KUBECONFIG="
	c.until("the cluster is up", func() bool {
		for _, line := range c.lines(log) {
			if path, ok := strings.CutPrefix(line, begins); ok {
				c.kubeconfig = path
				return true
			}
		}
		return false
	})
}

// lines returns what a program has written so far.
func (c *cluster) lines(log string) (out []string) {
	f, err := os.Open(log)
	if err != nil {
		c.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		out = append(out, s.Text())
	}
	return out
}

// open opens the queues that the scheduler has made, as Volcano's controllers do: tasks of other queues are not
// allocated.
func (c *cluster) open() {
	queues := c.volcano.SchedulingV1beta1().Queues()
	for _, name := range []string{"root", "default"} {
		c.until("queue "+name+" is open", func() bool {
			q, err := queues.Get(c.ctx, name, metav1.GetOptions{})
			if err != nil {
				return false
			}
			q.Status.State = scheduling.QueueStateOpen
			_, err = queues.UpdateStatus(c.ctx, q, metav1.UpdateOptions{})
			return err == nil
		})
	}
}

// ready waits until a pod of this scheduler runs, and removes it: the scheduler has read the cluster then.
func (c *cluster) ready() {
	c.open()
	first := job{name: "first", tasks: 1, cpus: 2}
	c.submit(first)
	c.until("the first pod runs", func() bool { return len(c.look().running) == 1 })
	c.remove(first.name)
}

// define installs Volcano's definitions from its module, and waits until they are served.
func (c *cluster) define(client dynamic.Interface) {
	module := goTool(c.T, "..", "off", "list", "-m", "-f", "{{.Dir}}", "volcano.sh/volcano")
	files, err := filepath.Glob(filepath.Join(module, "config", "crd", "volcano", "bases", "*.yaml"))
	if err != nil || len(files) == 0 {
		c.Fatalf("Volcano's module has no definitions: %v", err)
	}
	definitions := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"})
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			c.Fatal(err)
		}
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &o.Object); err != nil {
			c.Fatalf("%s: %v", file, err)
		}
		if _, err := definitions.Create(c.ctx, o, metav1.CreateOptions{}); err != nil {
			c.Fatalf("%s: %v", file, err)
		}
	}
	for _, group := range []string{"scheduling.volcano.sh/v1beta1", "topology.volcano.sh/v1alpha1",
		"nodeinfo.volcano.sh/v1alpha1"} {
		c.until(group+" is served", func() bool {
			_, err := c.client.Discovery().ServerResourcesForGroupVersion(group)
			return err == nil
		})
	}
}

// patience bounds every wait; a busy computer of two cores needs some ten seconds for most.
const patience = 5 * time.Minute

// until polls until a condition holds.
func (c *cluster) until(what string, holds func() bool) {
	c.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		if time.Now().After(deadline) {
			c.Fatalf("not so after %s: %s", patience, what)
		}
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			c.Fatal(c.ctx.Err())
		}
	}
}

// schedule starts Volcano's scheduler with one plugin in its first tier.
func (c *cluster) schedule(plugin string) (log string, stop func()) {
	conf := filepath.Join(c.dir, "scheduler.conf")
	text := fmt.Sprintf(`actions: "enqueue, allocate, preempt, backfill"
configurations:
- name: preempt
  arguments: {enableTopologyAwarePreemption: true}
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
  - name: %s
    arguments: {weight: 10}
- plugins:
  - name: predicates
  - name: proportion
  - name: nodeorder
`, plugin)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		c.Fatal(err)
	}
	return c.run("scheduler", c.scheduler, "--kubeconfig", c.kubeconfig, "--scheduler-conf", conf,
		"--leader-elect=false", "--v=1", "--cache-dumper=false", "--schedule-period=200ms", "--listen-address=127.0.0.1:0")
}
