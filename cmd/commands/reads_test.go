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
	const warning = "Warning: you may not list pods of other namespaces than ml: of those only what layouts list counts"
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
}

// A pod that the command line names with its namespace is judged beside the pods of that namespace, whatever namespace
// the kubeconfig selects.
func TestTheNamespaceThatIsNamedIsRead(t *testing.T) {
	for _, args := range []string{"explain pod web/holder", "explain pod holder -n web", "pods web/holder",
		"simulate --pod web/holder --count 2"} {
		s, run := served(t)
		s.Forbid(livetest.Pods)
		holder := livetest.Pod("web", "holder", "a")
		s.List(livetest.PodsOf("web"), holder)
		s.Object(livetest.PodsOf("web")+"/holder", holder)
		out, errs, code := run(strings.Fields(args)...)
		if code != 0 || !strings.Contains(out, "holder") || !strings.Contains(errs, "web: of those only what layouts list") {
			t.Errorf("%s: code %d, %s%s", args, code, out, errs)
		}
	}
}

// A user who may list no pods at all learns of nodes what layouts say. Answers about pods are errors that name the
// right, and not "there are none".
func TestAPersonWithoutPodsIsTold(t *testing.T) {
	s, run := served(t)
	s.Forbid(livetest.Pods)
	s.Forbid(livetest.PodsOf("ml"))
	const warning = "Warning: you may not list pods: only what layouts list counts, so a node may have less left"
	for args, want := range map[string]string{"map": "a ", "top": "a ",
		"explain node/a": "No pod that you may read holds"} {
		out, errs, code := run(strings.Fields(args)...)
		if code != 0 || !strings.Contains(errs, warning) || !strings.Contains(out, want) {
			t.Errorf("%s: code %d, %s%s", args, code, out, errs)
		}
	}
	for args, want := range map[string]string{
		"pods":                        `pods is forbidden: you may not list pods in the namespace "ml"`,
		"pods -n web":                 `pods is forbidden: you may not list pods in the namespace "web"`,
		"simulate --pod p --count 2":  "you may not list pods in the namespace ml, so pod ml/p is not known",
		"doctor --pod p":              "you may not read pods in the namespace ml, so pod ml/p is not examined",
		"explain pod web/holder":      "Remedy: an administrator can give you the right; the roles are in https://",
		"explain deployment/web -n x": "Error from server (Forbidden)",
	} {
		if out, errs, code := run(strings.Fields(args)...); code == 0 || !strings.Contains(errs, want) {
			t.Errorf("%s: code %d, want an error with %q:\n%s%s", args, code, want, out, errs)
		}
	}
}

// The doctor of a user with one namespace examines what the user may read, and names the rest.
func TestTheDoctorOfOneNamespaceSaysWhatItDidNotSee(t *testing.T) {
	s, run := served(t)
	s.Forbid(livetest.Pods)
	out, errs, code := run("doctor")
	if code != 1 && code != 3 || !strings.Contains(strings.Join(strings.Fields(out), " "),
		"Not examined: pods: you may not list pods of other namespaces than ml: of those only what layouts list counts") {
		t.Errorf("code %d, %s%s", code, out, errs)
	}
}

// Pods without a namespace in a file are of the namespace that the kubeconfig selects, as kubectl takes them.
func TestCheckTakesTheNamespaceOfTheKubeconfig(t *testing.T) {
	_, run := served(t)
	file := filepath.Join(t.TempDir(), "pod.yaml")
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: one}\n" +
		"spec: {containers: [{name: c, image: x, resources: {limits: {cpu: 2, memory: 1Gi}}}]}\n"
	if err := os.WriteFile(file, []byte(pod), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{"": `"namespace": "ml"`, " -n web": `"namespace": "web"`} {
		out, errs, code := run(strings.Fields("check -o json --ask-server=false -f " + file + args)...)
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("%q: code %d, want %s:\n%s%s", args, code, want, out, errs)
		}
	}
}

// A user with one namespace gets the same answer from a bundle as from the cluster. A user who may read nothing gets an
// error and no archive.
func TestABundleOfOneNamespace(t *testing.T) {
	s, run := served(t)
	s.Forbid(livetest.Pods)
	now, _, _ := run("explain", "pod", "p")
	file := filepath.Join(t.TempDir(), "b.tar.gz")
	out, errs, code := run("bundle", "-f", file)
	if code != 3 || !strings.Contains(errs, "Not in the bundle: v1_pods (Forbidden, but for the namespace ml)") {
		t.Fatalf("code %d, %s%s", code, out, errs)
	}
	then, errs, code := run("explain", "pod", "p", "--bundle", file)
	if code != 0 || then != now || !strings.Contains(errs, "than ml: of those only what layouts list counts") {
		t.Errorf("code %d, %s%s\nwant what the cluster said:\n%s", code, then, errs, now)
	}
	for _, path := range []string{livetest.Nodes, livetest.PodsOf("ml"), livetest.Layouts} {
		s.Forbid(path)
	}
	file += "2"
	if out, errs, code := run("bundle", "-f", file); code != 2 || !strings.Contains(errs, "docs/howto/rights.md") {
		t.Errorf("who may read nothing gets code %d, %s%s", code, out, errs)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("who may read nothing gets an archive")
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

// A workload lists also the pods that cannot be judged, and one of them is named with the reason if all are such.
func TestPodsOfAWorkloadThatCannotBeJudgedAreListed(t *testing.T) {
	s, run := served(t)
	huge := livetest.Pod("ml", "huge", "")
	huge.Spec.Containers[0].Resources.Requests = v1.ResourceList{"memory": resource.MustParse("1Ei")}
	huge.Labels = map[string]string{"jobset.sigs.k8s.io/jobset-name": "x"}
	s.List(livetest.PodsOf("ml"), huge)
	s.Object(livetest.PodsOf("ml")+"/huge", huge)
	out, errs, code := run("explain", "jobset/x")
	if code != 0 || !strings.Contains(out, "huge   Pending") ||
		!strings.Contains(out, "The pods that wait cannot be judged: pod ml/huge: container c: ") {
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
	const unseen = "no scheduler named"
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
