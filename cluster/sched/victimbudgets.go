package sched

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// budgets are the disruption budgets of a cluster, as kube-scheduler counts them: a budget is of the pods of
// its namespace that its selector selects, an empty or broken selector selects nobody, and a pod whose
// disruption the API server has counted already counts no more.
type budgets struct {
	list      []*policy.PodDisruptionBudget
	selectors []labels.Selector
	allowed   []int
}

func newBudgets(pdbs []*policy.PodDisruptionBudget) budgets {
	var b budgets
	for _, pdb := range pdbs {
		s, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector)
		if err != nil || s.Empty() {
			continue
		}
		b.list, b.selectors = append(b.list, pdb), append(b.selectors, s)
		b.allowed = append(b.allowed, int(pdb.Status.DisruptionsAllowed))
	}
	return b
}

// of returns the indices of the budgets that the eviction of a pod counts against.
func (b budgets) of(p *v1.Pod) (out []int) {
	for i, pdb := range b.list {
		_, counted := pdb.Status.DisruptedPods[p.Name]
		if !counted && len(p.Labels) > 0 && pdb.Namespace == p.Namespace && b.selectors[i].Matches(labels.Set(p.Labels)) {
			out = append(out, i)
		}
	}
	return out
}

// plan says who has to go, what of which numas each holds, and where the pod will be.
func (t *trial) plan(pods []*v1.Pod) plan {
	out := plan{node: t.info.Node().Name, pod: t.pod.Namespace + "/" + t.pod.Name}
	uids := make([]string, 0, len(pods)+len(t.leaving))
	for _, p := range t.leaving {
		uids = append(uids, string(p.GetPod().UID))
	}
	for _, p := range pods {
		uids = append(uids, string(p.UID))
		e, _ := t.node.Entry(string(p.UID))
		held := cmp.Or(holds(t.node.Machine, e.Holdings), "nothing of its numas")
		if t.node.Unplaced(string(p.UID)) {
			held = "a part of what is held there"
		}
		out.victims = append(out.victims, victim{p.UID, p.Namespace + "/" + p.Name, held})
	}
	out.aim = numas(t.node.Machine, t.node.Without(uids...).Place(t.state.pod, t.state.demand).NUMAs(t.node.Machine))
	return out
}

// numas names numas by their ids: "numa 0", "numas 0,8"; "" for none.
func numas(m *topo.Machine, mask topo.Mask) string {
	var ids []string
	for _, i := range mask.Positions() {
		ids = append(ids, fmt.Sprint(m.NUMAs()[i].ID))
	}
	switch len(ids) {
	case 0:
		return ""
	case 1:
		return "numa " + ids[0]
	}
	return "numas " + strings.Join(ids, ",")
}

// holds says how much some holdings are, and where: "8 cpu, 4Gi memory on numa 0"; "" for nothing.
func holds(m *topo.Machine, hs []place.Holding) string {
	var cpus idset.Set[idset.CPU]
	devices := map[[2]string]bool{} // an init container leaves its own to later ones
	var names []string
	var on topo.Mask
	sum := map[string]int64{}
	add := func(name string, n int64) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		sum[name] += n
	}
	for _, h := range hs {
		on |= h.NUMAs(m)
		cpus = cpus.Union(h.CPUs)
		for _, b := range h.Memory {
			add(b.Kind, b.Bytes)
		}
		for _, d := range h.Devices {
			for _, id := range d.IDs {
				if key := [2]string{d.Resource, id}; !devices[key] {
					devices[key] = true
					add(d.Resource, 1)
				}
			}
		}
	}
	var parts []string
	if !cpus.Empty() {
		parts = append(parts, place.Quantity("cpu", int64(cpus.Len())))
	}
	slices.Sort(names)
	for _, name := range names {
		parts = append(parts, place.Quantity(name, sum[name]))
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, ", ") + " on " + numas(m, on)
}
