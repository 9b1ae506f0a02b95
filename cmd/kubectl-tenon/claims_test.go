package main

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/face/cli"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/workload"
)

// publish has a driver publish a GPU on each of two NUMA nodes of the node d, and creates their class.
func (x *people) publish(ctx context.Context, t *testing.T) {
	t.Helper()
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "d-gpus"}}
	s.Spec = resourcev1.ResourceSliceSpec{Driver: "gpu.example.com", NodeName: new("d"),
		Pool: resourcev1.ResourcePool{Name: "d", Generation: 1, ResourceSliceCount: 1}}
	for i, name := range []string{"gpu-0", "gpu-1"} {
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: name,
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
				"resource.kubernetes.io/numaNode": {IntValue: new(int64(i))}}})
	}
	if _, err := x.user.ResourceV1().ResourceSlices().Create(ctx, s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	if _, err := x.user.ResourceV1().DeviceClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// claiming creates a pod on the node d that holds a GPU by a claim, and returns the pod.
func (x *people) claiming(ctx context.Context, t *testing.T, namespace, name, device string) *v1.Pod {
	t.Helper()
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-gpus"}}
	claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1}}}
	all := x.user.ResourceV1().ResourceClaims(namespace)
	claim, err := all.Create(ctx, claim, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p := workload.Pod(name, workload.Guaranteed("c", workload.Amounts{"cpu": "4", "memory": "4Gi"}))
	p.Namespace, p.Spec.NodeName = namespace, "d"
	p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpus", ResourceClaimName: &claim.Name}}
	if p, err = x.user.CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
		Results: []resourcev1.DeviceRequestAllocationResult{{Request: "r", Driver: "gpu.example.com", Pool: "d",
			Device: device}}}}
	claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: name, UID: p.UID}}
	if _, err := all.UpdateStatus(ctx, claim, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	return p
}

// claims: commands show what claims hold, to each person as far as the API server lets the person read it, and a bundle
// has the same.
func (x *people) claims(ctx context.Context, t *testing.T) {
	x.publish(ctx, t)
	own := x.claiming(ctx, t, "ml", "gpu-user", "gpu-0")
	x.claiming(ctx, t, "web", "other", "gpu-1")
	x.report(ctx, t, "d", state.Entry{Pod: kube.ID(own), Holdings: []place.Holding{{Container: "c",
		CPUs: idset.Of[idset.CPU](16, 17, 18, 19)}}})
	_, err := x.user.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "older"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{"", "tenon.sh"}, Verbs: []string{"get", "list", "watch"},
			Resources: []string{"nodes", "pods", "nodelayouts", "layoutbases"}}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	x.bind(ctx, t, "", "older", "carl")
	x.await(ctx, t, "carl", "ml")
	x.claimsInConsole(ctx, t)
	x.claimsOfFiles(ctx, t)
	file := filepath.Join(t.TempDir(), "b.tar.gz")
	if out, errs, code := x.ask(ctx, "", "bundle", "-f", file); code != 0 {
		t.Fatalf("bundle: code %d, %s%s", code, out, errs)
	}
	const apart = "1 device is on other NUMA nodes than what the kubelet gave the pod"
	const others = "you may not list those of other namespaces than ml"
	for _, c := range []struct {
		user, args    string
		want, without []string
	}{
		{"", "map d", []string{"gpu-0 by ml/gpu-user", "gpu-1 by ml/late, web/other"},
			[]string{"not known", "were not read"}},
		{"bob", "map d", []string{"gpu-0 by ml/gpu-user", others}, []string{"web/other"}},
		{"carl", "map d", []string{"Devices of claims are not known: resourceslices were not read"}, []string{"gpu-0"}},
		{"", "top d", []string{"gpu.example.com 0/0"}, nil},
		{"bob", "top d", nil, []string{"gpu.example.com"}},
		{"", "explain pod gpu-user", []string{apart, "gpu.example.com d/gpu-0"}, []string{"were not read"}},
		{"bob", "explain pod gpu-user", []string{apart, "gpu.example.com d/gpu-0"}, nil},
		{"carl", "explain pod gpu-user", []string{"Its claim gpu-user-gpus was not read", "cpus 16-19"}, []string{apart}},
		{"", "pods gpu-user", []string{"(claims)", "1 pod has devices of claims on other NUMA nodes"}, []string{"were not"}},
		{"bob", "pods gpu-user", []string{"(claims)", "1 pod has devices of claims on other NUMA nodes"}, nil},
	} {
		args := strings.Fields(c.args)
		out, errs, code := x.ask(ctx, c.user, args...)
		text := strings.Join(strings.Fields(out), " ")
		for _, want := range c.want {
			if code != 0 || !strings.Contains(text, want) {
				t.Errorf("%s as %q: code %d, without %q\n%s%s", c.args, c.user, code, want, out, errs)
			}
		}
		if slices.ContainsFunc(c.without, func(s string) bool { return strings.Contains(text, s) }) {
			t.Errorf("%s as %q: with one of %q\n%s", c.args, c.user, c.without, out)
		}
		if c.user == "" {
			sent, errs, code := run(ctx, &lab.Cluster{KubeconfigPath: os.DevNull},
				append(args, "-n", "ml", "--bundle", file)...)
			if sent != out || code != 0 {
				t.Errorf("%s of the bundle: code %d, %s%s\nof the cluster\n%s", c.args, code, sent, errs, out)
			}
		}
	}
}

// claimsInConsole: the pages of the node and of the pod have the same, and follow changes of claims.
func (x *people) claimsInConsole(ctx context.Context, t *testing.T) {
	t.Helper()
	holders := func(n document.Node) (out []string) {
		for _, d := range n.Claims.Devices {
			for _, h := range d.Holders {
				for _, p := range h.Pods {
					out = append(out, d.Device+" "+p.Namespace+"/"+p.Name)
				}
			}
		}
		return out
	}
	for user, want := range map[string]struct {
		holders []string
		unread  string
		apart   int
	}{
		"":     {[]string{"gpu-0 ml/gpu-user", "gpu-1 web/other"}, "", 1},
		"bob":  {[]string{"gpu-0 ml/gpu-user"}, "you may not list those of other namespaces than ml", 1},
		"carl": {nil, "resourceslices were not read", 0},
	} {
		b := x.console(ctx, t, user)
		var n document.Node
		if code := b.ask(ctx, t, "GET", "nodes/d", "", &n); code != http.StatusOK || n.Claims == nil || n.Machine == nil {
			t.Fatalf("the page of the node for %q: code %d, %+v", user, code, n.Claims)
		}
		if got := holders(n); !slices.Equal(got, want.holders) || !strings.Contains(n.Claims.Unread, want.unread) ||
			want.unread == "" && n.Claims.Unread != "" {
			t.Errorf("for %q the node has the holders %q, unread %q", user, got, n.Claims.Unread)
		}
		var p cli.Explanation
		b.ask(ctx, t, "GET", "pods/ml/gpu-user", "", &p)
		if p.Claims.Apart() != want.apart || p.Holds == nil {
			t.Errorf("for %q the pod has %+v", user, p.Claims)
		}
		var all document.ClusterOverview
		b.ask(ctx, t, "GET", "cluster", "", &all)
		if slices.ContainsFunc(all.Limits, func(l document.Limit) bool { return strings.HasPrefix(l.Resource, "resource") }) {
			t.Errorf("for %q the overview lacks %v", user, all.Limits)
		}
	}
	b := x.console(ctx, t, "")
	last := x.claiming(ctx, t, "ml", "late", "gpu-1")
	err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		var n document.Node
		b.ask(ctx, t, "GET", "nodes/d", "", &n)
		return slices.Contains(holders(n), "gpu-1 ml/"+last.Name), nil
	})
	if err != nil {
		t.Errorf("the page does not follow a new claim: %v", err)
	}
}

// claimsOfFiles: check names what of the claims of a file is there, as far as the person may read it.
func (x *people) claimsOfFiles(ctx context.Context, t *testing.T) {
	t.Helper()
	template := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "pair"}}
	template.Spec.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: "unknown", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 2}}}
	_, err := x.user.ResourceV1().ResourceClaimTemplates("ml").Create(ctx, template, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "pods.yaml")
	const pod = `
apiVersion: v1
kind: Pod
metadata: {name: new, namespace: ml}
spec:
  containers: [{name: c, image: x, resources: {limits: {cpu: 2, memory: 1Gi}}}]
  resourceClaims:
  - {name: a, resourceClaimTemplateName: pair}
  - {name: b, resourceClaimName: gpu-user-gpus}
  - {name: c, resourceClaimName: missing}
`
	if err := os.WriteFile(file, []byte(pod), 0o600); err != nil {
		t.Fatal(err)
	}
	for user, wanted := range map[string][]string{
		"": {"ResourceClaimTemplate ml/pair (in the cluster) asks for 2 of class unknown.",
			"Not without a change: claim a asks for devices of the DeviceClass unknown, which does not exist; claim c: " +
				"ResourceClaim ml/missing does not exist, so the pods wait until somebody creates it (4 nodes).",
			"ResourceClaim ml/gpu-user-gpus (in the cluster) asks for 1 of class gpu, and is allocated: the pods have to run",
			"Not judged: which nodes have devices for its claims"},
		"bob":  {"ResourceClaimTemplate ml/pair (in the cluster)", "ResourceClaim ml/missing does not exist"},
		"carl": {"Claim a: ResourceClaimTemplate ml/pair: whether it exists is not known (", "is forbidden"},
	} {
		out, errs, code := x.ask(ctx, user, "check", "-f", file)
		text := strings.Join(strings.Fields(out), " ")
		for _, want := range wanted {
			if (code == 0) != (user == "carl") || !strings.Contains(text, want) {
				t.Errorf("check as %q: code %d, without %q\n%s%s", user, code, want, out, errs)
			}
		}
	}
}
