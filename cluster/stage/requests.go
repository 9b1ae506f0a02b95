package stage

import (
	"maps"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/whatif"
)

// Requests is what pods request of their nodes. Whoever makes many stages of one cluster keeps it from stage to stage:
// what a pod requests is then computed once, as long as the pod is the same object, and so is the sum of a node whose
// pods are the same in the same order. It belongs to one goroutine.
type Requests struct {
	amounts map[string]whatif.Amounts
	// nodes has the nodes of this stage, and before has the nodes of the stage before.
	nodes, before map[string]load
}

// load is what the pods of a node request. It does not change.
type load struct {
	pods []kube.Stored
	each []whatif.Resident // of each of pods
	sum  whatif.Amounts
}

// newRequests returns the requests of one stage alone.
func newRequests() *Requests {
	r := &Requests{}
	r.begin()
	return r
}

// begin begins a stage.
func (r *Requests) begin() {
	r.amounts, r.before, r.nodes = map[string]whatif.Amounts{}, r.nodes, make(map[string]load, len(r.nodes))
}

// of returns a pod with its requests. An amount beyond bounds counts as the bound.
func (r *Requests) of(p *v1.Pod) whatif.Resident {
	needs, _ := kube.Needs(p)
	return whatif.Resident{Pod: kube.ID(p), Needs: r.shared(needs), Stays: kube.GoesWithNode(p)}
}

// shared returns equal amounts that it has returned before, or else a: many pods request the same.
func (r *Requests) shared(a whatif.Amounts) whatif.Amounts {
	var key []byte
	for _, name := range slices.Sorted(maps.Keys(a)) {
		key = strconv.AppendInt(append(append(key, name...), '='), a[name], 10)
	}
	if known, ok := r.amounts[string(key)]; ok {
		return known
	}
	r.amounts[string(key)] = a
	return a
}

// sum returns the sum of the requests of a node's pods, and each pod with its own. The caller must not change them.
func (r *Requests) sum(node string, pods []kube.Stored) (sum whatif.Amounts, each []whatif.Resident) {
	before := r.before[node]
	if len(pods) > 0 && slices.Equal(before.pods, pods) {
		r.nodes[node] = load{pods, before.each, before.sum} // what before has keeps all pods of an earlier stage
		return before.sum, before.each
	}
	known := make(map[kube.Stored]int, len(before.pods))
	for i, p := range before.pods {
		known[p] = i
	}
	sum, each = whatif.Amounts{}, make([]whatif.Resident, 0, len(pods))
	for _, p := range pods {
		var x whatif.Resident
		if i, there := known[p]; there {
			x = before.each[i]
		} else {
			x = r.of(p.Pod())
		}
		for name, n := range x.Needs {
			sum[name] = min(sum[name]+n, whatif.MaxAmount)
		}
		each = append(each, x)
	}
	r.nodes[node] = load{pods, each, sum}
	return sum, each
}
