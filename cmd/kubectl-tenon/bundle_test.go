package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/workload"
)

// The commands print the same on a bundle as on its cluster.
func bundled(ctx context.Context, t *testing.T, c *lab.Cluster) {
	file := filepath.Join(t.TempDir(), "b.tar.gz")
	if out := ok(ctx, t, c, "bundle", "-f", file); !strings.Contains(out, "objects") {
		t.Errorf("bundle says %q", out)
	}
	for _, args := range [][]string{{"map"}, {"map", "-o", "json"}, {"explain", "pod/run-1"}, {"explain", "pod/wait"},
		{"explain", "pod/wait", "-o", "json"}, {"pods"}, {"top"}, {"simulate", "--pending"}, {"doctor", "-o", "json"}} {
		live, _, code := run(ctx, c, args...)
		sent, stderr, again := run(ctx, &lab.Cluster{KubeconfigPath: os.DevNull},
			append(slices.Clone(args), "--bundle", file)...)
		if live != sent || code != again {
			t.Errorf("%v: exit code %d, of the bundle %d (%s)\n%s\nof the bundle:\n%s", args, code, again, stderr, live, sent)
		}
	}
	data, err := os.ReadFile(c.KubeconfigPath)
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Users []struct {
			User struct {
				Token string `json:"token"`
			} `json:"user"`
		} `json:"users"`
	}
	if err := yaml.Unmarshal(data, &config); err != nil || config.Users[0].User.Token == "" {
		t.Fatalf("read the token of the kubeconfig: %v", err)
	}
	if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), config.Users[0].User.Token) {
		t.Errorf("the bundle has the token of its maker, or %v", err)
	}
}

// The test causes each fault in the cluster; doctor finds it, and no longer finds it after the repair. In the end
// doctor finds nothing.
func TestTheDoctorFindsWhatIsWrongInACluster(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	c := begin(ctx, t)
	user := kubernetes.NewForConfigOrDie(c.RESTConfig())
	until := func(what string, want ...string) {
		t.Helper()
		var got []string
		err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 2*time.Minute, true,
			func(context.Context) (bool, error) {
				out, _, _ := run(ctx, c, "doctor", "-o", "json")
				var d document.Diagnosis
				if err := json.Unmarshal([]byte(out), &d); err != nil {
					return false, err
				}
				got = nil
				for _, f := range d.Findings {
					if f.ID != "reserved-cpus-shared" { // the lab's kubelets lack strict-cpu-reservation
						got = append(got, f.ID)
					}
				}
				return slices.Equal(got, want), nil
			})
		if err != nil {
			t.Errorf("%s: findings %v, want %v: %v", what, got, want, err)
		}
	}
	until("a pod wider than a NUMA node", "never-admitted")
	if err := user.CoreV1().Pods("default").Delete(ctx, "wait", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until("without it")

	roles := user.RbacV1().ClusterRoles()
	role, err := roles.Get(ctx, "tenon-agent", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	less := role.DeepCopy()
	less.Rules = less.Rules[:1]
	if _, err := roles.Update(ctx, less, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	until("an agent that may not write", "rights-missing")
	role.ResourceVersion = ""
	if _, err := roles.Update(ctx, role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	until("with its rights")

	bindings := user.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	binding, err := bindings.Get(ctx, "tenon-agent-writes-its-own-node", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := bindings.Delete(ctx, binding.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until("no admission policy", "policy-missing")
	binding.ResourceVersion, binding.UID = "", ""
	if _, err := bindings.Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	until("with the policy")

	fraction := workload.Pod("fraction", workload.Guaranteed("c", workload.Amounts{"cpu": "1500m", "memory": "1Gi"}))
	if err := workload.Create(ctx, user, fraction); err != nil {
		t.Fatal(err)
	}
	until("a fraction of a CPU", "nearly-guaranteed")
	if err := user.CoreV1().Pods("default").Delete(ctx, "fraction", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until("without it")

	first, err := user.CoreV1().Pods("default").Get(ctx, "run-1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// Three ports are on two NUMA nodes. run-1 holds two ports of its own NUMA node.
	forced := workload.Pod("forced", workload.Guaranteed("c", workload.Amounts{"cpu": "1", "memory": "1Gi",
		"acme.com/nic": "3"}))
	forced.Spec.NodeName = map[string]string{"a": "b", "b": "a"}[first.Spec.NodeName]
	if err := workload.Create(ctx, user, forced); err != nil {
		t.Fatal(err)
	}
	until("a pod that its kubelet refuses", "kubelet-refused")
	if err := user.CoreV1().Pods("default").Delete(ctx, "forced", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until("without it")
}
