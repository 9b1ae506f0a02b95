package preempt

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/api/document"
)

// plan has the victims of one pod on one node, and where that pod will be placed instead.
type plan struct {
	node    string
	pod     string // the preemptor, "namespace/name"
	aim     string // the NUMA nodes that it will use: "NUMA node 0"
	victims []victim
}

// victim is a pod of a plan.
type victim struct {
	uid        types.UID
	name, held string // "namespace/name"; its holdings: "8 cpu on NUMA node 0"
}

// maxNamed bounds the victims that an event names.
const maxNamed = 5

// text names the victims, and the preemptor's NUMA nodes.
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

// to returns the part of a text about the preemptor's NUMA nodes, or "" if they are not known.
func (p plan) to() string {
	if p.aim == "" {
		return ""
	}
	return ", to be aligned on " + p.aim
}

// note returns the message of the event on a victim.
func (p plan) note(v victim) string {
	return fmt.Sprintf("evicted from node %s for pod %s%s; it held %s", p.node, p.pod, p.to(), v.held)
}

// plan returns the plan of an eviction: the victims, what each holds on which NUMA nodes, and where the preemptor will
// be.
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

// maxNotes bounds the pods whose plans and waits are recorded. The newest are kept.
const maxNotes = 1024

// plans records the plans of each pod's last attempt, by UID. They are kept after the attempt, since evictions go on
// then.
type plans struct {
	mu    sync.Mutex
	pods  map[string]*attempted
	order []string
}

// attempted has the plans of one attempt, by node.
type attempted struct {
	nodes  map[string]plan
	doubts []string // nodes that were passed over because their holdings are not known
}

// begin drops the plans of a pod's earlier attempts.
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

// put records a plan of the pod's attempt. It does nothing if the attempt's record was dropped.
func (p *plans) put(uid string, x plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a := p.pods[uid]; a != nil {
		a.nodes[x.node] = x
	}
}

// doubt records that the pod's attempt has passed over a node, because waiting may show that the pod fits there.
func (p *plans) doubt(uid, node string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a := p.pods[uid]; a != nil {
		a.doubts = append(a.doubts, node)
	}
}

// of returns the plan of the pod's attempt for a node; false if there is none.
func (p *plans) of(uid, node string) (plan, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a := p.pods[uid]; a != nil {
		x, ok := a.nodes[node]
		return x, ok
	}
	return plan{}, false
}

// doubted returns the nodes that the pod's attempt has passed over.
func (p *plans) doubted(uid string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a := p.pods[uid]; a != nil {
		return slices.Clone(a.doubts)
	}
	return nil
}

// victimNote returns the text of the event on a victim: for which pod it is evicted, and where that pod will be. It
// returns "" if kube-scheduler chose the victim. Call it before the eviction: as soon as the victim is gone, the
// preemptor's next attempt may begin and replace the plans.
func (pre *Preemption) victimNote(preemptor types.UID, node string, victimUID types.UID) string {
	p, ok := pre.plans.of(string(preemptor), node)
	i := slices.IndexFunc(p.victims, func(v victim) bool { return v.uid == victimUID })
	if !ok || i < 0 {
		return ""
	}
	return p.note(p.victims[i])
}

// recordVictim records the event on an evicted pod, unless the text is "". kube-scheduler's own event has only the
// preemptor's UID.
func (pre *Preemption) recordVictim(pod *v1.Pod, preemptor runtime.Object, text string) {
	if text != "" {
		pre.Recorder.Eventf(pod, preemptor, v1.EventTypeNormal, "PreemptedForAlignment", "Preempting", "%s", text)
	}
}
