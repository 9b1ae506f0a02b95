package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/descheduler/cmd/descheduler/app"
	"sigs.k8s.io/descheduler/pkg/api"
	"sigs.k8s.io/descheduler/pkg/framework/pluginregistry"
	"sigs.k8s.io/descheduler/pkg/framework/types"

	"github.com/tenon-numa/tenon/face/cli"
)

var noon = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// waitingPod returns a pod for which a scheduler has found no node since an age before noon.
func waitingPod(namespace, name string, priority int32, age time.Duration) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: apitypes.UID(name),
		CreationTimestamp: metav1.NewTime(noon.Add(-age))}, Spec: v1.PodSpec{Priority: &priority},
		Status: v1.PodStatus{Phase: v1.PodPending, Conditions: []v1.PodCondition{{Type: v1.PodScheduled,
			Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable}}}}
}

// handle is what plugins get, for a cluster in memory.
type handle struct {
	types.Handle
	client    kubernetes.Interface
	informers informers.SharedInformerFactory
}

func (h handle) ClientSet() kubernetes.Interface                        { return h.client }
func (h handle) SharedInformerFactory() informers.SharedInformerFactory { return h.informers }

func newHandle(t *testing.T, pods ...*v1.Pod) handle {
	t.Helper()
	client := fake.NewClientset()
	h := handle{client: client, informers: informers.NewSharedInformerFactory(client, 0)}
	store := h.informers.Core().V1().Pods().Informer().GetStore()
	for _, p := range pods {
		if err := store.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// Pods move for those that a scheduler has tried for long enough, the most important first.
func TestWhichPodsWait(t *testing.T) {
	bound, gated, ending := waitingPod("ml", "bound", 9, time.Hour), waitingPod("ml", "gated", 9, time.Hour),
		waitingPod("ml", "ending", 9, time.Hour)
	bound.Spec.NodeName = "a"
	gated.Status.Conditions[0].Reason = v1.PodReasonSchedulingGated
	ending.DeletionTimestamp = &metav1.Time{Time: noon}
	p := &makeRoom{now: func() time.Time { return noon }, args: &MakeRoomArgs{
		PendingNamespaces: &api.Namespaces{Exclude: []string{"web"}}}, handle: newHandle(t, bound, gated, ending,
		waitingPod("ml", "young", 9, time.Minute), waitingPod("web", "other", 9, time.Hour),
		waitingPod("ml", "second", 5, time.Hour), waitingPod("ml", "first", 5, 2*time.Hour),
		waitingPod("ml", "last", 0, 3*time.Hour), waitingPod("ml", "top", 7, 5*time.Minute))}
	SetDefaults(p.args)
	all, err := p.waiting()
	var names []string
	for _, w := range all {
		names = append(names, w.Name)
	}
	if want := []string{"top", "first", "second", "last"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("these pods wait: %v, want %v: %v", names, want, err)
	}
}

// Why there is no plan for a pod is logged again when the reason is another one, or when the pod has not waited in
// between.
func TestAReasonIsLoggedOnce(t *testing.T) {
	var lines []string
	log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	p := &makeRoom{logged: map[apitypes.UID]string{}, stopped: map[apitypes.UID]time.Time{"wide": noon}}
	w := waitingPod("ml", "wide", 0, 0)
	for _, why := range []string{"full", "full", "more than full"} {
		p.once(log, w, why)
	}
	p.forget([]*v1.Pod{w})
	if p.once(log, w, "more than full"); len(lines) != 2 || !strings.Contains(lines[1], "more than full") ||
		len(p.stopped) != 1 {
		t.Errorf("these lines were logged: %q", lines)
	}
	p.forget(nil)
	if p.once(log, w, "more than full"); len(lines) != 3 || len(p.stopped) != 0 {
		t.Errorf("these lines were logged: %q", lines)
	}
}

// The policy's limits bound the plans, and a program that cannot say its cluster or its policy does not start.
func TestThePolicyBoundsPlans(t *testing.T) {
	cfg := func() (*rest.Config, error) { return &rest.Config{Host: "https://127.0.0.1:1"}, nil }
	of := func(total *uint) Host {
		return Host{Config: cfg, Policy: func() (*api.DeschedulerPolicy, error) {
			return &api.DeschedulerPolicy{MaxNoOfPodsToEvictTotal: total}, nil
		}}
	}
	for _, c := range []struct {
		total *uint
		want  int
	}{{nil, 3}, {new(uint(0)), 0}, {new(uint(2)), 2}, {new(uint(1 << 63)), 3}} {
		p, err := newPlugin(&MakeRoomArgs{}, newHandle(t), of(c.total))
		if err != nil || p.most != c.want {
			t.Errorf("with the limit %v the plugin is %+v: %v", c.total, p, err)
		}
	}
	gone := errors.New("no such file")
	for name, h := range map[string]Host{
		"no cluster": {Config: func() (*rest.Config, error) { return nil, gone }},
		"no policy":  {Config: cfg, Policy: func() (*api.DeschedulerPolicy, error) { return nil, gone }},
	} {
		if p, err := newPlugin(&MakeRoomArgs{}, newHandle(t), h); !errors.Is(err, gone) {
			t.Errorf("%s: the plugin is %+v: %v", name, p, err)
		}
	}
}

// A dry run is known by the descheduler's client, which then reaches no API server.
func TestADryRunIsKnown(t *testing.T) {
	h := newHandle(t)
	if !reachesNothing(h) {
		t.Error("a client that simulates is taken for a real one")
	}
	h.client = kubernetes.NewForConfigOrDie(&rest.Config{Host: "https://127.0.0.1:1"})
	if reachesNothing(h) {
		t.Error("a real client is taken for one that simulates")
	}
}

// The descheduler's own command has the plugin, and the plugin connects as the flags of the command select.
func TestTheCommandHasThePlugin(t *testing.T) {
	cmd := app.NewDeschedulerCommand(t.Output())
	AddTo(cmd)
	if err := cmd.ParseFlags([]string{"--kubeconfig", "/none/kubeconfig"}); err != nil {
		t.Fatal(err)
	}
	if err := cmd.PreRunE(cmd, nil); err != nil {
		t.Fatal(err)
	}
	known, ok := pluginregistry.PluginRegistry[Name]
	if !ok {
		t.Fatalf("the plugin is not among %v", pluginregistry.PluginRegistry)
	}
	_, err := known.PluginBuilder(context.Background(), &MakeRoomArgs{}, newHandle(t))
	if err == nil || !strings.Contains(fmt.Sprint(err), "/none/kubeconfig") {
		t.Errorf("the plugin connects elsewhere: %v", err)
	}
}

// Pods without a plan keep no others from being tried: those that are alike count as one, and the next time the others
// come first.
func TestEveryPodHasItsTurn(t *testing.T) {
	p := &makeRoom{args: &MakeRoomArgs{}, most: 3, logged: map[apitypes.UID]string{}, asked: map[apitypes.UID]bool{}}
	SetDefaults(p.args)
	var tried []string
	ask := func(_ context.Context, q cli.MoveQuestion) (cli.MoveAnswer, error) {
		tried = append(tried, strings.TrimPrefix(q.For[0], "ml/"))
		if q.For[0] == "ml/good" {
			return cli.MoveAnswer{Plan: &cli.MovePlan{Moves: []cli.PodOn{{}}}}, nil
		}
		return cli.MoveAnswer{Why: "full"}, nil
	}
	run := func(waiting ...*v1.Pod) (asked []string, of string) {
		tried = nil
		w, _, plan, err := p.first(t.Context(), logr.Discard(), waiting, ask)
		if err != nil || (w == nil) != (plan == nil) {
			t.Fatalf("%v, %v, %v", w, plan, err)
		}
		if w != nil {
			of = w.Name
		}
		return tried, of
	}
	var apart, replicas []*v1.Pod
	for i := range maxAsked {
		apart = append(apart, waitingPod("ml", fmt.Sprintf("apart-%d", i), 9, time.Hour))
		replicas = append(replicas, replica(fmt.Sprintf("web-%d", i)))
	}
	good := waitingPod("ml", "good", 0, time.Hour)
	if asked, of := run(append(slices.Clone(replicas), good)...); of != "good" || len(asked) != 2 {
		t.Errorf("behind %d replicas, the plan is for %q; tried were %v", len(replicas), of, asked)
	}
	hopeless := append(slices.Clone(apart), waitingPod("ml", "last", 0, time.Hour))
	for i, want := range []bool{false, true, false, true} {
		if asked, _ := run(hopeless...); slices.Contains(asked, "last") != want {
			t.Errorf("the %d. time, %v were tried", i+1, asked)
		}
	}
	other := append(slices.Clone(apart), good)
	if asked, of := run(other...); of != "" || len(asked) != maxAsked {
		t.Errorf("%d pods were tried, and the plan is for %q", len(asked), of)
	}
	top := waitingPod("ml", "top", 10, time.Hour)
	if asked, of := run(append([]*v1.Pod{top}, other...)...); of != "good" || !slices.Equal(asked, []string{"top", "good"}) {
		t.Errorf("the next time, %v were tried, and the plan is for %q", asked, of)
	}
	if asked, _ := run(append([]*v1.Pod{top}, apart[1:]...)...); len(asked) != maxAsked || len(p.asked) != 0 {
		t.Errorf("%d of %d pods were tried, and %d are put off", len(asked), maxAsked, len(p.asked))
	}
	if asked, _ := run(apart[:3]...); !slices.Equal(asked, []string{"apart-0", "apart-1", "apart-2"}) {
		t.Errorf("a new round tries %v", asked)
	}
}

// replica returns a pod of a controller as the API server stores it.
func replica(name string) *v1.Pod {
	p := waitingPod("ml", name, 9, time.Hour)
	p.Labels = map[string]string{"app": "web"}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "web",
		Controller: new(true)}}
	token := "kube-api-access-" + name
	p.Spec.Volumes = []v1.Volume{{Name: token, VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{}}}}
	p.Spec.Containers = []v1.Container{{Name: "c", VolumeMounts: []v1.VolumeMount{{Name: token, MountPath: "/token"}}}}
	return p
}

func TestPodsOfAControllerThatDiffer(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1.Pod)
		want   bool
	}{
		"none":        {func(*v1.Pod) {}, true},
		"its number":  {func(p *v1.Pod) { p.Labels["apps.kubernetes.io/pod-index"], p.Spec.Hostname = "1", "b" }, true},
		"controller":  {func(p *v1.Pod) { p.OwnerReferences[0].UID = "other" }, false},
		"none at all": {func(p *v1.Pod) { p.OwnerReferences = nil }, false},
		"priority":    {func(p *v1.Pod) { p.Spec.Priority = new(int32(8)) }, false},
		"selector":    {func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"a": "b"} }, false},
		"label":       {func(p *v1.Pod) { p.Labels["app"] = "api" }, false},
		"annotation":  {func(p *v1.Pod) { p.Annotations = map[string]string{"tenon.sh/align": "cpu"} }, false},
		"requests": {func(p *v1.Pod) {
			p.Spec.Containers[0].Resources.Requests = v1.ResourceList{"cpu": resource.MustParse("1")}
		}, false},
		"a claim of its own": {func(p *v1.Pod) {
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "data", VolumeSource: v1.VolumeSource{
				PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data-1"}}})
		}, false},
	} {
		a, b := replica("a"), replica("b")
		c.change(b)
		if alike(a, b) != c.want || alike(b, a) != c.want {
			t.Errorf("%s: alike is %t", name, !c.want)
		}
	}
	a, b := replica("a"), replica("b")
	for _, p := range []*v1.Pod{a, b} {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "e", VolumeSource: v1.VolumeSource{
			Ephemeral: &v1.EphemeralVolumeSource{}}})
	}
	if alike(a, b) {
		t.Error("each pod has a volume of its own, and they are taken for alike")
	}
}
