//go:build !upto1.36

package plugin

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/wake"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// paired returns a pod that has to be on the NUMA node of its partners.
func paired(name string, priority int) *v1.Pod {
	return important(noted(cpus(name, 4), apipod.TogetherAnnotation, "pair"), priority)
}

// A pod goes where a partner is nominated, as the partner could not go there any more once the pod is elsewhere. A
// nominated pod of lower priority keeps no pod from other nodes, and of two nominated pods the older one decides.
func TestPodsGoWhereTheirPartnersAreNominated(t *testing.T) {
	const at = "node-00002"
	old, late := metav1.Unix(1, 0), metav1.Unix(2, 0)
	for name, c := range map[string]struct {
		change func(nominated, pod *v1.Pod)
		want   string
	}{
		"equal priority":           {func(_, _ *v1.Pod) {}, at},
		"higher priority":          {func(n, _ *v1.Pod) { n.Spec.Priority = new(int32(7)) }, at},
		"lower priority":           {func(_, p *v1.Pod) { p.Spec.Priority = new(int32(7)) }, ""},
		"no partner":               {func(n, _ *v1.Pod) { n.Annotations = nil }, ""},
		"another namespace":        {func(n, _ *v1.Pod) { n.Namespace = "other" }, ""},
		"the pod itself":           {func(n, p *v1.Pod) { n.UID = p.UID }, ""},
		"an older nominated pod":   {func(n, p *v1.Pod) { nominate(p, n, old, late) }, at},
		"a younger nominated pod":  {func(n, p *v1.Pod) { nominate(p, n, late, old) }, ""},
		"a younger, not nominated": {func(n, p *v1.Pod) { n.CreationTimestamp, p.CreationTimestamp = late, old }, at},
	} {
		t.Run(name, func(t *testing.T) {
			nominated, pod := paired("nominated", 3), paired("pod", 3)
			c.change(nominated, pod)
			p := newPlugin(t, refuse)
			p.handle = nominating{pods: map[string]fwk.PodInfo{at: podInfo(t, nominated)}}
			cs := framework.NewCycleState()
			_, status := p.PreFilter(t.Context(), cs, pod, []fwk.NodeInfo{nodeInfo("m"), nodeInfo(at), nodeInfo("n")})
			fits(t, status)
			if s, _ := read(cs); s.together != c.want {
				t.Errorf("the pod has to go to %q, want %q", s.together, c.want)
			}
		})
	}
}

// nominating is a handle that has the pods which are nominated to nodes, and nothing else.
type nominating struct {
	fwk.Handle
	pods map[string]fwk.PodInfo
}

func (n nominating) NominatedPodsForNode(node string) []fwk.PodInfo {
	if p := n.pods[node]; p != nil {
		return []fwk.PodInfo{p}
	}
	return nil
}

// nominate makes a pod nominated too, and sets when it and the other one were created.
func nominate(p, other *v1.Pod, others, own metav1.Time) {
	p.Status.NominatedNodeName = "node-00005"
	other.CreationTimestamp, p.CreationTimestamp = others, own
}

// A pod that waits for its partner's node is tried again on other nodes when the partner's nomination ends, and when
// its booking ends before it asked for its turn. The end of a booking on trial is no news.
func TestPartnersAreTriedAgain(t *testing.T) {
	reserve := func(p *Plugin, cs fwk.CycleState, partner *v1.Pod) {
		if _, status := p.PreFilter(t.Context(), cs, partner, nil); !status.IsSuccess() {
			t.Fatal(status)
		}
		fits(t, p.Reserve(t.Context(), cs, partner, "m"))
	}
	updated := func(p *Plugin, partner *v1.Pod) {
		was := partner.DeepCopy()
		was.Status.NominatedNodeName = "m"
		p.waiting.Events().OnUpdate(was, partner)
	}
	for name, c := range map[string]struct {
		onTrial, reserved bool
		end               func(p *Plugin, partner *v1.Pod)
		want              bool
	}{
		"unreserved":            {reserved: true, want: true},
		"unreserved on trial":   {reserved: true, onTrial: true},
		"no longer nominated":   {end: updated, want: true},
		"bound where nominated": {end: func(p *Plugin, partner *v1.Pod) { updated(p, bind(partner, "m")) }},
		"nominated and deleted": {end: func(p *Plugin, partner *v1.Pod) {
			partner.Status.NominatedNodeName = "m"
			p.waiting.Events().OnDelete(partner)
		}, want: true},
		"deleted": {end: func(p *Plugin, partner *v1.Pod) { p.waiting.Events().OnDelete(partner) }},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlugin(t, refuse)
			l := newLoop(t, p)
			p.Book.OnParting(p.waiting.Parted)
			for _, node := range []string{"m", "n"} {
				p.Feed.Layout(layout(t, node, two, place.SingleNUMA, 1))
			}
			partner, pod, cs := paired("partner", 0), paired("pod", 0), framework.NewCycleState()
			if c.onTrial {
				cs.SetPodGroupSchedulingCycle(framework.NewCycleState())
			}
			if c.reserved {
				reserve(p, cs, partner)
			}
			s, status := translate(pod)
			fits(t, status)
			p.waiting.Begin(waiter{p}, pod, s.ask())
			p.waiting.Failed(waiter{p}, pod, p.waiting.Attempt(s.uid), &wake.Nodes{Names: map[string]bool{"m": true}})
			if c.reserved {
				p.Unreserve(t.Context(), cs, partner, "m")
			} else {
				c.end(p, partner)
			}
			for _, do := range l.due {
				do()
			}
			woken := false
			for list, more := p.waiting.Next(); more; list, more = p.waiting.Next() {
				woken = woken || len(list) > 0
			}
			if woken != c.want {
				t.Errorf("the pod is tried again: %v, want %v", woken, c.want)
			}
		})
	}
}

// A reservation on trial is made for every pod of a group in every attempt. It is logged only at a high verbosity.
func TestReservationsOnTrialAreLoggedOnlyAtAHighVerbosity(t *testing.T) {
	for verbosity, want := range map[int]int{2: 1, 4: 2} {
		p := newPlugin(t, refuse)
		logger, text := logged(t, verbosity)
		p.logger = logger
		p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 1))
		pod, cs := cpus("p", 4), framework.NewCycleState()
		cs.SetPodGroupSchedulingCycle(framework.NewCycleState())
		if _, status := p.PreFilter(t.Context(), cs, pod, nil); !status.IsSuccess() {
			t.Fatal(status)
		}
		fits(t, p.Reserve(t.Context(), cs, pod, "n"))
		p.Unreserve(t.Context(), cs, pod, "n")
		cs.SetPodGroupSchedulingCycle(nil)
		fits(t, p.Reserve(t.Context(), cs, pod, "n"))
		p.Unreserve(t.Context(), cs, pod, "n")
		for _, line := range []string{"Reserved pod=", "Released pod="} {
			if n := strings.Count(text(), line); n != want {
				t.Errorf("verbosity %d: %d lines have %q, want %d:\n%s", verbosity, n, line, want, text())
			}
		}
	}
}
