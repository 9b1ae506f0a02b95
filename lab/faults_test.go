package lab_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/control"
	"github.com/tenon-numa/tenon/lab/kubelet"
	"github.com/tenon-numa/tenon/lab/workload"
)

// The faults of a cluster happen, and the holdings of a pod outlive them.
func TestFaults(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	c, err := lab.Start(ctx, lab.Config{Apart: true, Nodes: []lab.Node{{Name: "a", Machine: "xeon-2s"},
		{Name: "b", Machine: "gpu-8"}},
		Progress: func(line string) { t.Log(line) }})
	if err != nil {
		t.Fatal(err)
	}
	defer stopped(t, c)
	defer func() {
		if t.Failed() {
			for _, node := range []string{"a", "b"} {
				if b, err := os.ReadFile(c.Dir + "/kubelet-" + node + ".log"); err == nil {
					t.Logf("end of the log of the kubelet of node %s:\n%s", node, b[max(0, len(b)-8000):])
				}
			}
		}
	}()
	written := followed(t, c)
	user := kubernetes.NewForConfigOrDie(c.RESTConfig())
	p := workload.Pod("held", workload.Guaranteed("c", workload.Amounts{"cpu": "4", "memory": "1Gi",
		"intel.com/sriov_vf": "1"}))
	p.Spec.NodeName = "a"
	if err := workload.Create(ctx, user, p); err != nil {
		t.Fatal(err)
	}
	uid := string(phase(ctx, t, user, "held", v1.PodRunning).UID)
	before := holds(ctx, t, c, uid, true)

	if err := c.RestartAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	restricted := strings.Replace(c.KubeletYAML("a"), "topologyManagerPolicy: single-numa-node",
		"topologyManagerPolicy: restricted", 1)
	if err := c.RestartKubelet(ctx, "a", restricted); err != nil {
		t.Fatal(err)
	}
	awaitPolicy(ctx, t, c, "restricted")
	if after := holds(ctx, t, c, uid, true); after != before {
		t.Errorf("the pod held %s before the kubelet's restart, and %s after it", before, after)
	}
	phase(ctx, t, user, "held", v1.PodRunning)
	p = workload.Pod("next", workload.Guaranteed("c", workload.Amounts{"cpu": "4", "memory": "1Gi",
		"intel.com/sriov_vf": "1"}))
	p.Spec.NodeName = "a"
	if err := workload.Create(ctx, user, p); err != nil {
		t.Fatal(err)
	}
	next := string(phase(ctx, t, user, "next", v1.PodRunning).UID)

	for _, do := range []func() error{
		func() error { return c.StopAgent(ctx, "a") },
		func() error { return c.FinishPod(ctx, "a", uid) },
		func() error { return c.StartAgent(ctx, "a") },
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	phase(ctx, t, user, "held", v1.PodSucceeded)
	holds(ctx, t, c, uid, false)
	admissions(t, c, uid)
	if err := c.HoldReport(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	if err := c.FinishPod(ctx, "a", next); err != nil {
		t.Fatal(err)
	}
	holds(ctx, t, c, next, false)
	if err := c.DeliverReport(ctx, "a"); err != nil {
		t.Error(err)
	}
	written(user)
	if err := c.Err(); err != nil {
		t.Error(err)
	}
}

// followed follows the writes of pods. The function that it returns fails the test unless the versions grow, across a
// restart of the API server, and the last one of each pod is the API server's.
func followed(t *testing.T, c *lab.Cluster) func(kubernetes.Interface) {
	var last int64
	versions := map[string]int64{}
	stop, err := c.FollowStore("/registry/pods/default/", func(w control.Change) {
		if w.Version <= last || w.Deleted != (len(w.Value) == 0) {
			t.Errorf("%s is written at version %d after version %d", w.Key, w.Version, last)
		}
		last, versions[w.Key] = w.Version, w.Version
	})
	if err != nil {
		t.Fatal(err)
	}
	return func(user kubernetes.Interface) {
		stop()
		for _, name := range []string{"held", "next"} {
			p, err := user.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			// The kubelet may write between stop and Get: the followed version is not newer, and not missing.
			got, now := versions["/registry/pods/default/"+name], resourceVersion(t, p)
			if got == 0 || got > now {
				t.Errorf("pod %s was followed to version %d, the API server has %d", name, got, now)
			}
		}
	}
}

func resourceVersion(t *testing.T, p *v1.Pod) int64 {
	n, err := strconv.ParseInt(p.ResourceVersion, 10, 64)
	if err != nil {
		t.Error(err)
	}
	return n
}

// admissions fails the test unless the kubelet of node a has recorded that it admitted a pod, and admitted it again by
// other rules when it was restarted, while the managers held resources for it.
func admissions(t *testing.T, c *lab.Cluster, uid string) {
	text, err := os.ReadFile(filepath.Join(c.NodeDir("a"), kubelet.JournalFile))
	if err != nil {
		t.Fatal(err)
	}
	var of []kubelet.Admission
	for line := range bytes.Lines(text) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var a kubelet.Admission
		if err := json.Unmarshal(line, &a); err != nil {
			t.Fatal(err)
		}
		if a.UID == uid {
			of = append(of, a)
		}
	}
	if len(of) != 2 || of[0].Policy != "single-numa-node" || of[1].Policy != "restricted" ||
		!of[0].Began.Before(of[1].Began) {
		t.Fatalf("recorded of the pod: %+v", of)
	}
	for i, a := range of {
		holds := strings.Contains(string(a.States["cpu_manager_state"]), uid)
		devices := a.Devices["intel.com/sriov_vf"] == 8 || i == 1 // the plugins of a restarted kubelet may be missing
		if !a.Admitted || holds != (i == 1) || !slices.Contains(a.Active, uid) || !devices {
			t.Errorf("admission %d: admitted %t, the pod holds CPUs: %t, active %v, devices %v", i, a.Admitted, holds,
				a.Active, a.Devices)
		}
	}
}

// phase waits until a pod is in a phase.
func phase(ctx context.Context, t *testing.T, user kubernetes.Interface, name string, want v1.PodPhase) (p *v1.Pod) {
	t.Helper()
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		var err error
		p, err = user.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		return err == nil && p.Status.Phase == want, nil
	})
	if err != nil {
		t.Fatalf("pod %s is not %s: %v: %+v", name, want, err, p.Status)
	}
	return p
}

// reported waits until the layout of node a is as it should be.
func reported(ctx context.Context, t *testing.T, c *lab.Cluster,
	is func(*v1alpha1.NodeLayout) bool) *v1alpha1.NodeLayout {
	t.Helper()
	layouts, err := client.New(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	var l *v1alpha1.NodeLayout
	err = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		var err error
		l, err = layouts.Get(ctx, "a", metav1.GetOptions{})
		return err == nil && is(l), nil
	})
	if err != nil {
		t.Fatalf("the layout does not become as it should: %v: %+v", err, l)
	}
	return l
}

// holds returns the CPUs of a pod in its node's layout, and waits until the layout has the pod, or no longer has it.
func holds(ctx context.Context, t *testing.T, c *lab.Cluster, uid string, want bool) (cpus string) {
	t.Helper()
	reported(ctx, t, c, func(l *v1alpha1.NodeLayout) bool {
		cpus = ""
		for _, h := range l.Holdings {
			if h.UID == uid {
				cpus = string(h.Containers[0].CPUs)
			}
		}
		return (cpus != "") == want
	})
	return cpus
}

func awaitPolicy(ctx context.Context, t *testing.T, c *lab.Cluster, policy string) {
	t.Helper()
	reported(ctx, t, c, func(l *v1alpha1.NodeLayout) bool { return l.Rules.TopologyManagerPolicy == policy })
}
