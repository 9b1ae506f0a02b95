package sched

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/core/place"
)

// An event ends with what helps: whom to wait for, by name only in the pod's own namespace, or what to change.
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
		why := &framework.FitError{Pod: c.pod, NumAllNodes: 1, Diagnosis: framework.Diagnosis{
			NodeToStatus: framework.NewDefaultNodeToStatus()}}
		why.Diagnosis.NodeToStatus.Set("n", status)
		p.word(c.pod, why)
		if got := why.Error(); !strings.HasSuffix(got, ". "+c.want+".") {
			t.Errorf("pod %s: %s\nwant at the end: %s", c.pod.Name, got, c.want)
		}
	}
}
