package scheduler_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	tf "k8s.io/kubernetes/pkg/scheduler/testing/framework"
	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/cluster/stage"
	"github.com/tenon-numa/tenon/core/whatif"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// The nodes that other pods leave open to a pod are the same as in kube-scheduler's plugins, for existing pods and for
// those that a plan has placed.
func TestPeersAgreeWithKubeScheduler(t *testing.T) {
	metrics.Register()
	rapid.Check(t, func(rt *rapid.T) {
		nodes := drawNodes(rt)
		var pods []v1.Pod
		for i := range rapid.IntRange(0, 6).Draw(rt, "pods") {
			pods = append(pods, *drawPod(rt, fmt.Sprint("p", i), rapid.SampledFrom(nodes).Draw(rt, "on").Name))
		}
		s := staged(rt, nodes, pods)
		pod := drawPod(rt, "new", "")
		n := workloadOf(rt, s, pod).Peers.Among(s.Nodes())
		agree(t, rt, nodes, n, pod, pods)
		for i := range rapid.IntRange(0, 3).Draw(rt, "placed") {
			at := rapid.IntRange(0, len(nodes)-1).Draw(rt, "at")
			p := drawPod(rt, fmt.Sprint("q", i), s.Nodes()[at].Name)
			p.DeletionTimestamp = nil
			n.Placed(workloadOf(rt, s, p).Peers, at)
			pods = append(pods, *p)
			agree(t, rt, nodes, n, pod, pods)
		}
	})
}

// agree compares with kube-scheduler's plugins on a snapshot of the nodes with these pods.
func agree(t *testing.T, rt *rapid.T, nodes []v1.Node, n whatif.Neighbours, pod *v1.Pod, pods []v1.Pod) {
	var objects []*v1.Node
	for i := range nodes {
		objects = append(objects, &nodes[i])
	}
	var there []*v1.Pod
	for i := range pods {
		there = append(there, &pods[i])
	}
	client := fake.NewClientset(&v1.Namespace{ObjectMeta: namespaces()[0].ObjectMeta},
		&v1.Namespace{ObjectMeta: namespaces()[1].ObjectMeta})
	factory, stop := informers.NewSharedInformerFactory(client, 0), make(chan struct{})
	registry := plugins.NewInTreeRegistry()
	f, err := tf.NewFramework(t.Context(), []tf.RegisterPluginFunc{
		tf.RegisterQueueSortPlugin(queuesort.Name, queuesort.New),
		tf.RegisterBindPlugin(defaultbinder.Name, defaultbinder.New),
		tf.RegisterPluginAsExtensions(names.InterPodAffinity, registry[names.InterPodAffinity], "PreFilter", "Filter"),
		tf.RegisterPluginAsExtensions(names.PodTopologySpread, registry[names.PodTopologySpread], "PreFilter", "Filter"),
	}, "", frameworkruntime.WithClientSet(client),
		frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSnapshotSharedLister(internalcache.NewSnapshot(there, objects)))
	if err != nil {
		rt.Fatal(err)
	}
	factory.Start(stop)
	defer factory.Shutdown()
	defer close(stop)
	factory.WaitForCacheSync(stop)
	cs := framework.NewCycleState()
	if _, status, _ := f.RunPreFilterPlugins(t.Context(), cs, pod); !status.IsSuccess() {
		rt.Fatalf("PreFilter: %s", status.Message())
	}
	infos, err := f.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		rt.Fatal(err)
	}
	slices.SortFunc(infos, func(a, b fwk.NodeInfo) int { return strings.Compare(a.Node().Name, b.Node().Name) })
	for i, info := range infos {
		status := f.RunFilterPlugins(t.Context(), cs, pod, info)
		if why := n.Why(i); status.IsSuccess() != n.Lets(i) || n.Lets(i) != (len(why) == 0) {
			rt.Fatalf("node %s: kube-scheduler says %q, here it is %v\npod %+v\npods %+v", info.Node().Name,
				status.Message(), why, pod, pods)
		}
	}
}

// staged makes a stage of what kubectl would export.
func staged(t *rapid.T, nodes []v1.Node, pods []v1.Pod) *stage.Stage {
	var items []any
	for _, n := range namespaces() {
		items = append(items, n)
	}
	for i := range nodes {
		items = append(items, nodes[i])
	}
	for i := range pods {
		items = append(items, pods[i])
	}
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := stage.Export(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// workloadOf returns the requests of a pod of a file.
func workloadOf(t *rapid.T, s *stage.Stage, p *v1.Pod) *whatif.Want {
	created := p.DeepCopy()
	created.Spec.NodeName, created.DeletionTimestamp = "", nil
	text, err := json.Marshal(created)
	if err != nil {
		t.Fatal(err)
	}
	all, _, err := s.Workloads(text, "default")
	if err != nil || len(all) != 1 || len(all[0].Unjudged) > 0 {
		t.Fatalf("%v: %+v", err, all)
	}
	return all[0].Want
}

func drawNodes(t *rapid.T) (out []v1.Node) {
	for i := range rapid.IntRange(1, 5).Draw(t, "nodes") {
		name := string(rune('a' + i))
		n := v1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name}}}
		if zone := rapid.SampledFrom([]string{"", "x", "y", "z"}).Draw(t, "zone"); zone != "" {
			n.Labels["zone"] = zone
		}
		if rapid.IntRange(0, 4).Draw(t, "tainted") == 0 {
			n.Spec.Taints = []v1.Taint{{Key: "k", Effect: v1.TaintEffectNoSchedule}}
		}
		out = append(out, n)
	}
	return out
}

func drawPod(t *rapid.T, name, on string) *v1.Pod {
	p := &v1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: name,
		UID:       types.UID(name),
		Namespace: rapid.SampledFrom([]string{"m", "n"}).Draw(t, "namespace"),
		Labels:    map[string]string{"app": rapid.SampledFrom([]string{"a", "b"}).Draw(t, "app")}}}
	p.Spec.NodeName, p.Spec.Containers = on, []v1.Container{{Name: "c", Image: "i"}}
	if rapid.IntRange(0, 3).Draw(t, "selects") == 0 {
		p.Spec.NodeSelector = map[string]string{"zone": "x"}
	}
	if rapid.IntRange(0, 5).Draw(t, "ends") == 0 {
		p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	}
	p.Spec.Affinity = &v1.Affinity{
		PodAffinity:     &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: drawTerms(t)},
		PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: drawTerms(t)},
	}
	p.Spec.TopologySpreadConstraints = drawConstraints(t)
	return p
}

// drawConstraints draws what the API server accepts: one constraint for each key of a topology, and no key of a label
// that the selector names as well.
func drawConstraints(t *rapid.T) (out []v1.TopologySpreadConstraint) {
	for range rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "constraints") {
		c := v1.TopologySpreadConstraint{MaxSkew: int32(rapid.IntRange(1, 2).Draw(t, "skew")), TopologyKey: drawKey(t),
			WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: drawSelector(t)}
		if rapid.Bool().Draw(t, "domains") {
			c.MinDomains = new(int32)
			*c.MinDomains = int32(rapid.IntRange(1, 4).Draw(t, "least"))
		}
		open := c.LabelSelector != nil && len(c.LabelSelector.MatchLabels) == 0
		if rapid.Bool().Draw(t, "keys") && open {
			c.MatchLabelKeys = []string{"app"}
		}
		policies := []v1.NodeInclusionPolicy{v1.NodeInclusionPolicyHonor, v1.NodeInclusionPolicyIgnore}
		if rapid.Bool().Draw(t, "policies") {
			c.NodeAffinityPolicy, c.NodeTaintsPolicy = &policies[rapid.IntRange(0, 1).Draw(t, "affinity policy")],
				&policies[rapid.IntRange(0, 1).Draw(t, "taints policy")]
		}
		twice := slices.ContainsFunc(out, func(o v1.TopologySpreadConstraint) bool { return o.TopologyKey == c.TopologyKey })
		if !twice {
			out = append(out, c)
		}
	}
	return out
}

// namespaces are the namespaces of drawn pods.
func namespaces() (out []v1.Namespace) {
	for _, name := range []string{"m", "n"} {
		out = append(out, v1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": name}}})
	}
	return out
}

func drawKey(t *rapid.T) string {
	return rapid.SampledFrom([]string{"zone", v1.LabelHostname}).Draw(t, "key")
}

func drawSelector(t *rapid.T) *metav1.LabelSelector {
	return rapid.SampledFrom([]*metav1.LabelSelector{nil, {}, {MatchLabels: map[string]string{"app": "a"}},
		{MatchLabels: map[string]string{"app": "b"}}}).Draw(t, "selector")
}

func drawTerms(t *rapid.T) (out []v1.PodAffinityTerm) {
	for range rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "terms") {
		x := v1.PodAffinityTerm{LabelSelector: drawSelector(t), TopologyKey: drawKey(t)}
		switch rapid.IntRange(0, 4).Draw(t, "namespaces") {
		case 0:
			x.Namespaces = []string{"m", "n"}
		case 1:
			x.NamespaceSelector = &metav1.LabelSelector{}
		case 2:
			x.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "m"}}
		}
		out = append(out, x)
	}
	return out
}
