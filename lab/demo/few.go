package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/api/document"
	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/core/sim"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/lab/workload"
)

// playFew plays the acts about few pods. It creates every pod when the previous one has settled, so that every run
// gives the same result.
func (d *demo) playFew(ctx context.Context, found *Found) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, actTimeout, fmt.Errorf("not settled after %s", actTimeout))
	defer cancel()
	if err := d.cordon(ctx, true); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.cordon(ctx, false)) }()
	var fates [][]document.DemoFate // by the schedulers
	for _, s := range schedulers() {
		last := s.name == sim.Tenon
		if !d.plays(Story) && !last {
			continue
		}
		d.Progress("three pods, one after the other, under " + s.name)
		err := d.withScheduler(s.profiles, nil, func() error {
			these, node, err := d.playStory(ctx, s.name)
			if err != nil {
				return err
			}
			fates = append(fates, these)
			if s.name == sim.KubeLeast {
				found.Died = node
			}
			if last {
				return d.afterStory(ctx, found, node)
			}
			return nil
		})
		if err = errors.Join(err, d.clearPods(ctx)); err != nil {
			return fmt.Errorf("single pods under %s: %w", s.name, err)
		}
	}
	if d.plays(Story) {
		found.Story = pods(fates)
	}
	return nil
}

// afterStory plays the act about a pod that waits, on the nodes as they are after the story under Tenon. node is the
// one on which the first pod of the story runs.
func (d *demo) afterStory(ctx context.Context, found *Found, node *state.Node) (err error) {
	if d.plays(Story) {
		found.Ran = node
	}
	if d.plays(Waiting) {
		d.Progress("one more pod, which has to wait")
		found.Waiting, err = d.playWaiting(ctx)
	}
	return err
}

// cordon cordons the nodes that the acts about few pods do not use, or uncordons them if closed is false.
func (d *demo) cordon(ctx context.Context, closed bool) error {
	patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, closed)
	for _, name := range spare() {
		_, err := d.client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			return fmt.Errorf("cordon node %s: %w", name, err)
		}
	}
	return nil
}

// pods returns the pods of the story with their fates, which are given by schedulers.
func pods(fates [][]document.DemoFate) *document.DemoStory {
	out := &document.DemoStory{}
	for i, p := range arrivals() {
		pod := document.DemoPod{Name: p.Name, Wants: requests(p)}
		for _, these := range fates {
			pod.Fates = append(pod.Fates, these[i])
		}
		out.Pods = append(out.Pods, pod)
	}
	return out
}

// playStory creates the residents and then the pods of the story, under the scheduler of a name. It returns the fates
// of the story's pods, and the state of the node on which the first of these ran or failed.
func (d *demo) playStory(ctx context.Context, scheduler string) (fates []document.DemoFate, node *state.Node,
	err error) {
	for _, p := range residents() {
		fate, err := d.runPod(ctx, p)
		if err != nil {
			return nil, nil, err
		}
		if !fate.Running {
			return nil, nil, fmt.Errorf("pod %s does not run on %s: %s: %s", p.Name, fate.Node, fate.Reason, fate.Message)
		}
	}
	for _, p := range arrivals() {
		fate, err := d.runPod(ctx, p)
		if err != nil {
			return nil, nil, err
		}
		fate.Scheduler = scheduler
		fates = append(fates, fate)
	}
	nodes, err := d.awaitReports(ctx)
	if err != nil {
		return nil, nil, err
	}
	at := slices.IndexFunc(nodes, func(n *state.Node) bool { return n.Name == fates[0].Node })
	if at < 0 {
		return nil, nil, fmt.Errorf("pod %s got no node: %s", arrivals()[0].Name, fates[0].Message)
	}
	return fates, nodes[at], nil
}

// runPod creates a pod, and creates it again while kubelets refuse it and it has tries left. It returns the pod's
// fate; if the pod runs, it first waits until the pod's node has reported it.
func (d *demo) runPod(ctx context.Context, p *v1.Pod) (out document.DemoFate, err error) {
	if err := workload.Create(ctx, d.client, p); err != nil {
		return out, err
	}
	for name := p.Name; ; {
		now, err := d.awaitSettled(ctx, name)
		if err != nil {
			return out, err
		}
		fate, why := workload.FateOf(now)
		switch fate {
		case workload.Running:
			out.Node, out.Running = now.Spec.NodeName, true
			out.Holds, err = d.awaitHoldings(ctx, now)
			return out, err
		case workload.Pending:
			out.Message = why
			return out, nil
		}
		out.Node, out.Reason, out.Message = now.Spec.NodeName, now.Status.Reason, now.Status.Message
		out.Refusals++
		more, err := d.retry(ctx, now)
		if err != nil || !more {
			return out, err
		}
		name, _ = retryName(name)
	}
}

// awaitSettled waits until a pod runs, was refused, or cannot be placed according to its scheduler, and returns the
// pod.
func (d *demo) awaitSettled(ctx context.Context, name string) (found *v1.Pod, err error) {
	_, err = d.pods.Until(ctx, func(pods []*v1.Pod) bool {
		at := slices.IndexFunc(pods, func(p *v1.Pod) bool { return p.Name == name })
		if at < 0 {
			return false
		}
		found = pods[at]
		fate, _ := workload.FateOf(found)
		return fate != workload.Waiting
	})
	if err != nil {
		return nil, fmt.Errorf("pod %s: %w", name, err)
	}
	return found, nil
}

// awaitHoldings waits until the node of a pod has reported it, and returns its holdings as text.
func (d *demo) awaitHoldings(ctx context.Context, p *v1.Pod) (text string, err error) {
	_, err = d.await(ctx, func(nodes []*state.Node) string {
		for _, n := range nodes {
			if e, ok := n.Entry(string(p.UID)); ok && e.Source == state.Observed {
				text = document.Text(n.Machine, e.Holdings)
				return ""
			}
		}
		return "pod " + p.Name + " is not reported"
	})
	return text, err
}

// playWaiting creates a pod that no node accepts, explains why, deletes another pod that is in its way, and waits
// until the new pod runs. It returns these steps.
func (d *demo) playWaiting(ctx context.Context) (*document.DemoWaiting, error) {
	p := latecomer()
	fate, err := d.runPod(ctx, p)
	if err != nil {
		return nil, err
	}
	if fate.Node != "" {
		return nil, fmt.Errorf("pod %s does not wait: it went to node %s", p.Name, fate.Node)
	}
	out := &document.DemoWaiting{Pod: p.Name}
	if out.Why, err = d.Explain(ctx, d.cluster.KubeconfigPath, p.Name); err != nil {
		return nil, err
	}
	if out.Ends, out.Node, err = d.remedy(ctx, p, out.Why); err != nil {
		return nil, err
	}
	began := time.Now()
	if err := d.client.CoreV1().Pods(p.Namespace).Delete(ctx, out.Ends, metav1.DeleteOptions{}); err != nil {
		return nil, fmt.Errorf("end pod %s: %w", out.Ends, err)
	}
	_, err = d.pods.Until(ctx, func(pods []*v1.Pod) bool {
		return slices.ContainsFunc(pods, func(x *v1.Pod) bool { return x.Name == p.Name && x.Status.Phase == v1.PodRunning })
	})
	if err != nil {
		return nil, fmt.Errorf("pod %s after the end of %s: %w", p.Name, out.Ends, err)
	}
	out.Seconds = time.Since(began).Seconds()
	if _, err := d.awaitReports(ctx); err != nil {
		return nil, err
	}
	out.After, err = d.Explain(ctx, d.cluster.KubeconfigPath, p.Name)
	return out, err
}

// remedy returns a resident with GPUs whose end makes room for a pod, and the resident's node. If there are several,
// it takes one that the explanation names, then the one that holds the fewest GPUs, and among equal ones the first.
func (d *demo) remedy(ctx context.Context, p *v1.Pod, why string) (name, node string, err error) {
	want, err := apipod.ToPlace(p)
	if err != nil {
		return "", "", err
	}
	demand, err := apipod.Demand(p)
	if err != nil {
		return "", "", err
	}
	nodes, err := d.awaitReports(ctx)
	if err != nil {
		return "", "", err
	}
	fewest, named := 0, false
	for _, r := range residents() {
		for _, n := range nodes {
			at := slices.IndexFunc(n.Entries, func(e state.Entry) bool { return e.Pod.Name == r.Name })
			if at < 0 {
				continue
			}
			rest := n.Without(n.Entries[at].Pod.UID)
			held := len(rest.Usage.FreeDevices(gpu)) - len(n.Usage.FreeDevices(gpu))
			if held == 0 || !rest.Place(want, demand).Fits() {
				continue
			}
			is := strings.Contains(why, r.Name)
			if name == "" || is && !named || is == named && held < fewest {
				name, node, fewest, named = r.Name, n.Name, held, is
			}
		}
	}
	if name == "" {
		return "", "", fmt.Errorf("no pod whose end makes room for %s", p.Name)
	}
	return name, node, nil
}

// requests returns a pod's requests as text.
func requests(p *v1.Pod) string {
	var out []string
	for i := range p.Spec.Containers {
		r := p.Spec.Containers[i].Resources.Requests
		for _, name := range []v1.ResourceName{gpu, functions, v1.ResourceCPU, v1.ResourceMemory, "hugepages-1Gi"} {
			if q, ok := r[name]; ok {
				_, short, found := strings.Cut(string(name), "/")
				if !found {
					short, _, _ = strings.Cut(string(name), "-") // without the size of huge pages
				}
				out = append(out, q.String()+" "+short)
			}
		}
	}
	return strings.Join(out, " · ")
}
