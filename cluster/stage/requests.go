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
// what a pod requests is then computed once, as long as the pod is the same object. It belongs to one goroutine.
type Requests struct {
	amounts map[string]whatif.Amounts
	// pods has the pods of this stage, and before has the pods of the stage before.
	pods, before map[*v1.Pod]whatif.Resident
}

// newRequests returns the requests of one stage alone.
func newRequests() *Requests {
	r := &Requests{}
	r.begin()
	return r
}

// begin begins a stage.
func (r *Requests) begin() {
	r.amounts, r.before, r.pods = map[string]whatif.Amounts{}, r.pods, make(map[*v1.Pod]whatif.Resident, len(r.pods))
}

// of returns a pod with its requests. An amount beyond bounds counts as the bound.
func (r *Requests) of(p *v1.Pod) whatif.Resident {
	out, known := r.before[p]
	if !known {
		needs, _ := kube.Needs(p)
		out = whatif.Resident{Pod: kube.ID(p), Needs: r.shared(needs), Stays: kube.GoesWithNode(p)}
	}
	r.pods[p] = out
	return out
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

// sum returns the sum of the requests of a node's pods, and each pod with its own.
func (r *Requests) sum(pods []kube.Stored) (sum whatif.Amounts, each []whatif.Resident) {
	sum, each = whatif.Amounts{}, slices.Grow(each, len(pods))
	for p := range kube.EachPod(pods) {
		x := r.of(p)
		for name, n := range x.Needs {
			sum[name] = min(sum[name]+n, whatif.MaxAmount)
		}
		each = append(each, x)
	}
	return sum, each
}
