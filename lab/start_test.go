package lab_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/lab"
)

// An agent that starts after CPUs went offline and hugepages came publishes the machine of the kubelet's start, which
// it reads from the layout of the agent before it, until that kubelet is restarted.
func TestAnAgentStartsAfterTheMachineChanged(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	c, err := lab.Start(ctx, lab.Config{Apart: true, Nodes: []lab.Node{{Name: "a", Machine: "xeon-2s"}},
		Progress: func(line string) { t.Log(line) }})
	if err != nil {
		t.Fatal(err)
	}
	defer stopped(t, c)
	differs := func(l *v1alpha1.NodeLayout) bool {
		return slices.ContainsFunc(l.Inexact, func(i v1alpha1.Inexact) bool { return i.Code == "machine-changed" })
	}
	do := func(fault error) {
		t.Helper()
		if fault != nil {
			t.Fatal(fault)
		}
	}
	// The first layout may be written before the kubelet has reported its capacity.
	before := reported(ctx, t, c, func(l *v1alpha1.NodeLayout) bool { return !differs(l) })
	do(c.StopAgent(ctx, "a"))
	do(c.ChangeMachine(ctx, "a", idset.Of[idset.CPU](6, 7), 8))
	do(c.StartAgent(ctx, "a"))
	after := reported(ctx, t, c, func(l *v1alpha1.NodeLayout) bool { return l.Agent.ID != before.Agent.ID })
	if after.Summary.CPUs != before.Summary.CPUs || !differs(after) ||
		!slices.EqualFunc(after.Machine.NUMAs, before.Machine.NUMAs, func(x, y v1alpha1.NUMA) bool {
			return slices.Equal(x.Hugepages, y.Hugepages)
		}) {
		t.Errorf("the agent that started later has %d CPUs, NUMA nodes %+v and the reasons %+v",
			after.Summary.CPUs, after.Machine.NUMAs, after.Inexact)
	}
	if !after.Kubelet.Started.Equal(&before.Kubelet.Started) || before.Kubelet.Started.IsZero() {
		t.Errorf("the kubelet started at %s, and then at %s", before.Kubelet.Started, after.Kubelet.Started)
	}
	do(c.RestartKubelet(ctx, "a", ""))
	reported(ctx, t, c, func(l *v1alpha1.NodeLayout) bool {
		return before.Kubelet.Started.Before(&l.Kubelet.Started) && !differs(l)
	})
}
