package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/api/document"
	podapi "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/stage"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/printable"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
)

// This file examines pods.

// maxJudged bounds the number of waiting workloads that are judged, because each is judged for every node.
const maxJudged = 200

// pods adds the findings about pods. Every pod is examined, but only maxJudged workloads are judged on all nodes.
func (x *examination) pods() error {
	byUID := map[string]kube.Stored{} // converted only when needed: a view may store pods without all their fields
	judged := map[string]bool{}
	cores, more := x.wholeCores(), false
	for _, stored := range x.podsInOrder() {
		p := stored.Pod()
		if why, refused := kube.Rejection(p); refused {
			x.refused(p, why)
		}
		if kube.Ended(p) {
			continue
		}
		byUID[string(p.UID)] = stored
		x.nearlyGuaranteed(p)
		x.uncounted(p)
		x.alone(p)
		if p.Spec.NodeName != "" || p.DeletionTimestamp != nil {
			continue
		}
		// Pods of one controller are equal.
		key := onPod(p).String()
		if len(judged) == maxJudged && !judged[key] {
			more = true
			continue
		}
		if !judged[key] {
			judged[key] = true
			if err := x.waiting(p, cores); err != nil {
				return err
			}
		}
	}
	if more {
		x.Limits = append(x.Limits, document.Limit{Resource: "pods",
			Reason: fmt.Sprintf("of the workloads that wait, the first %d were judged", maxJudged)})
	}
	x.judged = len(judged)
	x.misaligned(byUID)
	return nil
}

// podsInOrder returns all pods, the selected one first: of the waiting pods of one controller only the first is judged.
func (x *examination) podsInOrder() []kube.Stored {
	if x.selectedPod == "" {
		return x.View.Pods
	}
	at := slices.IndexFunc(x.View.Pods, func(s kube.Stored) bool {
		p := s.Pod()
		return p.Namespace+"/"+p.Name == x.selectedPod
	})
	if at < 0 {
		return x.View.Pods
	}
	return slices.Concat(x.View.Pods[at:at+1], x.View.Pods[:at], x.View.Pods[at+1:])
}

// nearlyGuaranteed finds pods that a small change would align. Either a container requests whole CPUs with equal
// limits and the pod is not Guaranteed, or the pod is Guaranteed and a container requests a fraction of a CPU.
func (x *examination) nearlyGuaranteed(p *v1.Pod) {
	spec, err := podapi.ToPlace(p)
	if err != nil {
		if p.Spec.NodeName != "" { // for a pod without a node, method waiting adds a finding
			x.unjudged++
			x.firstUnjudged = cmp.Or(x.firstUnjudged, err.Error())
		}
		return
	}
	if spec.QoS != place.Guaranteed && !spec.PodLevel && !slices.ContainsFunc(p.Spec.Containers, wholeCPUs) {
		return
	}
	for _, a := range whatif.NearlyGuaranteed(spec, stage.Unequal(p), x.scene.Nodes()) {
		x.add("nearly-guaranteed", onPod(p), a.What, a.Remedy)
	}
}

// alone finds pods that another scheduler would start together with others, and that tenon-scheduler starts one by one:
// it starts PodGroups of Kubernetes 1.37 as a whole, and no other groups.
func (x *examination) alone(p *v1.Pod) {
	program, ours := x.program(p.Spec.SchedulerName)
	if !ours || program == document.Volcano {
		return // Volcano has gangs of its own, and takes no pods of the others
	}
	for _, m := range stage.Marks(p) {
		x.add("gang-not-enforced", onPod(p, "group "+printable.Text(m.Name)), "its scheduler starts it without the other "+
			"pods of its group, which only "+m.Scheduler+" starts together", "")
	}
}

// wholeCPUs reports whether a container's CPU limit is a whole number above 0, and its request, if any, is the same.
// In a Guaranteed pod such a container gets CPUs of its own.
func wholeCPUs(c v1.Container) bool {
	limit, limited := c.Resources.Limits[v1.ResourceCPU]
	request, requested := c.Resources.Requests[v1.ResourceCPU]
	return limited && limit.Value() > 0 && limit.MilliValue()%1000 == 0 && (!requested || request.Cmp(limit) == 0)
}

// waiting examines a pod without a node. cores is the result of wholeCores.
func (x *examination) waiting(p *v1.Pod, cores map[int64][]string) error {
	x.misnamed(p)
	w, err := x.scene.Existing(p)
	if err != nil {
		x.add("never-admitted", onPod(p), "it cannot be judged: "+err.Error(), "correct what the message names")
		return nil
	}
	if len(x.scene.Nodes()) > 0 {
		if l := (whatif.Rules{}).Lasting(x.scene.Nodes(), w.Want); len(l.Ever) == 0 {
			x.never(p, l)
			return nil
		}
	}
	if w.Want.Pod.QoS != place.Guaranteed {
		return nil
	}
	for threads, nodes := range cores {
		for _, c := range w.Want.Pod.Containers {
			if c.MilliCPU%1000 == 0 && (c.MilliCPU/1000)%threads != 0 {
				x.add("odd-cpus", onPod(p, "full-pcpus-only: "+few(nodes)), fmt.Sprintf("container %q wants %d CPUs, no "+
					"whole cores of %d threads", c.Name, c.MilliCPU/1000, threads), "")
			}
		}
	}
	return nil
}

// misnamed finds a pod that waits for a scheduler which has left no trace, and whose name resembles a known one.
func (x *examination) misnamed(p *v1.Pod) {
	name, known := p.Spec.SchedulerName, x.scene.Schedulers()
	near := printable.Nearest(name, known)
	if name == "" || near == "" || slices.Contains(known, name) {
		return
	}
	x.add("scheduler-misnamed", onPod(p), fmt.Sprintf("no scheduler named %q is known; %q may be meant",
		printable.Clip(name, maxScheduler), printable.Clip(near, maxScheduler)), "")
}

// maxScheduler bounds the bytes of a scheduler's name in a finding. Kubernetes lets a pod name one of any length.
const maxScheduler = 63

// never adds the finding that no node can ever run a pod, even if all other pods end. The reasons are the evidence.
func (x *examination) never(p *v1.Pod, l whatif.Lasting) {
	var evidence, remedies []string
	for _, r := range l.Refusals {
		for _, reason := range r.Reasons {
			evidence = append(evidence, few(r.Nodes)+": "+reason.Text())
			if remedy := reason.Remedy(); remedy != "" && !slices.Contains(remedies, remedy) {
				remedies = append(remedies, remedy)
			}
		}
	}
	x.add("never-admitted", onPod(p, evidence...), onNone(len(x.scene.Nodes()))+
		", whatever ends there", strings.Join(remedies[:min(maxRemedies, len(remedies))], "; or "))
}

// onNone returns that a pod can run on none of some nodes.
func onNone(nodes int) string {
	if nodes == 1 {
		return "the pod cannot run on the only node"
	}
	return "the pod can run on none of " + choose(nodes, "node")
}

// maxRemedies bounds the remedies in one finding of never.
const maxRemedies = 4

// choose returns a number with a noun, in the plural unless the number is 1.
func choose(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// few returns a text with the first names, and the number of the others.
func few(names []string) string {
	const shown = 3
	out := strings.Join(names[:min(shown, len(names))], ", ")
	if more := len(names) - shown; more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	return out
}

// misaligned finds the pods that hold more NUMA nodes, or more distant ones, than they need.
func (x *examination) misaligned(byUID map[string]kube.Stored) {
	for _, n := range x.View.States {
		if n.Quality != state.Exact {
			continue
		}
		ideal := n.Usage.Ideal()
		for _, e := range n.Entries {
			stored := byUID[e.Pod.UID]
			if stored == nil {
				continue
			}
			p := stored.Pod()
			spec, err := podapi.ToPlace(p)
			if err != nil {
				continue
			}
			for _, u := range place.Alignments(ideal, spec, e.Holdings) {
				if u.Misaligned() {
					x.add("misaligned", onPod(p, cost(n, u)), "it holds parts of more or of farther NUMA nodes than it needs", "")
				}
			}
		}
	}
}

// cost describes the NUMA nodes that a container holds, and how few would do. If memory is farther away than
// necessary, the text also has the ratio of the distances.
func cost(n *state.Node, u place.Alignment) string {
	out := fmt.Sprintf("%s on %s: NUMA nodes %s; %d would do", cmp.Or(u.Container, "the pod"), n.Name,
		document.NUMAs(n.Machine, u.Held.NUMAs), u.Best.NUMAs.Len())
	if near := u.Best.Distance; near > 0 && u.Held.Distance > near {
		out += fmt.Sprintf("; memory of the other NUMA node is at distance %d, not %d: by the firmware's table an access "+
			"takes %.1f times as long", u.Held.Distance, near, float64(u.Held.Distance)/float64(near))
	}
	return out
}
