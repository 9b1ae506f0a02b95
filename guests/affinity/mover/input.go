package mover

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/pin"
	"github.com/tenon-numa/tenon/core/place"
	core "github.com/tenon-numa/tenon/guests/affinity"
	"github.com/tenon-numa/tenon/guests/affinity/traffic"
	"github.com/tenon-numa/tenon/node/cgroup"
)

// nodePod is a pod of the node that has not ended.
type nodePod struct {
	pod        *v1.Pod
	core       core.Pod // the pod in the form of package affinity, without amounts
	containers []cgroup.Container
}

// nodePods returns the pods that have not ended and whose UID at the kubelet is known, at most core.MaxPods. Pods
// that opted in or have exclusive CPUs come first; both parts are ordered by namespace and name.
func (r *Runner) nodePods(pods []*v1.Pod, p Pinner) (out []nodePod) {
	n, uids := p.Node(), apipod.KubeletUIDs(pods)
	running := map[types.NamespacedName][]cgroup.Container{}
	for _, c := range cgroup.Running(pods) {
		name := types.NamespacedName{Namespace: c.Namespace, Name: c.Pod}
		running[name] = append(running[name], c)
	}
	for _, pod := range pods {
		if pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
			continue
		}
		k := nodePod{pod: pod, containers: running[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}]}
		if k.core.ID = uids[pod.UID]; k.core.ID == "" {
			continue
		}
		k.core.NUMA = core.Nowhere
		if at, ok := r.near[k.core.ID]; ok {
			if _, there := n.Machine().Position(at); there {
				k.core.NUMA = at
			}
		}
		k.readAnnotations(r.cfg.Namespaces)
		k.readHoldings(n)
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b nodePod) int {
		rank := func(k nodePod) int {
			if k.core.Measured || k.core.Group != "" || k.core.Exclusive {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.pod.Namespace, b.pod.Namespace),
			cmp.Compare(a.pod.Name, b.pod.Name), cmp.Compare(a.core.ID, b.core.ID))
	})
	return out[:min(len(out), core.MaxPods)]
}

// readAnnotations reads what the pod's annotations ask for. Without an annotation, the pod is measured if it is in
// one of namespaces.
func (k *nodePod) readAnnotations(namespaces []string) {
	switch k.pod.Annotations[v1alpha1.AffinityAnnotation] {
	case v1alpha1.AffinityMeasure:
		k.core.Measured = true
	case v1alpha1.AffinityNone:
	default:
		k.core.Measured = slices.Contains(namespaces, k.pod.Namespace) || slices.Contains(namespaces, "*")
	}
	k.core.Group = apipod.AffinityGroup(k.pod)
}

// readHoldings reads whether the pod has exclusive CPUs or memory, and on which NUMA node.
func (k *nodePod) readHoldings(n *pin.Node) {
	pinned, _ := n.Pod(k.core.ID)
	if at, exclusive := core.Held(n.Machine(), pinned.Holdings); exclusive {
		k.core.Exclusive, k.core.NUMA = true, at
	}
}

// toMeasure returns all pods in the form that the meter reads. The meter reads the sockets of pods that opted in, and
// of pods with exclusive CPUs in the node's network namespace. The other pods have addresses only, which identify
// them as the other end of a connection.
func (r *Runner) toMeasure(all []nodePod, namespaces map[string]string) (out []traffic.Pod) {
	for _, k := range all {
		p := traffic.Pod{ID: k.core.ID}
		if path, there := namespaces[k.core.ID]; there && k.core.Measured && !k.core.Exclusive {
			p.Namespace = path
			if path == "" {
				p.Namespace = r.cfg.HostNamespace
			}
		}
		readable := r.cfg.HostNamespace != "" && r.cfg.Usage != nil
		if k.pod.Spec.HostNetwork && (k.core.Measured || k.core.Exclusive) && readable {
			p.Namespace = r.cfg.HostNamespace
			for _, c := range k.containers {
				if id, err := r.cfg.Usage.ID(c); err == nil {
					p.Cgroups = append(p.Cgroups, id)
				}
			}
		}
		if !k.pod.Spec.HostNetwork {
			for _, ip := range k.pod.Status.PodIPs {
				if a, err := netip.ParseAddr(ip.IP); err == nil {
					p.IPs = append(p.IPs, a)
				}
			}
		}
		out = append(out, p)
	}
	return out
}

// load is what a pod uses, by the counters of its cgroups: used is its CPU time so far, and milli its use of CPU.
type load struct {
	at    time.Time
	used  time.Duration
	milli float64 // smoothed
	bytes int64
}

// smoothing is the weight of the earlier value in a smoothed one.
const smoothing = 0.75

// input returns the input of core.Decide, still without weights.
func (r *Runner) input(all []nodePod, n *pin.Node, now time.Time) (in core.Input) {
	loads := map[string]*load{}
	for _, k := range all {
		p := k.requests()
		if r.cfg.Usage != nil && (k.core.Measured || k.core.Group != "") && !k.core.Exclusive {
			if l := r.load(k, now); l != nil {
				loads[k.core.ID] = l
				p.MilliCPU, p.Bytes = max(p.MilliCPU, int64(l.milli)), max(p.Bytes, l.bytes)
			}
		}
		in.Pods = append(in.Pods, p)
	}
	r.loads = loads
	in.NUMAs = core.Room(n.Machine(), n.Rules(), n.Shared(), held(n))
	return in
}

// requests returns the pod with the amounts that it requests.
func (k nodePod) requests() core.Pod {
	out := k.core
	out.MilliCPU, out.Bytes = apipod.Shares(k.pod)
	return out
}

// load returns the memory that a pod uses, and its use of CPU since the last period, smoothed. The use of CPU is 0 if
// the last period did not measure the pod.
func (r *Runner) load(k nodePod, now time.Time) *load {
	out := &load{at: now}
	for _, c := range k.containers {
		m, err := r.cfg.Usage.Memory(c)
		if err != nil {
			continue
		}
		out.used += max(0, m.CPUTime)
		for _, a := range m.NUMAs {
			out.bytes += a.Anon
		}
	}
	out.bytes = min(out.bytes, core.MaxAmount)
	last := r.loads[k.core.ID]
	if last == nil || out.used < last.used || !now.After(last.at) {
		return out // the CPU time is known from the next period on
	}
	milli := min((out.used-last.used).Seconds()/now.Sub(last.at).Seconds()*1000, maxMilli)
	if out.milli = milli; last.milli > 0 {
		out.milli = smoothing*last.milli + (1-smoothing)*milli
	}
	return out
}

// maxMilli bounds what a pod is believed to use: more CPUs than Linux has.
const maxMilli = 1000 * idset.Max

// held yields the holdings of the node's pods.
func held(n *pin.Node) iter.Seq[place.Holding] {
	return func(yield func(place.Holding) bool) {
		for _, p := range n.Pods() {
			for _, h := range p.Holdings {
				if !yield(h) {
					return
				}
			}
		}
	}
}
