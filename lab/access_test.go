package lab_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tenon-numa/tenon/api/nrt"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/deploy"
	"github.com/tenon-numa/tenon/lab"
)

// One cluster serves all tests of access. Its agents publish with their own rights, or it would not start.
func TestAccess(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c, err := lab.Start(ctx, lab.Config{Nodes: []lab.Node{{Name: "own", Machine: "laptop"},
		{Name: "other", Machine: "laptop"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer stopped(t, c)
	agent, err := c.AgentConfig(ctx, "own")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("roles of the agent", func(t *testing.T) { agentRoles(ctx, t, agent) })
	t.Run("roles of the scheduler", func(t *testing.T) { schedulerRoles(ctx, t, c) })
	t.Run("placement", func(t *testing.T) { placement(ctx, t, c) })
	t.Run("policy", func(t *testing.T) { policy(ctx, t, c, agent) })
	t.Run("affinities", func(t *testing.T) { affinities(ctx, t, c, agent) })
}

// right is a request to the API server.
type right struct {
	verb, group, resource, sub, namespace string
	want                                  bool
}

func (r right) check(ctx context.Context, t *testing.T, k kubernetes.Interface) {
	t.Helper()
	got, err := k.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: r.verb, Group: r.group, Resource: r.resource, Subresource: r.sub, Namespace: r.namespace,
		}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Status.Allowed != r.want {
		t.Errorf("%+v: allowed is %v", r, got.Status.Allowed)
	}
}

// placement: only the scheduler may decide what a pod gets.
func placement(ctx context.Context, t *testing.T, c *lab.Cluster) {
	const refusal = "is the scheduler's to write"
	users := kubernetes.NewForConfigOrDie(c.RESTConfig())
	as := rest.CopyConfig(c.RESTConfig())
	as.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:tenon-system:tenon-scheduler",
		Groups: []string{"system:authenticated", "system:masters"}}
	scheduler := kubernetes.NewForConfigOrDie(as)
	decided := map[string]string{v1alpha1.DecisionAnnotation: "{}"}
	pod := func(name string, annotations map[string]string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: annotations},
			Spec: v1.PodSpec{SchedulerName: "nobody", Containers: []v1.Container{{Name: "c", Image: "i"}}}}
	}
	binding := func(name string, annotations map[string]string) *v1.Binding {
		return &v1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: annotations},
			Target: v1.ObjectReference{Kind: "Node", Name: "nowhere"}}
	}
	all := metav1.CreateOptions{}
	pods := users.CoreV1().Pods("default")
	_, err := pods.Create(ctx, pod("forged", decided), all)
	judged(t, "a pod with the annotation", err, refusal)
	plain, err := pods.Create(ctx, pod("plain", map[string]string{"a": "b"}), all)
	judged(t, "a pod with another annotation", err, "")
	changed := plain.DeepCopy()
	changed.Annotations = decided
	_, err = pods.Update(ctx, changed, metav1.UpdateOptions{})
	judged(t, "a pod that gets the annotation", err, refusal)
	_, err = pods.UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	judged(t, "a status with the annotation", err, refusal)
	judged(t, "a binding with the annotation", pods.Bind(ctx, binding("plain", decided), all), refusal)
	judged(t, "the scheduler's binding", scheduler.CoreV1().Pods("default").Bind(ctx, binding("plain", decided), all), "")
	bound, err := pods.Get(ctx, "plain", metav1.GetOptions{})
	if err != nil || bound.Annotations[v1alpha1.DecisionAnnotation] != "{}" {
		t.Fatalf("the pod has annotations %v, %v", bound.Annotations, err)
	}
	bound.Labels = map[string]string{"a": "b"}
	bound, err = pods.Update(ctx, bound, metav1.UpdateOptions{})
	judged(t, "a pod that has the annotation", err, "")
	bound.Annotations[v1alpha1.DecisionAnnotation] = `{"uid":"x"}`
	_, err = pods.Update(ctx, bound, metav1.UpdateOptions{})
	judged(t, "another value", err, refusal)
	if err := pods.Delete(ctx, "plain", *metav1.NewDeleteOptions(0)); err != nil {
		t.Error(err)
	}
}

const topologies = "topology.node.k8s.io"

func agentRoles(ctx context.Context, t *testing.T, agent *rest.Config) {
	k := kubernetes.NewForConfigOrDie(agent)
	for _, r := range []right{
		{verb: "get", resource: "nodes", want: true},
		{verb: "watch", resource: "nodes", want: true},
		{verb: "get", resource: "nodes", sub: "configz", want: true},
		{verb: "list", resource: "pods", want: true},
		{verb: "watch", resource: "pods", want: true},
		{verb: "patch", group: v1alpha1.GroupVersion().Group, resource: "nodelayouts", want: true},
		{verb: "patch", group: v1alpha1.GroupVersion().Group, resource: "layoutbases", want: true},
		{verb: "watch", group: v1alpha1.GroupVersion().Group, resource: "nodelayouts", want: true},
		{verb: "watch", group: v1alpha1.GroupVersion().Group, resource: "layoutbases", want: true},
		{verb: "patch", group: topologies, resource: "noderesourcetopologies", want: true},
		{verb: "watch", group: topologies, resource: "noderesourcetopologies", want: true},

		{verb: "update", group: v1alpha1.GroupVersion().Group, resource: "nodelayouts", sub: "status"},
		{verb: "delete", group: v1alpha1.GroupVersion().Group, resource: "nodelayouts"},
		{verb: "delete", group: v1alpha1.GroupVersion().Group, resource: "layoutbases"},
		{verb: "delete", group: topologies, resource: "noderesourcetopologies"},
		{verb: "patch", resource: "nodes"},
		{verb: "patch", resource: "nodes", sub: "status"},
		{verb: "get", resource: "nodes", sub: "proxy"},
		{verb: "create", resource: "pods"},
		{verb: "delete", resource: "pods"},
		{verb: "create", resource: "pods", sub: "exec"},
		{verb: "get", resource: "secrets"},
		{verb: "get", resource: "secrets", namespace: deploy.Namespace},
		{verb: "get", resource: "secrets", namespace: deploy.AgentNamespace},
		{verb: "create", resource: "serviceaccounts", sub: "token", namespace: deploy.Namespace},
		{verb: "create", resource: "serviceaccounts", sub: "token", namespace: deploy.AgentNamespace},
		{verb: "impersonate", resource: "users"},
		{verb: "create", group: "authentication.k8s.io", resource: "tokenreviews", want: true},
		{verb: "create", group: "authorization.k8s.io", resource: "subjectaccessreviews", want: true},
	} {
		r.check(ctx, t, k)
	}
}

func schedulerRoles(ctx context.Context, t *testing.T, c *lab.Cluster) {
	access, err := clientcmd.BuildConfigFromFlags("", c.SchedulerKubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	k := kubernetes.NewForConfigOrDie(access)
	for _, r := range []right{
		{verb: "create", resource: "pods", sub: "binding", namespace: "default", want: true},
		{verb: "watch", group: v1alpha1.GroupVersion().Group, resource: "nodelayouts", want: true},
		{verb: "watch", group: v1alpha1.GroupVersion().Group, resource: "layoutbases", want: true},
		{verb: "update", group: v1alpha1.GroupVersion().Group, resource: "nodelayouts", sub: "status", want: true},

		{verb: "update", group: v1alpha1.GroupVersion().Group, resource: "nodelayouts"},
		{verb: "patch", group: v1alpha1.GroupVersion().Group, resource: "nodelayouts"},
		{verb: "delete", group: v1alpha1.GroupVersion().Group, resource: "nodelayouts"},
		{verb: "delete", group: v1alpha1.GroupVersion().Group, resource: "layoutbases"},
		{verb: "get", resource: "secrets"},
		{verb: "update", resource: "nodes"},
	} {
		r.check(ctx, t, k)
	}
}

// writes are the ways to change a node's published objects, each as a dry run, which admission judges like any other.
var writes = map[string]func(ctx context.Context, w *writer, node string) error{
	"apply layout": func(ctx context.Context, w *writer, node string) error {
		return w.patch(ctx, node, "nodelayouts", v1alpha1.GroupVersion().String(), types.ApplyPatchType, `"kind":"`+
			v1alpha1.Kind+`"`)
	},
	"patch layout": func(ctx context.Context, w *writer, node string) error {
		return w.patch(ctx, node, "nodelayouts", v1alpha1.GroupVersion().String(), types.MergePatchType, `"sequence":9`)
	},
	"update layout": func(ctx context.Context, w *writer, node string) error {
		l, err := w.layouts.Get(ctx, node, metav1.GetOptions{})
		if err == nil {
			_, err = w.layouts.Update(ctx, l, metav1.UpdateOptions{DryRun: all})
		}
		return err
	},
	"delete layout": func(ctx context.Context, w *writer, node string) error {
		return w.layouts.Delete(ctx, node, metav1.DeleteOptions{DryRun: all})
	},
	"patch base": func(ctx context.Context, w *writer, node string) error {
		return w.patch(ctx, node, "layoutbases", v1alpha1.GroupVersion().String(), types.MergePatchType, `"sequence":9`)
	},
	"delete base": func(ctx context.Context, w *writer, node string) error {
		return w.layouts.Bases.Delete(ctx, node, metav1.DeleteOptions{DryRun: all})
	},
	"patch zones": func(ctx context.Context, w *writer, node string) error {
		return w.patch(ctx, node, "noderesourcetopologies", v1alpha2.SchemeGroupVersion.String(), types.MergePatchType,
			`"zones":[]`)
	},
	"delete zones": func(ctx context.Context, w *writer, node string) error {
		return w.zones.Delete(ctx, node, metav1.DeleteOptions{DryRun: all})
	},
}

var all = []string{metav1.DryRunAll}

// writer is an identity that writes.
type writer struct {
	layouts *client.Client
	zones   *nrt.Client
	raw     rest.Interface
}

func newWriter(t *testing.T, c *rest.Config) *writer {
	t.Helper()
	layouts, err := client.New(c)
	if err != nil {
		t.Fatal(err)
	}
	zones, err := nrt.NewClient(c)
	if err != nil {
		t.Fatal(err)
	}
	return &writer{layouts, zones, kubernetes.NewForConfigOrDie(c).CoreV1().RESTClient()}
}

// patch sends a field of an object, for example `"zones":[]`.
func (w *writer) patch(ctx context.Context, node, resource, version string, kind types.PatchType, field string) error {
	body := `{"apiVersion":"` + version + `","metadata":{"name":"` + node + `"},` + field + `}`
	return w.raw.Patch(kind).AbsPath("/apis/"+version, resource, node).Param("dryRun", metav1.DryRunAll).
		Param("fieldManager", "test").Body([]byte(body)).Do(ctx).Error()
}

// policy gives every right to the agents' service account, so that only the policy is left to refuse.
func policy(ctx context.Context, t *testing.T, c *lab.Cluster, agent *rest.Config) {
	admin := kubernetes.NewForConfigOrDie(c.RESTConfig())
	everything := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "test-agents-may-everything"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: deploy.AgentNamespace, Name: deploy.Agent}}}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(ctx, everything, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, "the agent has every right", func() bool {
		_, err := kubernetes.NewForConfigOrDie(agent).CoreV1().Secrets(deploy.Namespace).List(ctx, metav1.ListOptions{})
		return err == nil
	})
	const foreign = "the agent of node own may not write for node other"
	for _, who := range []struct {
		name         string
		access       *rest.Config
		own, foreign string // text in the refusal of a write for the node; "": it is accepted
	}{
		{"administrator", c.RESTConfig(), "", ""},
		{"token bound to the node", agent, "", foreign},
		{"token of a pod on the node", podToken(ctx, t, admin, c.RESTConfig()), "", foreign},
		{"token without a node", token(ctx, t, admin, c.RESTConfig(), nil), "names no node", "names no node"},
	} {
		w := newWriter(t, who.access)
		for what, write := range writes {
			judged(t, who.name+": "+what+" of own", write(ctx, w, "own"), who.own)
			judged(t, who.name+": "+what+" of other", write(ctx, w, "other"), who.foreign)
		}
	}
	w := newWriter(t, agent)
	t.Run("new object", func(t *testing.T) {
		forged := &v1alpha2.NodeResourceTopology{ObjectMeta: metav1.ObjectMeta{Name: "new"}, Zones: v1alpha2.ZoneList{}}
		_, err := w.zones.Create(ctx, forged, metav1.CreateOptions{DryRun: all})
		judged(t, "a node that is not there", err, "may not write for node new")
		forged.Name, forged.GenerateName = "", "own"
		_, err = w.zones.Create(ctx, forged, metav1.CreateOptions{DryRun: all})
		judged(t, "a generated name", err, "may not write for node own")
	})
	t.Run("all at once", func(t *testing.T) {
		err := w.raw.Delete().AbsPath("/apis", v1alpha1.GroupVersion().String(), "nodelayouts").
			Param("dryRun", metav1.DryRunAll).Do(ctx).Error()
		judged(t, "delete of the collection", err, foreign)
	})
	t.Run("events", func(t *testing.T) { events(ctx, t, agent) })
	t.Run("mirror pods", func(t *testing.T) { mirrors(ctx, t, c, agent) })
	t.Run("own finalizers and owners", func(t *testing.T) { ownership(ctx, t, w, newWriter(t, c.RESTConfig())) })
	t.Run("status", func(t *testing.T) {
		status(ctx, t, w, "the status is the scheduler's to write")
		status(ctx, t, newWriter(t, c.RESTConfig()), "")
		scheduler, err := clientcmd.BuildConfigFromFlags("", c.SchedulerKubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		status(ctx, t, newWriter(t, scheduler), "")
	})
}

// events writes events as the agent of node own: about anything but pods, as another one, and large.
func events(ctx context.Context, t *testing.T, agent *rest.Config) {
	t.Helper()
	core := kubernetes.NewForConfigOrDie(agent)
	event := func(change func(*v1.Event)) *v1.Event {
		e := &v1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "tenon-agent.1"}, Reason: "PlacedByAgent",
			InvolvedObject: v1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "p", UID: "u"},
			Message:        strings.Repeat("m", 1024), Type: v1.EventTypeNormal, Count: 1, ReportingInstance: "own",
			Source: v1.EventSource{Component: "tenon-agent", Host: "own"}, ReportingController: "tenon.sh/agent"}
		change(e)
		return e
	}
	for what, c := range map[string]struct {
		change func(*v1.Event)
		words  string
	}{
		"its own":            {func(*v1.Event) {}, ""},
		"about a node":       {func(e *v1.Event) { e.InvolvedObject.Kind = "Node" }, "about pods"},
		"as the kubelet":     {func(e *v1.Event) { e.Source.Component = "kubelet" }, "as itself"},
		"as the scheduler":   {func(e *v1.Event) { e.ReportingController = "default-scheduler" }, "as itself"},
		"for another node":   {func(e *v1.Event) { e.Source.Host = "other" }, "as itself"},
		"by another node":    {func(e *v1.Event) { e.ReportingInstance = "other" }, "as itself"},
		"with another name":  {func(e *v1.Event) { e.Name = "kubelet.1" }, "as itself"},
		"large":              {func(e *v1.Event) { e.Message += "m" }, "at most 1024"},
		"large reason":       {func(e *v1.Event) { e.Reason = strings.Repeat("r", 129) }, "at most 1024"},
		"large annotation":   {func(e *v1.Event) { e.Annotations = map[string]string{"a": "b"} }, "no labels"},
		"that is kept":       {func(e *v1.Event) { e.Finalizers = []string{"a.io/b"} }, "no labels"},
		"with a large field": {func(e *v1.Event) { e.InvolvedObject.FieldPath = "spec" }, "no labels"},
	} {
		_, err := core.CoreV1().Events("default").Create(ctx, event(c.change), metav1.CreateOptions{DryRun: all})
		judged(t, "an event "+what, err, c.words)
	}
	now := metav1.NowMicro()
	_, err := core.EventsV1().Events("default").Create(ctx, &eventsv1.Event{EventTime: now, Action: "a", Reason: "r",
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "tenon-agent.1"}, Type: v1.EventTypeNormal,
		ReportingController: "kubelet", ReportingInstance: "own",
		Regarding: v1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "p"}},
		metav1.CreateOptions{DryRun: all})
	judged(t, "an event of the other group", err, "as itself")
}

// mirrors creates mirror pods as a service account that may create pods, and as an administrator.
func mirrors(ctx context.Context, t *testing.T, c *lab.Cluster, user *rest.Config) {
	t.Helper()
	for what, mirror := range map[string]bool{"a pod": false, "a mirror pod": true} {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "static-own",
			Annotations: map[string]string{"kubernetes.io/config.hash": "0ff"}},
			Spec: v1.PodSpec{NodeName: "own", Containers: []v1.Container{{Name: "c", Image: "i"}}}}
		words := ""
		if mirror {
			p.Annotations[v1.MirrorPodAnnotationKey], words = "0ff", "mirror pods are the kubelets' to create"
		}
		_, err := kubernetes.NewForConfigOrDie(user).CoreV1().Pods("default").Create(ctx, p,
			metav1.CreateOptions{DryRun: all})
		judged(t, what+" of a user", err, words)
		_, err = kubernetes.NewForConfigOrDie(c.RESTConfig()).CoreV1().Pods("default").Create(ctx, p,
			metav1.CreateOptions{DryRun: all})
		judged(t, what+" of an administrator", err, "")
	}
}

// ownership writes finalizers and owners of the agent's own layout: those would keep an administrator from deleting it,
// or delete it together with another object.
func ownership(ctx context.Context, t *testing.T, agent, administrator *writer) {
	t.Helper()
	node := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "own", UID: "0b1c2d3e"}
	blocking, controlling, other, pod := node, node, node, node
	blocking.BlockOwnerDeletion, controlling.Controller = new(true), new(true)
	other.Name, pod.Kind = "other", "Pod"
	for _, c := range []struct {
		what       string
		finalizers []string
		owners     []metav1.OwnerReference
		refusal    string
	}{
		{"nothing", nil, nil, ""},
		{"its Node as owner", nil, []metav1.OwnerReference{node}, ""},
		{"a finalizer", []string{"evil.example/stay"}, nil, "finalizers are not an agent's to write"},
		{"an owner that blocks", nil, []metav1.OwnerReference{blocking}, "is owned by its Node"},
		{"an owner that controls", nil, []metav1.OwnerReference{controlling}, "is owned by its Node"},
		{"another Node as owner", nil, []metav1.OwnerReference{other}, "is owned by its Node"},
		{"a pod as owner", nil, []metav1.OwnerReference{pod}, "is owned by its Node"},
	} {
		for who, w := range map[string]*writer{"agent": agent, "administrator": administrator} {
			l, err := w.layouts.Get(ctx, "own", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			l.Finalizers, l.OwnerReferences = c.finalizers, c.owners
			_, err = w.layouts.Update(ctx, l, metav1.UpdateOptions{DryRun: all})
			refusal := c.refusal
			if who == "administrator" {
				refusal = ""
			}
			judged(t, who+": "+c.what, err, refusal)
		}
	}
}

// status writes the status of the agent's own layout.
func status(ctx context.Context, t *testing.T, w *writer, refusal string) {
	t.Helper()
	l, err := w.layouts.Get(ctx, "own", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	l.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionFalse,
		Reason: "Forged", LastTransitionTime: metav1.Now()}}
	_, err = w.layouts.UpdateStatus(ctx, l, metav1.UpdateOptions{DryRun: all})
	judged(t, "status", err, refusal)
}

// judged fails the test unless the error is the policy's refusal with these words, or nil if there are no words. A
// running agent may be faster than an update: that is not a refusal.
func judged(t *testing.T, what string, err error, words string) {
	t.Helper()
	switch {
	case words == "":
		if err != nil && !apierrors.IsConflict(err) {
			t.Errorf("%s: refused: %v", what, err)
		}
	case err == nil:
		t.Errorf("%s: not refused", what)
	case !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy") ||
		!strings.Contains(err.Error(), words):
		t.Errorf("%s: refused with %v, want the policy's words %q", what, err, words)
	}
}

func eventually(ctx context.Context, t *testing.T, what string, holds func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, 30*time.Second, true,
		func(context.Context) (bool, error) {
			return holds(), nil
		})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// podToken returns the token that the kubelet gives to a pod of the agents on the node own.
func podToken(ctx context.Context, t *testing.T, admin kubernetes.Interface, access *rest.Config) *rest.Config {
	t.Helper()
	p := pod("agent", "own", v1.ResourceList{})
	p.Namespace, p.Spec.ServiceAccountName = deploy.AgentNamespace, deploy.Agent
	create(ctx, t, admin, p)
	return token(ctx, t, admin, access, &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod",
		Name: p.Name})
}

// token returns an access of the agents' service account, bound to an object or, if that is nil, to none.
func token(ctx context.Context, t *testing.T, admin kubernetes.Interface, access *rest.Config,
	bound *authenticationv1.BoundObjectReference) *rest.Config {
	t.Helper()
	got, err := admin.CoreV1().ServiceAccounts(deploy.AgentNamespace).CreateToken(ctx, deploy.Agent,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: bound}},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := rest.CopyConfig(access)
	out.BearerToken = got.Status.Token
	return out
}
