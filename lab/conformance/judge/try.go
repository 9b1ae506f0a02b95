package judge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/lab/kubelet"
)

// Outcome is what the kubelet of a node answers about a pod.
type Outcome struct {
	Admitted bool
	// Reason and Message are of the refusal.
	Reason, Message string
	// Span is the number of NUMA nodes that each container has something on, summed over the containers. Init containers
	// do not count, sidecars do. A container that requests exclusive CPUs and gets none is on every NUMA node with CPUs.
	Span int
	// Claims are the devices that the pod would get with the smallest span, and Apart is true if some of them are not on
	// the NUMA nodes of the CPUs and the memory of their container.
	Claims []Claimed
	Apart  bool
}

// Try asks the kubelet of a node about one more pod. The node does not change.
func (j Judge) Try(ctx context.Context, n *Node, p *v1.Pod) (Outcome, error) {
	p = asNew(p)
	wanted, err := WantedBy(p)
	if err != nil {
		return Outcome{}, err
	}
	n = n.without([]*v1.Pod{p})
	if reason := n.Excludes(p); reason != "" {
		return Outcome{Reason: "NotAllowed", Message: reason}, nil
	}
	var out Outcome
	err = j.restore(ctx, n, func(m *kubelet.Managers, pods *podList) error {
		pods.add(p)
		r := m.Admit(p)
		out = Outcome{Admitted: r.Admit, Reason: r.Reason, Message: r.Message}
		if !r.Admit {
			return nil
		}
		masks, ok := masksOf(m, n.Machine, p), false
		if out.Claims, ok = n.assign(p, wanted, masks); !ok {
			out = Outcome{Reason: "NoDevices", Message: "too few devices are free for the claims"}
			return nil
		}
		out.Span, out.Apart = total(masks, out.Claims), apart(masks, out.Claims)
		return nil
	})
	return out, err
}

// asNew returns a copy of the pod as if no node had it.
func asNew(p *v1.Pod) *v1.Pod {
	p = p.DeepCopy()
	p.Spec.NodeName = ""
	p.Status = v1.PodStatus{QOSClass: qos.ComputePodQOS(p)}
	return p
}

// Span returns the NUMA nodes that a pod of a node spans, and how many it would span at least with other devices for
// its claims; see [Outcome].
func (j Judge) Span(ctx context.Context, n *Node, p *v1.Pod) (span, least int, err error) {
	wanted, err := WantedBy(p)
	if err != nil {
		return 0, 0, err
	}
	err = j.restore(ctx, n, func(m *kubelet.Managers, _ *podList) error {
		masks := masksOf(m, n.Machine, p)
		span = total(masks, n.Claimed[p.UID])
		least = span
		if best, ok := n.assign(p, wanted, masks); ok {
			least = min(span, total(masks, best))
		}
		return nil
	})
	return span, least, err
}

// restore calls f with the managers of a node in its state, and with their list of pods.
func (j Judge) restore(ctx context.Context, n *Node, f func(*kubelet.Managers, *podList) error) (err error) {
	dir, err := os.MkdirTemp(j.Dir, "j")
	if err != nil {
		return fmt.Errorf("directory of managers: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	pods := &podList{pods: n.Pods}
	ctx = klog.NewContext(ctx, klog.Logger{})
	m, err := kubelet.Restore(ctx, dir, n.Machine, n.Config, n.States, pods.list)
	if err != nil {
		return fmt.Errorf("restore managers of node %s: %w", n.Object.Name, err)
	}
	return errors.Join(f(m, pods), m.Stop())
}

// podList are the active pods of a node, which goroutines of its managers read.
type podList struct {
	mu   sync.Mutex
	pods []*v1.Pod
}

func (l *podList) list() []*v1.Pod {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.pods)
}

func (l *podList) add(p *v1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pods = append(slices.Clone(l.pods), p)
}

// Excludes returns why the node does not take the pod apart from its managers: selectors, taints, or the amounts that
// all pods request together. "" means that it takes the pod.
func (n *Node) Excludes(p *v1.Pod) string {
	if n.Object.Spec.Unschedulable {
		return "the node is cordoned"
	}
	if _, found := Untolerated(n.Object.Spec.Taints, p.Spec.Tolerations); found {
		return "the node has a taint"
	}
	p = withoutClaimed(p)
	info := framework.NewNodeInfo(n.Pods...)
	info.SetNode(n.Object)
	for _, r := range scheduler.AdmissionCheck(p, info, false) {
		if r.InsufficientResource != nil {
			return "too little " + string(r.InsufficientResource.ResourceName)
		}
		return r.Reason
	}
	return ""
}

// keepsAway reports whether a taint keeps pods away.
func keepsAway(t *v1.Taint) bool { return t.Effect != v1.TaintEffectPreferNoSchedule }

// masksOf returns the NUMA nodes of each container by the records of managers; see [Outcome].
func masksOf(m *kubelet.Managers, machine *topo.Machine, p *v1.Pod) (out []mask) {
	guaranteed := qos.GetPodQOS(p) == v1.PodQOSGuaranteed
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		if isInit(p, c.Name) {
			continue
		}
		h := m.Holding(p.UID, c.Name)
		numas := machine.MaskOfCPUs(h.CPUs)
		for _, b := range h.Memory {
			numas |= b.NUMAs
		}
		for _, d := range h.Devices {
			numas |= d.NUMAs
		}
		cpus := c.Resources.Requests.Cpu()
		if guaranteed && !cpus.IsZero() && cpus.MilliValue()%1000 == 0 && h.CPUs.Empty() {
			numas |= machine.WithCPUs()
		}
		out = append(out, mask{c.Name, numas})
	}
	return out
}

// isInit reports whether a container is an init container that ends before the others start.
func isInit(p *v1.Pod, container string) bool {
	return slices.ContainsFunc(p.Spec.InitContainers, func(c v1.Container) bool {
		return c.Name == container && (c.RestartPolicy == nil || *c.RestartPolicy != v1.ContainerRestartPolicyAlways)
	})
}
