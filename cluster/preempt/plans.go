package preempt

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	frameworkpreemption "k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"github.com/tenon-numa/tenon/api/document"
)

// plan is who has to go from a node, and why there.
type plan struct {
	node    string
	pod     string // the preemptor, "namespace/name"
	aim     string // the NUMA nodes that it will use: "NUMA node 0"
	victims []victim
}

// victim is a pod of a plan.
type victim struct {
	uid        types.UID
	name, held string // "namespace/name"; what it holds: "8 cpu on NUMA node 0"
}

// maxNamed bounds the victims that an event names.
const maxNamed = 5

// text says who is evicted, and for what.
func (p plan) text() string {
	var names []string
	for _, v := range p.victims[:min(maxNamed, len(p.victims))] {
		names = append(names, v.name+" ("+v.held+")")
	}
	out := strings.Join(names, ", ")
	if more := len(p.victims) - maxNamed; more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	return out + " from node " + p.node + p.to()
}

func (p plan) to() string {
	if p.aim == "" {
		return ""
	}
	return ", to be aligned on " + p.aim
}

// note says to a victim why it has to go.
func (p plan) note(v victim) string {
	return fmt.Sprintf("evicted from node %s for pod %s%s; it held %s", p.node, p.pod, p.to(), v.held)
}

// plan says who has to go, which amounts of which NUMA nodes each holds, and where the pod will be.
func (t *trial) plan(pods []*v1.Pod) plan {
	out := plan{node: t.info.Node().Name, pod: t.pod.Namespace + "/" + t.pod.Name}
	uids := make([]string, 0, len(pods)+len(t.leaving))
	for _, p := range t.leaving {
		uids = append(uids, string(p.GetPod().UID))
	}
	for _, p := range pods {
		uids = append(uids, string(p.UID))
		e, _ := t.node.Entry(string(p.UID))
		held := cmp.Or(document.Amounts(t.node.Machine, e.Holdings), "nothing of its NUMA nodes")
		if t.node.Unplaced(string(p.UID)) {
			held = "a part of what is held there"
		}
		out.victims = append(out.victims, victim{p.UID, p.Namespace + "/" + p.Name, held})
	}
	m := t.node.Machine
	if on := t.node.Without(uids...).Place(t.Pod, t.Demand).NUMAs(m); on != 0 {
		out.aim = document.NUMANodes(document.NUMAs(m, on))
	}
	return out
}

// maxNotes bounds the pods of which plans and waits are remembered: those that are tried last.
const maxNotes = 1024

// plans remember what was planned for a pod in its last attempt: evictions go on after it.
type plans struct {
	mu    sync.Mutex
	pods  map[string]*attempted
	order []string
}

type attempted struct {
	nodes  map[string]plan
	doubts []string // nodes that were passed over, since it is not known what they hold
}

// begin forgets what was planned for a pod before.
func (p *plans) begin(uid string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pods == nil {
		p.pods = map[string]*attempted{}
	}
	if _, known := p.pods[uid]; !known {
		if p.order = append(p.order, uid); len(p.order) > maxNotes {
			delete(p.pods, p.order[0])
			p.order = p.order[1:]
		}
	}
	p.pods[uid] = &attempted{nodes: map[string]plan{}}
}

func (p *plans) put(uid string, x plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a := p.pods[uid]; a != nil {
		a.nodes[x.node] = x
	}
}

func (p *plans) doubt(uid, node string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a := p.pods[uid]; a != nil {
		a.doubts = append(a.doubts, node)
	}
}

func (p *plans) of(uid, node string) (plan, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a := p.pods[uid]; a != nil {
		x, ok := a.nodes[node]
		return x, ok
	}
	return plan{}, false
}

// doubted returns the nodes that were passed over.
func (p *plans) doubted(uid string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a := p.pods[uid]; a != nil {
		return slices.Clone(a.doubts)
	}
	return nil
}

// evictor is what evicts one pod: frameworkpreemption.Executor.PreemptPod.
type evictor = func(context.Context, frameworkpreemption.Candidate, frameworkpreemption.ExecutorPreemptor, *v1.Pod,
	string) error

// explained wraps an evictor to record an event on each victim that names the preemptor and says why this pod was
// chosen. kube-scheduler's own event has the preemptor's UID only.
func (pre *Preemption) explained(evict evictor) evictor {
	return func(ctx context.Context, c frameworkpreemption.Candidate, by frameworkpreemption.ExecutorPreemptor,
		pod *v1.Pod, plugin string) error {
		// The next attempt of the preemptor may begin, and plan anew, as soon as the victim is gone.
		p, ok := pre.plans.of(string(by.UID()), c.Name())
		if err := evict(ctx, c, by, pod, plugin); err != nil || !ok {
			return err
		}
		i := slices.IndexFunc(p.victims, func(v victim) bool { return v.uid == pod.UID })
		if i < 0 {
			return nil
		}
		pre.Recorder.Eventf(pod, by.Obj(), v1.EventTypeNormal, "PreemptedForAlignment", "Preempting", "%s",
			p.note(p.victims[i]))
		return nil
	}
}
