package plugin

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// Bind binds a pod to a node whose agent assigns CPUs itself, and passes the decision on with the binding: the API
// server copies the annotations of a Binding to the pod. Bind skips all other pods, so that the next plugin binds
// them. If another plugin binds the pod first, the agent receives no decision and chooses the CPUs itself.
func (p *Plugin) Bind(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	s, ok := p.state(cs)
	if !ok {
		return fwk.NewStatus(fwk.Skip)
	}
	n := p.Book.Snapshot().Node(node)
	if n == nil || n.Rules.Arbiter != place.ByAgent {
		return fwk.NewStatus(fwk.Skip)
	}
	decided := p.Book.Decision(string(pod.UID))
	if len(decided) == 0 {
		return fwk.NewStatus(fwk.Skip)
	}
	text, err := v1alpha1.DecisionText(n.Machine, s.uid, node, decided)
	if err != nil {
		return fwk.AsStatus(err)
	}
	b := &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
			Annotations: map[string]string{v1alpha1.DecisionAnnotation: text}},
		Target: v1.ObjectReference{Kind: "Node", Name: node},
	}
	if err := p.bind(ctx, b); err != nil {
		return fwk.AsStatus(fmt.Errorf("bind pod %s/%s to node %s: %w", pod.Namespace, pod.Name, node, err))
	}
	return nil
}

// bind sends a binding in the way of kube-scheduler's own plugin: through the queue of API calls if the handle has
// one, so that calls for one pod keep their order.
func (p *Plugin) bind(ctx context.Context, b *v1.Binding) error {
	cacher := p.handle.APICacher()
	if cacher == nil {
		return p.handle.ClientSet().CoreV1().Pods(b.Namespace).Bind(ctx, b, metav1.CreateOptions{})
	}
	finished, err := cacher.BindPod(b)
	if err != nil {
		return err
	}
	return cacher.WaitOnFinish(ctx, finished)
}
