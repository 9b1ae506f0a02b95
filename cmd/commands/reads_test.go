package commands

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tenon-numa/tenon/cluster/kube/kubetest"
	"github.com/tenon-numa/tenon/cluster/live/livetest"
	"github.com/tenon-numa/tenon/face/cli"
)

// served is an API server with two nodes, a waiting pod in the namespace ml, and a pod in the namespace web that holds
// CPUs 8-11 of node a. run runs a command there as a user whose namespace is ml.
func served(t *testing.T) (s *livetest.Server, run func(args ...string) (out, errs string, code int)) {
	t.Helper()
	s = livetest.New(t)
	holder := livetest.Pod("web", "holder", "a")
	s.List(livetest.Nodes, livetest.Node("a"), livetest.Node("b"))
	s.List(livetest.Pods, livetest.Pod("ml", "p", ""), holder)
	s.List(livetest.PodsOf("ml"), livetest.Pod("ml", "p", ""))
	s.Object(livetest.PodsOf("ml")+"/p", livetest.Pod("ml", "p", ""))
	s.List(livetest.EventsOf("ml"))
	s.List(livetest.Layouts, livetest.Layout(t, "a", kubetest.Holding(holder, "8-11")), livetest.Layout(t, "b"))
	file := filepath.Join(t.TempDir(), "config")
	config := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "x",
"contexts": [{"name": "x", "context": {"cluster": "x", "user": "x", "namespace": "ml"}}],
"clusters": [{"name": "x", "cluster": {"server": %q}}], "users": [{"name": "x", "user": {}}]}`, s.URL)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return s, func(args ...string) (string, string, int) {
		var out, errs bytes.Buffer
		code := cli.Run(t.Context(), append(args, "--kubeconfig", file), &out, &errs, Setup("test"))
		return out.String(), errs.String(), code
	}
}

// A command reads each kind of object once: its answer is about one moment, and costs the API server one list.
func TestACommandListsEachKindOnce(t *testing.T) {
	s, run := served(t)
	for _, args := range []string{"explain pod p", "map", "map a", "pods", "top", "simulate --pod p --count 2"} {
		s.Asked()
		out, errs, code := run(strings.Fields(args)...)
		if code != 0 {
			t.Errorf("%s: exit code %d, %s%s", args, code, out, errs)
		}
		for path, n := range s.Asked() {
			if n > 1 && !strings.HasSuffix(path, "/p") {
				t.Errorf("%s lists %s %d times", args, path, n)
			}
		}
	}
}

// A user who may list the pods of one namespace gets an administrator's answers, as far as layouts have the data. The
// output names what was not read.
func TestAPersonOfOneNamespaceGetsAnswers(t *testing.T) {
	s, run := served(t)
	whole, errs, code := run("explain", "pod", "p")
	if code != 0 || !strings.Contains(whole, "fits on 2 of 2 nodes") {
		t.Fatalf("an administrator gets code %d, %s%s", code, whole, errs)
	}
	s.Forbid(livetest.Pods)
	part, errs, code := run("explain", "pod", "p")
	const warning = "Warning: you may list pods only in ml: of the pods of other namespaces only what layouts list counts"
	_, verdicts, _ := strings.Cut(whole, "It fits")
	if code != 0 || !strings.HasSuffix(part, verdicts) || !strings.Contains(errs, warning) {
		t.Errorf("code %d, %s\nwant on stderr %q, and the administrator's answer:\n%s\nnot\n%s", code, errs, warning,
			whole, part)
	}
	for _, args := range []string{"map", "pods", "top", "simulate --pod p --count max"} {
		if out, errs, code := run(strings.Fields(args)...); code != 0 || !strings.Contains(errs, warning) {
			t.Errorf("%s: code %d, %s%s", args, code, out, errs)
		}
	}
	s.Forbid(livetest.PodsOf("ml"))
	if out, errs, code := run("map"); code == 0 || !strings.Contains(errs, "list pods") {
		t.Errorf("without any pods: code %d, %s%s", code, out, errs)
	}
}

// Where a node may have a topology, the output for a user who may not list topologies names that.
func TestTopologiesThatMayNotBeListedAreNamed(t *testing.T) {
	s, run := served(t)
	s.Forbid("/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies")
	s.Forbid("/apis/nodeinfo.volcano.sh/v1alpha1/numatopologies")
	if out, errs, code := run("map"); code != 0 || errs != "" {
		t.Errorf("every node has a layout: code %d, %s%s", code, out, errs)
	}
	s.List(livetest.Nodes, livetest.Node("a"), livetest.Node("b"), livetest.Node("c"))
	const warning = "Warning: noderesourcetopologies were not read (you may not list them): a node that counts as unknown"
	for _, args := range []string{"map", "pods", "top", "explain pod p", "simulate --pod p --count 2"} {
		if out, errs, code := run(strings.Fields(args)...); code != 0 || !strings.Contains(errs, warning) {
			t.Errorf("%s: code %d, %s%s", args, code, out, errs)
		}
	}
}

// A pod that cannot be judged is not in the list of pods, and the list names it as omitted.
func TestAPodThatIsLeftOutIsNamed(t *testing.T) {
	s, run := served(t)
	huge := livetest.Pod("ml", "huge", "b")
	huge.Spec.Containers[0].Resources.Requests = v1.ResourceList{"memory": resource.MustParse("1Ei")}
	s.List(livetest.Pods, livetest.Pod("ml", "p", ""), livetest.Pod("web", "holder", "a"), huge)
	const warning = "Warning: pods that are left out, since they cannot be judged: 1, such as pod ml/huge: container c: "
	if out, errs, code := run("pods", "-A"); code != 0 || !strings.Contains(errs, warning) {
		t.Errorf("code %d, %s%s", code, out, errs)
	}
}

// A scheduler without events may still be the leader, unless its lease was read.
func TestALeaseThatMayNotBeReadSaysNothing(t *testing.T) {
	s, run := served(t)
	s.List(livetest.Events)
	p := livetest.Pod("ml", "p", "")
	p.Spec.SchedulerName = "other"
	s.Object(livetest.PodsOf("ml")+"/p", p)
	const unseen = "No scheduler named"
	if out, errs, code := run("explain", "pod", "p"); code != 0 || strings.Contains(out, unseen) {
		t.Errorf("leases may not be read: code %d, %s%s", code, out, errs)
	}
	for _, of := range []string{"kube-system", "tenon-system"} {
		s.Object("/apis/coordination.k8s.io/v1/namespaces/"+of+"/leases/other", &coordinationv1.Lease{})
	}
	if out, errs, code := run("explain", "pod", "p"); code != 0 || !strings.Contains(out, unseen+` "other"`) {
		t.Errorf("leases are read, and nobody holds one: code %d, %s%s", code, out, errs)
	}
}

// A filter that matches nothing is an error; the output is not "nothing is wrong".
func TestAFilterThatMatchesNothingIsAnError(t *testing.T) {
	_, run := served(t)
	for args, want := range map[string]string{
		"doctor --node nope":      `error: node "nope" is not known`,
		"doctor --pod nope":       "error: there is no pod ml/nope",
		"doctor --pod holder":     "error: there is no pod ml/holder; there is web/holder",
		"pods nope":               "error: there is no pod ml/nope",
		"pods p nope":             "error: there is no pod ml/nope",
		"pods --node nope":        `error: node "nope" is not known`,
		"map nope":                `error: node "nope" is not known`,
		"top nope":                `error: node "nope" is not known`,
		"explain node/nope":       `error: node "nope" is not known`,
		"simulate --without nope": `node "nope"`,
		"kubelet plan --policy restricted -l a=b": "select",
	} {
		if out, errs, code := run(strings.Fields(args)...); code == 0 || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d, want an error with %q:\n%s%s", args, code, want, out, errs)
		}
	}
}
