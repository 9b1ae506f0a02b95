package plugin

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// An event ends with what helps: the pods to wait for, by name only in the pod's own namespace, or what to change.
func TestEventsEndWithARemedy(t *testing.T) {
	p := newPlugin(t, "")
	other := cpus("theirs", 10)
	other.Namespace = "secret"
	mine, last := cpus("mine", 10), cpus("last", 10)
	p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 1, holding(mine, "0-9"), holding(other, "16-25")))
	for _, bound := range []*v1.Pod{mine, other} {
		p.Feed.Pod(bind(bound, "n"))
	}
	for _, c := range []struct {
		pod  *v1.Pod
		want string
	}{
		{last, "On node n it fits when one of these pods ends: mine, and 1 more"},
		{cpus("wide", 20), "Remedy: ask for at most 16 cpu, or use a node whose policy allows more NUMA nodes"},
	} {
		status := filter(t, p, cycle(t, p, c.pod), "n")
		status.SetPlugin(p.name)
		p.says(t, c.pod, status, c.want)
	}
	// kube-scheduler keeps one plugin's refusal of a node: that of plain amounts takes precedence over this plugin's.
	cycle(t, p, cpus("huge", 40))
	short := fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "Insufficient cpu")
	short.SetPlugin(amountsName)
	p.says(t, cpus("huge", 40), short, "Remedy: ask for less, or use a larger machine")
}

// says fails if the event of a pod that node n refuses does not end with an advice.
func (p *Plugin) says(t *testing.T, pod *v1.Pod, status *fwk.Status, want string) {
	t.Helper()
	why := &framework.FitError{Pod: pod, NumAllNodes: 1, Diagnosis: framework.Diagnosis{
		NodeToStatus: framework.NewDefaultNodeToStatus()}}
	why.Diagnosis.NodeToStatus.Set("n", status)
	p.setMessage(pod, why)
	if got := why.Error(); !strings.HasSuffix(got, ". "+want+".") {
		t.Errorf("pod %s: %s\nwant at the end: %s", pod.Name, got, want)
	}
}
