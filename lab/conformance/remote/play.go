package remote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/lab/conformance"
	"github.com/tenon-numa/tenon/lab/conformance/judge"
)

// played is the cluster while a case is played.
type played struct {
	*cluster
	nodes   []string                 // of the case
	created map[string]time.Time     // by pod
	bound   map[string]time.Duration // from creation to binding, by pod
	unseen  map[string]bool          // created pods that the watch has not delivered
}

// Do implements conformance.Cluster.
func (p *played) Do(ctx context.Context, a conformance.Action) error {
	for _, pod := range a.Create {
		pod = pod.DeepCopy()
		if pod.Spec.NodeName == "" {
			p.created[pod.Name] = time.Now()
		}
		if err := p.create(ctx, pod, p.nodes...); err != nil {
			return err
		}
		p.unseen[pod.Name] = true
	}
	for _, name := range a.End {
		err := p.client.CoreV1().Pods(p.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) { // somebody may have evicted it
			return fmt.Errorf("delete pod %s: %w", name, err)
		}
	}
	return nil
}

// Settled implements conformance.Cluster. A pod that waits has waited for four times Settle.
func (p *played) Settled(ctx context.Context) (out conformance.State, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, restTimeout+8*p.Settle+4*p.Pause,
		errors.New("the cluster does not come to rest"))
	defer cancel()
	out.Pods, err = p.pods.Quiet(ctx, p.look)
	if err != nil {
		return out, err
	}
	out.BindTimes = p.bound
	for _, name := range p.nodes {
		n, err := p.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return out, fmt.Errorf("get node %s: %w", name, err)
		}
		out.Nodes = append(out.Nodes, &judge.Node{Object: n})
	}
	return out, nil
}

// look returns what counts as a change if it differs, and how long nothing must change. It records when pods were
// bound.
func (p *played) look(pods []*v1.Pod) (string, time.Duration) {
	var b strings.Builder
	quiet := p.Pause
	busy := false
	for _, pod := range pods {
		delete(p.unseen, pod.Name)
		began, ours := p.created[pod.Name]
		if _, known := p.bound[pod.Name]; pod.Spec.NodeName != "" && ours && !known {
			p.bound[pod.Name] = time.Since(began)
		}
		if pod.Spec.NodeName == "" {
			quiet = max(p.Pause, 4*p.Settle)
		}
		busy = busy || pod.DeletionTimestamp != nil || pod.Spec.NodeName != "" && pod.Status.Phase == v1.PodPending
		fmt.Fprintf(&b, "%s %s %s %t; ", pod.Name, pod.Spec.NodeName, pod.Status.Phase, pod.DeletionTimestamp != nil)
	}
	if len(p.unseen) > 0 { // the watch delivers a created pod soon, unless somebody has deleted it before
		quiet = max(p.Pause, 4*p.Settle)
	}
	if busy {
		quiet = -1
	}
	return b.String(), quiet
}

// Findings implements conformance.Judge. It asks the kubelets about pods that wait.
func (p *played) Findings(ctx context.Context, s *judge.Scene) (out []judge.Finding, err error) {
	type answer struct {
		pod  *v1.Pod
		text string
	}
	var known []answer // about equal pods
	for _, one := range s.Pods {
		if err := failed(one); err != nil {
			return nil, err
		}
		if one.Foreign {
			continue
		}
		f := judge.Finding{Pod: one.Name, Node: one.Spec.NodeName}
		switch one.Fate {
		case judge.Refused:
			f.Kind = judge.AvoidableRefusal
			f.Text = fmt.Sprintf("kubelet of %s: %s: %s", one.Spec.NodeName, one.Status.Reason, one.Status.Message)
		case judge.Evicted:
			f.Kind, f.Text = judge.PointlessEviction, "deleted by somebody, though no pod has a higher priority"
		case judge.Waits:
			f.Kind = judge.AvoidableWait
			i := slices.IndexFunc(known, func(a answer) bool { return equal(a.pod, one.Pod) })
			if i < 0 {
				text, err := p.ask(ctx, one.Pod)
				if err != nil {
					return nil, err
				}
				i, known = len(known), append(known, answer{one.Pod, text})
			}
			f.Text = known[i].text
		}
		if f.Text != "" {
			out = append(out, f)
		}
	}
	if p.Judged != nil {
		return out, p.Judged(ctx, s, out)
	}
	return out, nil
}

// failed returns an error if a pod failed for another reason than a decision of the scheduler.
func failed(p judge.Pod) error {
	if p.Fate != judge.Refused {
		return nil
	}
	said := fmt.Sprintf("%s: %s", p.Status.Reason, p.Status.Message)
	switch {
	case len(p.Status.ContainerStatuses) > 0 || p.Status.Reason == "Evicted":
		return fmt.Errorf("pod %s failed on node %s after its admission (%s)", p.Name, p.Spec.NodeName, said)
	case p.Foreign:
		return fmt.Errorf("node %s has less room than was measured: its kubelet refused pod %s (%s)", p.Spec.NodeName,
			p.Name, said)
	}
	return nil
}

// equal reports whether two pods request the same.
func equal(a, b *v1.Pod) bool {
	return slices.EqualFunc(a.Spec.Containers, b.Spec.Containers, func(c, d v1.Container) bool {
		return c.Resources.Limits.Cpu().Equal(*d.Resources.Limits.Cpu())
	})
}
