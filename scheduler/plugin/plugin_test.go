package plugin

import (
	"context"
	"errors"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/kube/kubetest"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

const refuse = "unknownNodes: Refuse"

// two describes a machine of two NUMA nodes with 16 CPUs each.
const two = kubetest.Two

// newPlugin returns a plugin whose ledger is complete, and empty.
func newPlugin(t *testing.T, args string) *Plugin {
	t.Helper()
	book := ledger.New()
	ready := make(chan struct{})
	close(ready)
	feed := kube.NewFeed(book, nil, nil)
	feed.Begin()
	return pluginOf(t, &Shared{Book: book, Feed: feed, Ready: ready}, args)
}

func pluginOf(t *testing.T, s *Shared, args string) *Plugin {
	t.Helper()
	p, err := s.Factory(Name)(t.Context(), &runtime.Unknown{Raw: []byte(args)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p.(*Plugin)
}

// layout makes the layout of a node with static managers; versions are resource versions.
func layout(t testing.TB, node, machine string, policy place.Policy, version int,
	entries ...state.Entry) *v1alpha1.NodeLayout {
	t.Helper()
	return kubetest.Layout(t, node, machine, policy, version, entries...)
}

// holding returns the entry of a pod that the node reports with these CPUs.
func holding(p *v1.Pod, cpus string) state.Entry { return kubetest.Holding(p, cpus) }

// podOf returns a pod of one container, Guaranteed if it has CPUs and memory: "cpu=4 memory=1Gi".
func podOf(name, amounts string) *v1.Pod { return kubetest.Pod(name, amounts) }

func cpus(name string, n int) *v1.Pod { return kubetest.CPUs(name, n) }

func noted(p *v1.Pod, annotation, value string) *v1.Pod {
	return kubetest.Annotated(p, annotation, value)
}

func bind(p *v1.Pod, node string) *v1.Pod { return kubetest.Bound(p, node) }

func nodeInfo(name string) fwk.NodeInfo {
	n := framework.NewNodeInfo()
	n.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	return n
}

func podInfo(t *testing.T, p *v1.Pod) fwk.PodInfo {
	t.Helper()
	i, err := framework.NewPodInfo(p)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// cycle begins to schedule a pod.
func cycle(t *testing.T, p *Plugin, pod *v1.Pod) fwk.CycleState {
	t.Helper()
	cs := framework.NewCycleState()
	if _, status := p.PreFilter(t.Context(), cs, pod, nil); !status.IsSuccess() {
		t.Fatalf("pod %s: %s: %s", pod.Name, status.Code(), status.Message())
	}
	return cs
}

func filter(t *testing.T, p *Plugin, cs fwk.CycleState, node string) *fwk.Status {
	t.Helper()
	return p.Filter(t.Context(), cs, nil, nodeInfo(node))
}

// says fails the test unless the status is a refusal with this text, or a success if text is "".
func says(t *testing.T, s *fwk.Status, code fwk.Code, text string) {
	t.Helper()
	if s.Code() != code || s.Message() != text {
		t.Errorf("status %s: %q, want %s: %q", s.Code(), s.Message(), code, text)
	}
}

func fits(t *testing.T, s *fwk.Status) {
	t.Helper()
	says(t, s, fwk.Success, "")
}

func TestPlainPodsPassAtNoCost(t *testing.T) {
	p := newPlugin(t, refuse)
	for name, c := range map[string]struct {
		pod   *v1.Pod
		plain bool
	}{
		"best effort":                      {podOf("p", ""), true},
		"burstable":                        {podOf("p", "cpu=2"), true},
		"guaranteed":                       {cpus("p", 2), false},
		"burstable with a device":          {podOf("p", "cpu=2 acme.com/gpu=1"), false},
		"burstable that is not understood": {noted(podOf("p", ""), apipod.PolicyAnnotation, "strict"), false},
		"guaranteed without a whole CPU":   {podOf("p", "cpu=1500m memory=1Gi"), false},
		"burstable that demands nothing":   {noted(podOf("p", "cpu=2"), apipod.PolicyAnnotation, "best-effort"), true},
		"burstable that demands":           {noted(podOf("p", "cpu=2"), apipod.PolicyAnnotation, "restricted"), false},
	} {
		fragments, status := p.SignPod(t.Context(), c.pod)
		if c.plain && !status.IsSuccess() || len(fragments) > 0 == c.plain && status.IsSuccess() {
			t.Errorf("%s: signed %v with %v", name, status.IsSuccess(), fragments)
		}
		cs := framework.NewCycleState()
		_, status = p.PreFilter(t.Context(), cs, c.pod, nil)
		if (status.Code() == fwk.Skip) != c.plain {
			t.Errorf("%s: PreFilter says %s", name, status.Code())
		}
		if !c.plain {
			continue
		}
		if s := p.PreScore(t.Context(), cs, c.pod, nil); s.Code() != fwk.Skip {
			t.Errorf("%s: PreScore says %s", name, s.Code())
		}
		fits(t, p.Reserve(t.Context(), cs, c.pod, "nowhere"))
		p.Unreserve(t.Context(), cs, c.pod, "nowhere")
		if s := p.preFlight(cs, c.pod, "nowhere"); s.Code() != fwk.Skip {
			t.Errorf("%s: PreBindPreFlight says %s", name, s.Code())
		}
		fits(t, p.PreBind(t.Context(), cs, c.pod, "nowhere"))
	}
}

func TestADemandThatIsNotUnderstoodIsNamed(t *testing.T) {
	p := newPlugin(t, refuse)
	_, status := p.PreFilter(
		t.Context(),
		framework.NewCycleState(),
		noted(cpus("p", 2), apipod.PolicyAnnotation, "strict"),
		nil,
	)
	says(
		t,
		status,
		fwk.UnschedulableAndUnresolvable,
		`pod default/p: annotation tenon.sh/numa-policy: unknown value "strict": want one of none, best-effort, restricted, single-numa-node`,
	)
}

func TestArgumentsAreChecked(t *testing.T) {
	for args, want := range map[string]string{
		"unknownNode: Refuse":           "unknownNode",
		"unknownNodes: Perhaps":         `unknownNodes: unknown value "Perhaps"`,
		"turnTimeoutSeconds: 4000":      "turnTimeoutSeconds: 4000 is outside 1..3600",
		"scoringStrategy: {type: Best}": `scoringStrategy.type: unknown value "Best"`,
	} {
		_, err := (&Shared{}).Factory(Name)(t.Context(), &runtime.Unknown{Raw: []byte(args)}, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// A scheduler that has just started has no nodes yet; it must not treat them as empty.
func TestNothingIsPlacedBeforeTheBookIsComplete(t *testing.T) {
	book := ledger.New()
	p := pluginOf(t, &Shared{Book: book, Feed: kube.NewFeed(book, nil, nil), Ready: make(chan struct{})}, refuse)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("scheduler ends"))
	_, status := p.PreFilter(ctx, framework.NewCycleState(), cpus("p", 2), nil)
	says(t, status, fwk.Error, "wait for node layouts and pods: scheduler ends")
}

func TestFilterSaysWhatTheNodeLacks(t *testing.T) {
	p := newPlugin(t, refuse)
	p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 1, holding(cpus("x", 4), "0-3")))
	fits(t, filter(t, p, cycle(t, p, cpus("p", 16)), "n"))
	p.Feed.Layout(
		layout(t, "full", two, place.SingleNUMA, 2, holding(cpus("y", 15), "0-14"), holding(cpus("z", 16), "16-31")),
	)
	says(t, filter(t, p, cycle(t, p, cpus("p", 2)), "full"), fwk.Unschedulable,
		`cannot align container "c" (wants 2 cpu; node has 1 free)`)
	// If the pod does not fit the empty machine, preemption need not try.
	says(t, filter(t, p, cycle(t, p, cpus("p", 17)), "n"), fwk.UnschedulableAndUnresolvable,
		`never on this machine: container "c" wants 17 cpu on one NUMA node; the largest has 16`)
	says(t, filter(t, p, cycle(t, p, podOf("p", "cpu=17 memory=65Gi")), "n"), fwk.UnschedulableAndUnresolvable,
		`never on this machine: container "c" wants 17 cpu on one NUMA node; the largest has 16, `+
			`never on this machine: container "c" wants 65Gi memory on one NUMA node; the largest has 64Gi`)
}

// A demand that no node can meet is reported on the pod, once, and not ignored.
func TestADemandThatNoNodeCanSatisfyIsRefusedWithThePod(t *testing.T) {
	p := newPlugin(t, refuse)
	_, status := p.PreFilter(
		t.Context(),
		framework.NewCycleState(),
		noted(podOf("p", "cpu=2"), apipod.PolicyAnnotation, "restricted"),
		nil,
	)
	says(
		t,
		status,
		fwk.UnschedulableAndUnresolvable,
		"pod default/p: demands restricted, and no node can give it CPUs, memory or "+
			"devices of its own: want a Guaranteed pod or one that asks for devices",
	)
	typo := noted(podOf("p", "cpu=2 acme.com/gpu=1"), apipod.AlignAnnotation, "acme.com/gpus")
	_, status = p.PreFilter(t.Context(), framework.NewCycleState(), typo, nil)
	says(
		t,
		status,
		fwk.UnschedulableAndUnresolvable,
		`pod default/p: annotation tenon.sh/align: "acme.com/gpus" is not a resource that the `+
			`pod can get of its own: let the pod ask for it, or name some of: acme.com/gpu`,
	)
}

// A node's own policy may be weaker than the pod's demand.
func TestFilterHoldsThePodsOwnDemand(t *testing.T) {
	p := newPlugin(t, refuse)
	p.Feed.Layout(layout(t, "n", two, place.BestEffort, 1))
	fits(t, filter(t, p, cycle(t, p, cpus("p", 20)), "n"))
	demanding := noted(cpus("p", 20), apipod.PolicyAnnotation, "single-numa-node")
	cs := cycle(t, p, demanding)
	const why = `cannot align container "c" (demands one NUMA node; node would use NUMA nodes 0-1 for cpu, 0-1 for memory)`
	says(t, filter(t, p, cs, "n"), fwk.Unschedulable, why)
	says(t, p.Reserve(t.Context(), cs, demanding, "n"), fwk.Unschedulable, why)
	p.Unreserve(t.Context(), cs, demanding, "n")
	if n := p.Book.Snapshot().Node("n"); len(n.Entries) > 0 {
		t.Errorf("%v is held after the refusal", n.Entries)
	}
	fits(t, filter(t, p, cycle(t, p, noted(cpus("p", 16), apipod.PolicyAnnotation, "single-numa-node")), "n"))
}

func TestUnknownNodes(t *testing.T) {
	for args, want := range map[string]struct {
		code         fwk.Code
		none, broken string
	}{
		refuse: {fwk.UnschedulableAndUnresolvable, "node has no layout",
			`node layout is refused: layout of node "broken": machine: cpu 15 is in NUMA node 0 and in NUMA node 1`},
		"":                    {fwk.Success, "", ""},
		"unknownNodes: Allow": {fwk.Success, "", ""},
	} {
		p := newPlugin(t, args)
		l := layout(t, "broken", two, place.SingleNUMA, 1)
		l.Machine.CPUs[1].CPUs = []v1alpha1.IDList{"15-30"}
		p.Feed.Layout(l)
		p.Feed.Layout(layout(t, "known", two, place.SingleNUMA, 2))
		pod := cpus("p", 4)
		cs := cycle(t, p, pod)
		fits(t, filter(t, p, cs, "known"))
		says(t, filter(t, p, cs, "none"), want.code, want.none)
		says(t, filter(t, p, cs, "broken"), want.code, want.broken)
		says(t, p.Reserve(t.Context(), cs, pod, "broken"), want.code, want.broken)
	}
}
