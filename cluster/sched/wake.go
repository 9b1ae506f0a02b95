package sched

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
)

// wake has pods tried again that wait and fit a node now. Queueing hints tell of events; what the book
// learns otherwise, as how a pod ended that was read late, comes after them, and often no event follows:
// a pod that its kubelet refused never held anything that a report would show to be given back.
func (s *Shared) wake(node string) {
	for _, p := range s.plugins {
		if p.handle != nil {
			p.wake(node)
		}
	}
}

// pardon lets shapes that a node has refused try again.
func (s *Shared) pardon(node string) {
	s.Book.Pardon(node)
	s.wake(node)
}

func (p *Plugin) wake(node string) {
	pods, err := p.handle.SharedInformerFactory().Core().V1().Pods().Lister().List(labels.Everything())
	if err != nil {
		return // of what is in memory there is always a list
	}
	fit := map[string]*v1.Pod{}
	for _, pod := range pods {
		if pod.Spec.NodeName != "" || pod.Spec.SchedulerName != p.handle.ProfileName() || pod.DeletionTimestamp != nil {
			continue
		}
		if p.hint(pod, node) == fwk.Queue {
			fit[pod.Namespace+"/"+pod.Name] = pod
		}
	}
	if len(fit) > 0 {
		p.logger.V(logData).Info("Pods are tried again", "node", node, "pods", len(fit))
		p.handle.Activate(p.logger, fit)
	}
}
