package sched

import (
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/api/config"
	"github.com/tenon-numa/tenon/cluster/report"
)

// This file words the event of an attempt that failed. kube-scheduler lists reasons in the order of their texts, cuts the
// list at 1024 bytes, and has one plugin's reasons of each node: a shortage that passes hides what can never be. Here
// what can never be comes first, then what most nodes say, and the list ends with a whole reason.

const (
	// maxShort bounds the nodes refused for plain amounts that are asked for more.
	maxShort    = 64
	amountsName = "NodeResourcesFit"
)

// word sets the message of an attempt. The results of nodes stay as they are.
func (p *Plugin) word(pod *v1.Pod, why *framework.FitError) {
	d := &why.Diagnosis
	if p.name == config.Match || d.PreFilterMsg != "" || d.NodeToStatus == nil {
		return
	}
	counts, asked := map[string]int{}, 0
	d.NodeToStatus.ForEachExplicitNode(func(node string, status *fwk.Status) {
		for _, reason := range status.Reasons() {
			counts[reason]++
		}
		if status.Plugin() == amountsName && asked < maxShort {
			asked++
			for _, reason := range p.nevers(string(pod.UID), node) {
				counts[reason]++
			}
		}
	})
	if absent := why.NumAllNodes - d.NodeToStatus.Len(); absent > 0 {
		for _, reason := range d.NodeToStatus.AbsentNodesStatus().Reasons() {
			counts[reason] += absent
		}
	}
	d.PreFilterMsg = report.NoNode(counts)
}

// nevers returns why a node would not take the pod of the last attempt without any pod.
func (p *Plugin) nevers(uid, node string) (out []string) {
	c := p.last.Load()
	if c == nil || c.state.uid != uid {
		return nil
	}
	n := c.state.snap.Node(node)
	if n == nil {
		return nil
	}
	for _, r := range n.Never(c.state.pod) {
		out = append(out, p.text(c.state.pod, r))
	}
	return out
}
