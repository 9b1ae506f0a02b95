package install_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
)

// registry is where the images of the chart and the kustomization are.
const registry = "registry.example.com/tenon"

// takesImages fails unless agents and schedulers are to run the images of the registry.
func (w *world) takesImages(ctx context.Context, t *testing.T) {
	t.Helper()
	agents, err := w.client.AppsV1().DaemonSets("tenon-agents").Get(ctx, "tenon-agent", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	schedulers, err := w.client.AppsV1().Deployments("tenon-system").Get(ctx, "tenon-scheduler", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, spec := range map[string]v1.PodSpec{"tenon-agent": agents.Spec.Template.Spec,
		"tenon-scheduler": schedulers.Spec.Template.Spec} {
		if got, want := spec.Containers[0].Image, registry+"/"+name+":"+older; got != want {
			t.Errorf("the image is %s, want %s", got, want)
		}
	}
}

// platforms installs by kubectl, with the objects for the Prometheus operator, lets Helm take over, and turns on what
// OpenShift and the operator need, with the definitions of both.
func (w *world) platforms(ctx context.Context, t *testing.T, before map[string]bool) {
	t.Helper()
	// The clone has no test, so the path is a whole one.
	foreign := filepath.Join(w.root, "test", "vm", "realnode", "install", "testdata", "foreign.yaml")
	w.must(ctx, t, "kubectl apply -k dist")
	w.must(ctx, t, "kubectl apply -f "+foreign+" && kubectl wait --for=condition=Established --timeout=1m -f "+foreign+
		" --selector tenon.test=definition")
	w.must(ctx, t, "kubectl apply -k deploy/monitoring")
	w.readsMetrics(ctx, t, "tenon-metrics-reader", "monitoring/prometheus-k8s")
	w.must(ctx, t, "kubectl delete -k deploy/monitoring --ignore-not-found") // the Secret goes with its account

	made := w.uids(ctx, t)
	if out, err := w.shell.run(ctx, "helm install tenon dist/tenon-*.tgz --namespace tenon-system"); err == nil ||
		!strings.Contains(out, "invalid ownership metadata") {
		t.Errorf("Helm takes over without being told: %v\n%s", err, out)
	}
	w.play(ctx, t, installPage, "### From kubectl to Helm")
	if now := w.uids(ctx, t); !slices.Equal(now, made) {
		t.Errorf("objects were made anew:\n%v\n%v", made, now)
	}
	w.takesImages(ctx, t)
	w.ownedByHelm(ctx, t)

	// Changes fields that kubectl had applied, as the next version does.
	w.must(ctx, t, "helm upgrade tenon dist/tenon-*.tgz --namespace tenon-system --reset-then-reuse-values --set "+
		"image.tag="+newer+",agent.logLevel=1,openshift.enabled=true,console.enabled=true,volcano.enabled=true,"+
		"monitoring.podMonitor=true,monitoring.alerts=true,monitoring.dashboard=true,crds.nodeResourceTopology=true")
	w.readsMetrics(ctx, t, "tenon-agent-metrics-reader", "tenon-system/tenon-scheduler-metrics-reader")
	w.constrained(ctx, t)

	w.must(ctx, t, "helm uninstall tenon --namespace tenon-system --wait --timeout 10m")
	w.must(ctx, t, "kubectl apply -k dist")
	w.play(ctx, t, installPage, "### From kubectl to an older Helm")
	// This Helm is a newer one, for which kubectl owns the fields.
	w.must(ctx, t, "helm install tenon dist/tenon-*.tgz --namespace tenon-system --force-conflicts")
	w.takesImages(ctx, t)
	w.must(ctx, t, "helm uninstall tenon --namespace tenon-system --wait --timeout 10m")
	w.must(ctx, t, "kubectl delete -k deploy --ignore-not-found && kubectl delete --ignore-not-found "+
		"-f deploy/crd/topology.node.k8s.io_noderesourcetopologies.yaml -f "+foreign)
	w.remain(ctx, t, before)
}

// uids returns the identities of objects whose replacement would lose something: layouts, or a running program.
func (w *world) uids(ctx context.Context, t *testing.T) []string {
	t.Helper()
	return strings.Fields(w.must(ctx, t, "kubectl get -o jsonpath='{.items[*].metadata.uid}' "+
		"crd/nodelayouts.tenon.sh crd/layoutbases.tenon.sh && echo && "+
		"kubectl -n tenon-agents get daemonset tenon-agent -o jsonpath='{.metadata.uid} ' && "+
		"kubectl -n tenon-system get deployment tenon-scheduler -o jsonpath='{.metadata.uid}'"))
}

// ownedByHelm fails if an object of Tenon is not Helm's, apart from the namespace that the administrator made.
func (w *world) ownedByHelm(ctx context.Context, t *testing.T) {
	t.Helper()
	out := w.must(ctx, t, "kubectl get -A -o json "+
		"-l 'app.kubernetes.io/part-of=tenon,app.kubernetes.io/managed-by!=Helm' configmaps,serviceaccounts,daemonsets,"+
		"deployments,networkpolicies,roles,rolebindings,clusterroles,"+
		"clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings,poddisruptionbudgets,namespaces")
	var left unstructured.UnstructuredList
	if err := json.Unmarshal([]byte(out), &left); err != nil {
		t.Fatal(err)
	}
	for _, o := range left.Items {
		if o.GetKind() != "Namespace" || o.GetName() != "tenon-system" {
			t.Errorf("%s %s/%s is not Helm's", o.GetKind(), o.GetNamespace(), o.GetName())
		}
	}
}

// readsMetrics waits until the Secret of an account in tenon-agents has a token, and fails unless that account and
// another one, as NAMESPACE/NAME, may read metrics.
func (w *world) readsMetrics(ctx context.Context, t *testing.T, account, other string) {
	t.Helper()
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) {
			s, err := w.client.CoreV1().Secrets("tenon-agents").Get(ctx, account, metav1.GetOptions{})
			return err == nil && len(s.Data[v1.ServiceAccountTokenKey]) > 0, nil
		})
	if err != nil {
		t.Errorf("the Secret %s, which the PodMonitors name, has no token: %v", account, err)
	}
	for _, who := range []string{"tenon-agents/" + account, other} {
		user := "system:serviceaccount:" + strings.Replace(who, "/", ":", 1)
		out, err := w.shell.run(ctx, "kubectl auth can-i get /metrics --as "+user)
		if err != nil || strings.TrimSpace(out) != "yes" {
			t.Errorf("%s may not read metrics: %v %s", who, err, out)
		}
	}
	w.must(ctx, t, "kubectl get -A podmonitors,prometheusrules -o name | grep -c tenon")
}

// constrained fails unless every program may use the constraints that its pod needs on OpenShift: agents their own,
// other programs those for users that a pod names.
func (w *world) constrained(ctx context.Context, t *testing.T) {
	t.Helper()
	out := w.must(ctx, t, "kubectl get securitycontextconstraints tenon-agent -o json")
	var own struct{ Users []string }
	if err := json.Unmarshal([]byte(out), &own); err != nil ||
		!slices.Equal(own.Users, []string{"system:serviceaccount:tenon-agents:tenon-agent"}) {
		t.Errorf("the agents' constraints are for %v (%v)", own.Users, err)
	}
	deployments, err := w.client.AppsV1().Deployments("tenon-system").List(ctx, metav1.ListOptions{})
	if err != nil || len(deployments.Items) != 3 {
		t.Fatalf("%d Deployments (%v), want scheduler, Volcano's and console", len(deployments.Items), err)
	}
	for _, d := range deployments.Items {
		account := d.Spec.Template.Spec.ServiceAccountName
		b, err := w.client.RbacV1().RoleBindings("tenon-system").Get(ctx, account+"-nonroot", metav1.GetOptions{})
		if err != nil {
			t.Errorf("%s: %v", d.Name, err)
			continue
		}
		want := rbacv1.Subject{Kind: "ServiceAccount", Name: account, Namespace: "tenon-system"}
		if b.RoleRef.Name != "system:openshift:scc:nonroot-v2" || !slices.Equal(b.Subjects, []rbacv1.Subject{want}) {
			t.Errorf("%s is bound by %+v", d.Name, b)
		}
	}
}
