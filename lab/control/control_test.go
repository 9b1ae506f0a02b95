package control_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tenon-numa/tenon/deploy"
	"github.com/tenon-numa/tenon/lab/control"
	"github.com/tenon-numa/tenon/lab/rights"
)

const crd = `# A comment before the first document.
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: wedges.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: wedges, singular: wedge, kind: Wedge, listKind: WedgeList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

const access = `# Who.
apiVersion: v1
kind: Namespace
metadata: {name: workshop}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: joiner, namespace: workshop}
`

func TestPlane(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p, err := control.Start(ctx, control.Options{Dir: t.TempDir(), Nodes: []string{"one", "two"},
		CRDs:      [][]byte{[]byte(crd)},
		Manifests: [][]byte{[]byte(access)}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
		if _, err := kubernetes.NewForConfigOrDie(p.Admin).Discovery().ServerVersion(); err == nil {
			t.Error("the API server answers after Stop")
		}
	}()
	t.Run("kubeconfig", func(t *testing.T) { kubeconfig(ctx, t, p) })
	t.Run("node identity", func(t *testing.T) { nodeIdentity(ctx, t, p) })
	t.Run("service account", func(t *testing.T) { serviceAccount(ctx, t, p) })
	t.Run("what users install", func(t *testing.T) { install(ctx, t, p) })
	t.Run("bad manifests", func(t *testing.T) { badManifests(ctx, t, p) })
	t.Run("custom resource", func(t *testing.T) { customResource(ctx, t, p) })
	t.Run("old versions", func(t *testing.T) { oldVersions(ctx, t, p) })
}

// The file alone is enough for a client, and only its owner reads it.
func kubeconfig(ctx context.Context, t *testing.T, p *control.Plane) {
	info, err := os.Stat(p.Kubeconfig)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("kubeconfig: mode %v, error %v", info.Mode(), err)
	}
	c, err := clientcmd.BuildConfigFromFlags("", p.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client(t, c).CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

// A node makes and reads its own Node, and no other: the Node authorizer is on.
func nodeIdentity(ctx context.Context, t *testing.T, p *control.Plane) {
	c, err := p.Node("one")
	if err != nil {
		t.Fatal(err)
	}
	nodes := client(t, c).CoreV1().Nodes()
	if _, err := nodes.Create(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "one"}},
		metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := nodes.Get(ctx, "two", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("node one reads node two: error %v, want forbidden", err)
	}
	if _, err := p.Node("three"); err == nil {
		t.Error("a node that was not named has an identity")
	}
}

// A service account's token has its name, and its node if it is bound to one.
func serviceAccount(ctx context.Context, t *testing.T, p *control.Plane) {
	for _, node := range []string{"", "one"} { // one was made by nodeIdentity
		c, err := rights.As(ctx, p.Admin, rights.Account{Namespace: "workshop", Name: "joiner", Node: node})
		if err != nil {
			t.Fatal(err)
		}
		me, err := client(t, c).AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{},
			metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := me.Status.UserInfo.Username; got != "system:serviceaccount:workshop:joiner" {
			t.Errorf("the token is of %s", got)
		}
		if got := strings.Join(me.Status.UserInfo.Extra["authentication.kubernetes.io/node-name"], ","); got != node {
			t.Errorf("the token is of node %q, want %q", got, node)
		}
	}
	unknown := rights.Account{Namespace: "workshop", Name: "joiner", Node: "none"}
	if _, err := rights.As(ctx, p.Admin, unknown); !apierrors.IsNotFound(err) {
		t.Errorf("a token for a node that is not there: error %v", err)
	}
}

// A real API server accepts every manifest of kubectl apply -k deploy, and twice.
func install(ctx context.Context, t *testing.T, p *control.Plane) {
	manifests := deploy.Access()
	for _, path := range []string{"agent/daemonset.yaml", "scheduler/deployment.yaml"} {
		data, err := os.ReadFile(filepath.Join("../../deploy", path))
		if err != nil {
			t.Fatal(err)
		}
		manifests = append(manifests, data)
	}
	for range 2 {
		if err := rights.Apply(ctx, p.Admin, manifests...); err != nil {
			t.Error(err)
		}
	}
}

func badManifests(ctx context.Context, t *testing.T, p *control.Plane) {
	for manifest, want := range map[string]string{
		"apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: x, namespace: workshop}\n" +
			"screts: []": `.screts: field not declared in schema`,
		"apiVersion: v1\nkind: Wegde\nmetadata: {name: x}": "Wegde",
		"apiVersion: v1\nkind: Namespace":                  "has no kind or no name",
		"a: 1\na: 2":                                       `"a" already set`,
	} {
		if err := rights.Apply(ctx, p.Admin, []byte(manifest)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is refused with %v, want %q", manifest, err, want)
		}
	}
}

func customResource(ctx context.Context, t *testing.T, p *control.Plane) {
	c, err := dynamic.NewForConfig(p.Admin)
	if err != nil {
		t.Fatal(err)
	}
	wedge := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Wedge", "metadata": map[string]any{"name": "w"}}}
	wedges := c.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "wedges"})
	if _, err := wedges.Create(ctx, wedge, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
}

// The scheduler follows pods that have not failed. The event of one that has failed, and is deleted at once, has the
// version at which it failed, and the pod can be read at that version.
func oldVersions(ctx context.Context, t *testing.T, p *control.Plane) {
	pods := client(t, p.Admin).CoreV1().Pods("workshop")
	for _, fails := range []bool{true, false} {
		w, err := pods.Watch(ctx, metav1.ListOptions{FieldSelector: "status.phase!=Failed"})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		pod, err := pods.Create(ctx, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"},
			Spec: v1.PodSpec{ServiceAccountName: "joiner",
				NodeName: "one", Containers: []v1.Container{{Name: "c", Image: "i"}}}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if fails {
			pod.Status.Phase, pod.Status.Reason = v1.PodFailed, "TopologyAffinityError"
			if _, err := pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := pods.Delete(ctx, "p", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
			t.Fatal(err)
		}
		var last *v1.Pod
		for e := range w.ResultChan() {
			if e.Type == watch.Deleted {
				last = e.Object.(*v1.Pod)
				break
			}
		}
		list, err := pods.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=p",
			ResourceVersion:      last.ResourceVersion,
			ResourceVersionMatch: metav1.ResourceVersionMatchExact})
		if err != nil {
			t.Fatal(err)
		}
		if !fails && len(list.Items) > 0 || fails &&
			(len(list.Items) != 1 || list.Items[0].Status.Reason != pod.Status.Reason) {
			t.Errorf("the pod fails: %v; at the version of its event it is %+v", fails, list.Items)
		}
	}
}

func client(t *testing.T, c *rest.Config) kubernetes.Interface {
	t.Helper()
	out, err := kubernetes.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
