package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/kube/kubetest"
	"github.com/tenon-numa/tenon/cmd/commands"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/deploy"
	"github.com/tenon-numa/tenon/deploy/crd"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/control"
	"github.com/tenon-numa/tenon/lab/workload"
	"github.com/tenon-numa/tenon/ops/apply"
)

// people is an API server with RBAC and with the roles that the chart makes, and the people who ask it.
type people struct {
	*control.Plane
	user    kubernetes.Interface
	layouts *client.Client
}

// A person with the pods of one namespace gets the administrator's answers, by the command and in the console, although
// pods of other namespaces hold CPUs; and the chart's roles are enough for everybody.
func TestPeopleAndTheRolesOfTheChart(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	x := startPeople(ctx, t)
	t.Run("no right yet", func(t *testing.T) { x.withoutRights(ctx, t) })
	x.bind(ctx, t, "ml", "system:aggregate-to-view", "bob")
	x.bind(ctx, t, "", "tenon-nodes-view", "bob")
	x.await(ctx, t, "bob", "ml")
	t.Run("commands", func(t *testing.T) { x.commandsAgree(ctx, t) })
	t.Run("console", func(t *testing.T) { x.consolesAgree(ctx, t) })
	t.Run("bound a moment ago", func(t *testing.T) { x.boundAMomentAgo(ctx, t) })
	t.Run("operator", func(t *testing.T) { x.operator(ctx, t) })
	t.Run("claims", func(t *testing.T) { x.claims(ctx, t) })
	t.Run("who changes kubelets", func(t *testing.T) { x.changesKubelets(ctx, t) })
}

// startPeople starts an API server with four nodes. Pods of the namespace web hold CPUs of node a and of node c, where
// another scheduler has bound them; a pod of ml holds some of node b; and one of ml and one of web wait.
func startPeople(ctx context.Context, t *testing.T) *people {
	t.Helper()
	p, err := control.Start(ctx, control.Options{Dir: t.TempDir(), Manifests: deploy.Access(),
		CRDs: append(crd.Layouts(), crd.NodeAffinity(), crd.NodeResourceTopology())})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	x := &people{Plane: p, user: kubernetes.NewForConfigOrDie(p.Admin)}
	if x.layouts, err = client.New(p.Admin); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ml", "web"} {
		_, err := x.user.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}},
			metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		amounts := v1.ResourceList{"cpu": resource.MustParse("32"), "memory": resource.MustParse("128Gi"),
			"pods": resource.MustParse("110")}
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NodeStatus{Capacity: amounts,
			Allocatable: amounts}}
		if _, err := x.user.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	x.report(ctx, t, "a", x.holds(ctx, t, "web/one", "a", 0, 12), x.holds(ctx, t, "web/two", "a", 1, 12))
	x.report(ctx, t, "b", x.holds(ctx, t, "ml/own", "b", 0, 8))
	x.report(ctx, t, "c", x.holds(ctx, t, "web/foreign", "c", 0, 14))
	x.report(ctx, t, "d")
	x.create(ctx, t, "ml/waits", "", 6)
	x.create(ctx, t, "web/waits-too", "", 6)
	x.create(ctx, t, "ml/stores", "", 6)
	return x
}

// create creates a Guaranteed pod with these CPUs and as many GiB, bound to a node unless that is "". The pod "stores"
// has a claim without a volume.
func (x *people) create(ctx context.Context, t *testing.T, name, node string, cpus int) *v1.Pod {
	t.Helper()
	namespace, name, _ := strings.Cut(name, "/")
	p := workload.Pod(name, workload.Guaranteed("c", workload.Amounts{"cpu": fmt.Sprint(cpus),
		"memory": fmt.Sprint(cpus) + "Gi"}))
	p.Namespace, p.Spec.NodeName = namespace, node
	if name == "stores" {
		claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: v1.PersistentVolumeClaimSpec{
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, Resources: v1.VolumeResourceRequirements{
				Requests: v1.ResourceList{"storage": resource.MustParse("1Gi")}}}}
		_, err := x.user.CoreV1().PersistentVolumeClaims(namespace).Create(ctx, claim, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		p.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	}
	out, err := x.user.CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// holds creates a bound pod, and returns the pod's entry in a layout: the first CPUs of a NUMA node, and memory there.
func (x *people) holds(ctx context.Context, t *testing.T, name, node string, numa, cpus int) state.Entry {
	t.Helper()
	p := x.create(ctx, t, name, node, cpus)
	set := idset.Set[idset.CPU]{}
	for i := range cpus {
		set = set.Union(idset.Of(idset.CPU(16*numa + i)))
	}
	return state.Entry{Pod: kube.ID(p), Holdings: []place.Holding{{Container: "c", CPUs: set,
		Memory: []place.Block{{Kind: topo.Memory, NUMAs: 1 << numa, Bytes: int64(cpus) << 30}}}}}
}

// report writes the layout of a node, as its agent does.
func (x *people) report(ctx context.Context, t *testing.T, node string, entries ...state.Entry) {
	t.Helper()
	m, err := topo.ParseMachine(kubetest.Two)
	if err != nil {
		t.Fatal(err)
	}
	rules := place.Rules{Topology: place.TopologyRules{Policy: place.SingleNUMA}, CPU: place.CPURules{Static: true},
		Memory: place.MemoryRules{Static: true}}
	if _, err := x.layouts.Apply(ctx, v1alpha1.FromCore(node, m, rules, entries, nil)); err != nil {
		t.Fatal(err)
	}
}

// bind gives a user a cluster role: in a namespace, or everywhere if that is "".
func (x *people) bind(ctx context.Context, t *testing.T, namespace, role, user string) {
	t.Helper()
	kind := "ClusterRole"
	if roles := strings.TrimPrefix(role, "role/"); roles != role {
		kind, role = "Role", roles
	}
	meta := metav1.ObjectMeta{Name: strings.ReplaceAll(user+"-"+role, ":", "-"), Namespace: namespace}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	var err error
	if namespace == "" {
		_, err = x.user.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: meta,
			RoleRef: ref, Subjects: subjects}, metav1.CreateOptions{})
	} else {
		_, err = x.user.RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref,
			Subjects: subjects}, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// await waits until the API server's authorizer has the bindings of a user, which takes it a moment.
func (x *people) await(ctx context.Context, t *testing.T, user, namespace string) {
	t.Helper()
	as := kubernetes.NewForConfigOrDie(x.as(user))
	err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, nodes := as.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: 1})
		_, pods := as.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: 1})
		return nodes == nil && pods == nil, nil
	})
	if err != nil {
		t.Fatalf("%s gets no rights: %v", user, err)
	}
}

// as returns the access of a user.
func (x *people) as(user string) *rest.Config {
	cfg := rest.CopyConfig(x.Admin)
	if user != "" {
		cfg.Impersonate = rest.ImpersonationConfig{UserName: user}
	}
	return cfg
}

// ask runs a command line in the namespace ml as a user; "" is the administrator.
func (x *people) ask(ctx context.Context, user string, args ...string) (out, errs string, code int) {
	if user != "" {
		args = append(args, "--as", user)
	}
	return run(ctx, &lab.Cluster{KubeconfigPath: x.Kubeconfig}, append(args, "-n", "ml")...)
}

// partial matches the text about pods that were not read, and what the sentence adds then. counted matches the
// number of pods that wait, which is that of the pods that a person may read.
var (
	partial = regexp.MustCompile(`,\s*"partial": ?"(you may not list pods of other namespaces than ml: [^"]*)"|` +
		`,\s+without\s+regard\s+to\s+what\s+may\s+not\s+be\s+read`)
	unjudged = regexp.MustCompile(` and 1 more requirement|, without regard to volumes`)
	counted  = regexp.MustCompile(`(?m)^.* waits? for a node now, and .*\n|"waiting": \d+`)
)

// withoutRights: somebody without a right gets errors that name the remedy, and no archive.
func (x *people) withoutRights(ctx context.Context, t *testing.T) {
	for _, args := range []string{"explain pod waits", "map", "top", "doctor", "bundle -f " + t.TempDir() + "/b.tar.gz"} {
		out, errs, code := x.ask(ctx, "nobody", strings.Fields(args)...)
		if code == 0 || !strings.Contains(errs, "docs/howto/rights.md") || strings.Contains(out, "wrong") {
			t.Errorf("%s: code %d, %s%s", args, code, out, errs)
		}
	}
}

// commandsAgree: bob's commands write what the administrator's write, and say what bob could not see.
func (x *people) commandsAgree(ctx context.Context, t *testing.T) {
	file := filepath.Join(t.TempDir(), "pods.yaml")
	const pods = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: more}\nspec:\n  replicas: 40\n  selector: " +
		"{matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: b}}\n    spec: {containers: [{name: c, image: x, " +
		"resources: {limits: {cpu: 4, memory: 8Gi}}}]}\n"
	if err := os.WriteFile(file, []byte(pods), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{"explain pod waits", "explain pod waits -o json", "explain pod stores -o json",
		"explain pod ml/own --all", "explain node/a", "map", "map -o json", "pods -o json", "top --shape cpu=4,memory=8Gi",
		"top --shape cpu=4,memory=8Gi -o json", "simulate --pod waits --count max",
		"check -o json --ask-server=false -f " + file} {
		want, errs, code := x.ask(ctx, "", strings.Fields(args)...)
		if code == 2 || errs != "" {
			t.Fatalf("%s: code %d, %s", args, code, errs)
		}
		got, errs, bobs := x.ask(ctx, "bob", strings.Fields(args)...)
		same := counted.ReplaceAllString(partial.ReplaceAllString(got, ""), "") == counted.ReplaceAllString(want, "")
		if !same && args != "explain node/a" || bobs != code {
			t.Errorf("%s: bob gets code %d and\n%s%s\nthe administrator code %d and\n%s", args, bobs, got, errs, code, want)
		}
		if !strings.Contains(errs, "Warning: you may not list pods of other namespaces than ml: ") ||
			strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: bob is not told in one line what he did not see: %q", args, errs)
		}
	}
	x.simulationsAgree(ctx, t, file)
	if out, _, _ := x.ask(ctx, "bob", "explain", "pod", "waits"); !strings.Contains(out, "fits on 3 of 4 nodes") {
		t.Errorf("bob's pod:\n%s", out)
	}
	if out, _, _ := x.ask(ctx, "bob", "explain", "pod", "stores"); !strings.Contains(out, "data") ||
		strings.Contains(out, "Not judged") {
		t.Errorf("bob's pod with a claim:\n%s", out)
	}
	if out, errs, code := x.ask(ctx, "bob", "doctor"); code == 2 ||
		!strings.Contains(out, "4 nodes and 3 pods examined") {
		t.Errorf("bob's doctor: code %d, %s%s", code, out, errs)
	}
}

// simulationsAgree: as many pods of a file fit. The order of nodes may differ, since bob's workload profile has only
// the pods that bob may read.
func (x *people) simulationsAgree(ctx context.Context, t *testing.T, file string) {
	t.Helper()
	placed := regexp.MustCompile(`"(wanted|placed|noPlace)": \d+`)
	all, _, want := x.ask(ctx, "", "simulate", "-o", "json", "-f", file)
	bobs, _, code := x.ask(ctx, "bob", "simulate", "-o", "json", "-f", file)
	if a, b := placed.FindAllString(all, -1), placed.FindAllString(bobs, -1); len(a) < 3 || !slices.Equal(a, b) ||
		want != code {
		t.Errorf("simulate answers bob %v with code %d, and the administrator %v with code %d", b, code, a, want)
	}
}

// console opens a console as a user, with the pods of ml where the user may not list all.
func (x *people) console(ctx context.Context, t *testing.T, user string) *browser {
	t.Helper()
	who, err := commands.Watch(ctx, x.as(user), user, "ml")
	if err != nil {
		t.Fatal(err)
	}
	return signedIn(ctx, t, who)
}

// consolesAgree: bob's console answers what the administrator's answers, as far as both may read.
func (x *people) consolesAgree(ctx context.Context, t *testing.T) {
	bob, admin := x.console(ctx, t, "bob"), x.console(ctx, t, "")
	for _, path := range []string{"pods/ml/waits", "pods/ml/own", "pods/ml/stores", "nodes/a", "nodes/c",
		"fitting?shape=cpu%3D4%2Cmemory%3D8Gi"} {
		var got, want map[string]any
		code, wanted := bob.ask(ctx, t, "GET", path, "", &got), admin.ask(ctx, t, "GET", path, "", &want)
		said, _ := got["partial"].(string)
		delete(got, "partial")
		answer, answers := partial.ReplaceAll(asJSON(t, got), nil), asJSON(t, want)
		same := bytes.Equal(unjudged.ReplaceAll(answer, nil), unjudged.ReplaceAll(answers, nil))
		if code != http.StatusOK || wanted != code || !same {
			t.Errorf("GET %s: bob gets %d %s\nthe administrator %d %s", path, code, asJSON(t, got), wanted, asJSON(t, want))
		}
		if !strings.HasPrefix(path, "nodes/") && !strings.HasPrefix(said, "you may not list pods of other namespaces") {
			t.Errorf("GET %s: bob is told %q", path, said)
		}
	}
	var got, want document.ClusterOverview
	bob.ask(ctx, t, "GET", "cluster", "", &got)
	admin.ask(ctx, t, "GET", "cluster", "", &want)
	if !bytes.Equal(asJSON(t, got.Nodes), asJSON(t, want.Nodes)) {
		t.Errorf("bob sees the nodes\n%s\nthe administrator\n%s", asJSON(t, got.Nodes), asJSON(t, want.Nodes))
	}
	if got.Pods != 3 || got.Waiting != 2 || !slices.Equal(got.Namespaces, []string{"ml"}) || len(got.Limits) != 1 ||
		want.Pods != 7 || want.Waiting != 3 || want.Namespaces != nil {
		t.Errorf("bob counts %d pods and %d that wait in %v, limits %v; the administrator %d and %d in %v", got.Pods,
			got.Waiting, got.Namespaces, got.Limits, want.Pods, want.Waiting, want.Namespaces)
	}
}

func asJSON(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// boundAMomentAgo: bob cannot know pods that no layout lists yet. The warning names such pods, and bob's answer is the
// administrator's again once the node has reported them.
func (x *people) boundAMomentAgo(ctx context.Context, t *testing.T) {
	b := x.console(ctx, t, "bob")
	var entries []state.Entry
	for numa, name := range []string{"web/fresh-one", "web/fresh-two"} {
		entries = append(entries, x.holds(ctx, t, name, "d", numa, 14))
	}
	fits := func(user string) string {
		t.Helper()
		out, errs, code := x.ask(ctx, user, "explain", "pod", "waits", "-o", "name")
		if code != 0 || user != "" && !strings.Contains(errs, "pods that were bound a moment ago, do not count") {
			t.Fatalf("%s: code %d, %s", user, code, errs)
		}
		return strings.Join(strings.Fields(out), " ")
	}
	if bobs, all := fits("bob"), fits(""); bobs != "node/b node/c node/d" || all != "node/b node/c" {
		t.Errorf("before the report, bob's pod fits on %q, and the administrator knows %q", bobs, all)
	}
	x.report(ctx, t, "d", entries...)
	if bobs, all := fits("bob"), fits(""); bobs != all || all != "node/b node/c" {
		t.Errorf("after the report, bob's pod fits on %q, and the administrator knows %q", bobs, all)
	}
	const pause = 50 * time.Millisecond
	err := wait.PollUntilContextTimeout(ctx, pause, time.Minute, true, func(ctx context.Context) (bool, error) {
		var d struct{ Verdicts []document.Verdict }
		b.ask(ctx, t, "GET", "pods/ml/waits", "", &d)
		var on []string
		for _, v := range d.Verdicts {
			if v.Fits {
				on = append(on, v.Node)
			}
		}
		return slices.Equal(on, []string{"b", "c"}), nil
	})
	if err != nil {
		t.Errorf("bob's console does not learn of the report: %v", err)
	}
}

// operator: tenon-operator is enough for the commands that examine a cluster.
func (x *people) operator(ctx context.Context, t *testing.T) {
	x.bind(ctx, t, "", "tenon-operator", "olga")
	for _, namespace := range []string{deploy.Namespace, deploy.AgentNamespace} {
		x.bind(ctx, t, namespace, "role/tenon-operator", "olga")
	}
	x.await(ctx, t, "olga", "web")
	out, errs, code := x.ask(ctx, "olga", "doctor")
	if code == 2 || strings.Contains(out, "Not examined") || strings.Contains(errs, "may not") {
		t.Errorf("doctor: code %d, %s%s", code, out, errs)
	}
	file := filepath.Join(t.TempDir(), "b.tar.gz")
	if out, errs, code := x.ask(ctx, "olga", "bundle", "-f", file); code != 0 || errs != "" {
		t.Errorf("bundle: code %d, %s%s", code, out, errs)
	}
	out, errs, code = x.ask(ctx, "olga", "kubelet", "plan", "--policy", "restricted", "-o", "json")
	if code == 2 || !strings.Contains(out, `"limits": []`) {
		t.Errorf("kubelet plan: code %d, %s%s", code, out, errs)
	}
	for _, args := range []string{"explain pod web/foreign --all", "simulate --pending", "pods -A", "affinity"} {
		args := strings.Fields(args)
		if slices.Contains(args, "web/foreign") {
			out, errs, code = run(ctx, &lab.Cluster{KubeconfigPath: x.Kubeconfig}, append(args, "--as", "olga")...)
		} else {
			out, errs, code = x.ask(ctx, "olga", args...)
		}
		if code == 2 || errs != "" {
			t.Errorf("%v: code %d, %s%s", args, code, out, errs)
		}
	}
}

// changesKubelets: the two roles beside tenon-operator are enough for a change, and the second one counts in one
// namespace alone.
func (x *people) changesKubelets(ctx context.Context, t *testing.T) {
	x.bind(ctx, t, "", "tenon-operator", "kate")
	x.bind(ctx, t, "", "tenon-kubelet-operator", "kate")
	x.bind(ctx, t, "kube-system", "tenon-kubelet-changer", "kate")
	x.await(ctx, t, "kate", "web")
	try := func(namespace string) error {
		pods, err := apply.NewPods(x.as("kate"), apply.PodOptions{Namespace: namespace, Image: "busybox", Stop: "stop",
			Start: "start", KeepWithin: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return pods.Try(ctx, "a", apply.Configuration{})
	}
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return try("kube-system") == nil, nil
	})
	if err != nil {
		t.Errorf("kate may not make the pod that changes a node: %v", try("kube-system"))
	}
	if try("web") == nil {
		t.Error("kate may make such a pod in every namespace")
	}
	for _, right := range []string{"patch nodes", "get nodes/proxy", "create pods/eviction", "get daemonsets.apps",
		"get nodelayouts.tenon.sh", "get layoutbases.tenon.sh", "list pods"} {
		if !x.may(ctx, t, "kate", right) {
			t.Errorf("kate may not %s", right)
		}
		if strings.HasPrefix(right, "patch") && x.may(ctx, t, "olga", right) {
			t.Errorf("olga may %s, who only reads", right)
		}
	}
}

// may asks the API server whether a user has a right in all namespaces, such as "create pods/eviction".
func (x *people) may(ctx context.Context, t *testing.T, user, right string) bool {
	t.Helper()
	verb, what, _ := strings.Cut(right, " ")
	what, group, _ := strings.Cut(what, ".")
	what, sub, _ := strings.Cut(what, "/")
	review, err := x.user.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: user, Groups: []string{"system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: what,
				Subresource: sub}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}
