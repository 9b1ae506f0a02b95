package stage

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	podapi "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
)

// Pods of one workload exclude each other as a plan places them, by ports and by anti-affinity. Nodes without labels
// differ by their names.
func TestPodsOfAWorkloadKeepEachOtherAway(t *testing.T) {
	for text, want := range map[string]string{
		`{"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "x"}, "spec": {"replicas": 3, "template": {
			"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}], "affinity": {"podAntiAffinity": {
			"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname",
			"labelSelector": {"matchLabels": {"app": "x"}}}]}}}}}}`: "pod default/x is there, which the pod's required " +
			"anti-affinity excludes (kubernetes.io/hostname)",
		`{"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "x"}, "spec": {"replicas": 3, "template": {
			"spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}]}]}}}}`: "host port 80/TCP " +
			"is taken by pod default/x",
	} {
		labelled := made(t, []v1.Node{node("a", nil), node("b", nil)})
		bareStage, err := bare(slices.Clone(labelled.Nodes()), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []*Stage{labelled, bareStage} {
			w := read(t, s, text)
			plan := whatif.New(s.Nodes(), whatif.Rules{})
			got, err := plan.Fill(w.Want, w.Count, func(i int) state.PodID { return w.ID(1, i) }, func() error { return nil })
			if err != nil || len(got.Placed) != 2 || len(got.Refusals) != 1 || texts(got.Refusals[0].Reasons) != want {
				t.Errorf("placed %d, refusals %+v, %v; want 2 and %q", len(got.Placed), got.Refusals, err, want)
			}
			if len(w.Unjudged) > 0 {
				t.Errorf("not judged: %v", w.Unjudged)
			}
			for _, x := range got.Refusals[0].Reasons {
				if x.Remedy() == "" || x.When() != place.Later {
					t.Errorf("%s: %s, remedy %q", x.Text(), x.When(), x.Remedy())
				}
			}
		}
	}
}

// Pods are the same if each could stand for the other one, wherever it is.
func TestPodsThatWantTheSame(t *testing.T) {
	x := map[string]string{"app": "x"}
	port := func(n int32) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: n, ContainerPort: n}} }
	}
	for name, c := range map[string]struct {
		a, b func(*v1.Pod)
		want bool
	}{
		"equal": {nil, nil, true},
		"requests": {nil, func(p *v1.Pod) {
			p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("2")
		}, false},
		"node selector": {nil, func(p *v1.Pod) {
			p.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": "b"}
		}, false},
		"a request of its own": {nil, func(p *v1.Pod) {
			p.Annotations = map[string]string{podapi.ConsumeAnnotation: "r", podapi.ClassAnnotation: podapi.Class}
		}, false},
		"scoring": {nil, func(p *v1.Pod) {
			p.Annotations = map[string]string{"tenon.sh/scoring-strategy": "MostAllocated"}
		}, false},
		"namespace":     {nil, func(p *v1.Pod) { p.Namespace = "other" }, false},
		"labels":        {nil, func(p *v1.Pod) { p.Labels = x }, false},
		"anti-affinity": {nil, func(p *v1.Pod) { apart(p, x) }, false},
		"both apart":    {func(p *v1.Pod) { apart(p, x) }, func(p *v1.Pod) { apart(p, x) }, true},
		"spread": {nil, func(p *v1.Pod) {
			p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{MaxSkew: 1,
				TopologyKey: "kubernetes.io/hostname", WhenUnsatisfiable: v1.DoNotSchedule}}
		}, false},
		"numbers":                         {withNumber("0", nil), withNumber("1", nil), true},
		"numbers that their terms read":   {withNumber("0", apartFromFirst), withNumber("1", apartFromFirst), false},
		"numbers that their spread reads": {withNumber("0", spreadByNumber), withNumber("1", spreadByNumber), false},

		"one port":  {port(80), port(80), true},
		"two ports": {port(80), port(81), false},
	} {
		s := made(t, []v1.Node{node("a", nil), node("b", nil)}, running("a", "", "1", c.a), running("b", "", "1", c.b))
		all := s.Pending()
		if got := all[0].Want.Same(all[1].Want); got != c.want || all[1].Want.Same(all[0].Want) != got {
			t.Errorf("%s: the same: %t", name, got)
		}
		if wants := []*whatif.Want{all[0].Want, all[1].Want}; s.Unrelated(wants) && name == "labels" &&
			!wants[0].Same(wants[1]) {
			t.Error("no pod looks at labels, and these make a difference")
		}
	}
	s := made(t, []v1.Node{node("a", nil)}, running("a", "", "1", withNumber("0", nil)),
		running("b", "", "1", withNumber("1", nil)), running("c", "a", "1", apartFromFirst))
	if all := s.Pending(); all[0].Want.Same(all[1].Want) {
		t.Error("a pod on a node excludes only one of two pods, and these are the same")
	}
}

// Comparing pods costs the same however many pods on nodes exclude others.
func TestComparingPodsReadsResidentsOnce(t *testing.T) {
	all := []v1.Pod{running("a", "", "1", withNumber("0", nil)), running("b", "", "1", withNumber("1", nil))}
	for i := range 100 {
		all = append(all, running(fmt.Sprint("on-", i), "n", "1", func(p *v1.Pod) {
			apart(p, map[string]string{"app": "x"})
		}))
	}
	pods := kube.StoreAll(all)
	reads := 0
	for i := range pods {
		pods[i] = counted{pods[i], &reads}
	}
	s, err := assemble([]v1.Node{node("n", nil)}, nil, pods, &Requests{})
	if err != nil {
		t.Fatal(err)
	}
	wants := s.Pending()
	first := wants[0].Want.Same(wants[1].Want)
	if reads = 0; !first || !wants[0].Want.Same(wants[1].Want) || !wants[1].Want.Same(wants[0].Want) || reads > 0 {
		t.Errorf("the same: %t; two more comparisons have read %d pods", first, reads)
	}
}

// counted counts how often a pod is read.
type counted struct {
	kube.Stored
	reads *int
}

func (c counted) Pod() *v1.Pod {
	*c.reads++
	return c.Stored.Pod()
}

// withNumber gives a pod its number in its controller.
func withNumber(n string, change func(*v1.Pod)) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Labels = map[string]string{"app": "x", "apps.kubernetes.io/pod-index": n}
		if change != nil {
			change(p)
		}
	}
}

func apartFromFirst(p *v1.Pod) { apart(p, map[string]string{"apps.kubernetes.io/pod-index": "0"}) }

// apart keeps a pod from nodes that have a pod with these labels.
func apart(p *v1.Pod, from map[string]string) {
	p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{TopologyKey: "kubernetes.io/hostname",
			LabelSelector: &metav1.LabelSelector{MatchLabels: from}}}}}
}

func spreadByNumber(p *v1.Pod) {
	p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "kubernetes.io/hostname",
		WhenUnsatisfiable: v1.DoNotSchedule, MatchLabelKeys: []string{"apps.kubernetes.io/pod-index"},
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}}}
}
