package place

import "github.com/tenon-numa/tenon/core/topo"

// This file bounds the cost of one answer. A step is about the cost of one entry of a table of masks, one word of a set
// of CPUs, or one device: some nanoseconds. Steps are counted, never timed, so that a question gets the same answer on
// every machine.

// maxWork bounds the steps of one verdict: about five milliseconds. Beyond it the verdict is a refusal with the code
// [TooComplex]. Pods of twenty containers on machines of eight NUMA nodes need a tenth of it at most. On sixteen NUMA
// nodes, where a kubelet takes seconds or minutes, one container may need most of it.
const maxWork = 5 << 20

// MaxContainers bounds the containers of a pod that need alignment. A pod may cost this number times as much as one
// container, on every node. The largest known pods have some thirty containers; a machine of two sockets has about as
// many cores as the bound.
const MaxContainers = 128

// containerSteps is the cost of a container that asks for nothing.
const containerSteps = 32

// work counts the steps of one verdict.
type work struct{ steps int }

// spend counts n steps that the caller is about to make. It returns false if they exceed the bound; the caller must
// then not make them.
func (w *work) spend(n int) bool {
	w.steps = min(w.steps+n, maxWork+1)
	return w.steps <= maxWork
}

// over reports whether the verdict needs more steps than it may make.
func (w *work) over() bool { return w.steps > maxWork }

// exhaust uses up all remaining steps.
func (w *work) exhaust() { w.steps = maxWork + 1 }

// TooLarge returns why a pod is refused by every node: it has too many containers that need alignment. The result is
// empty for all other pods. It depends on the pod alone, so a caller with many nodes asks once.
func (p *Pod) TooLarge() []Reason {
	if len(p.Containers) <= MaxContainers {
		return nil
	}
	count := 0
	for i := range p.Containers {
		if p.aligns(i) {
			count++
		}
	}
	if count <= MaxContainers {
		return nil
	}
	return []Reason{{Code: TooComplex, Want: int64(count), Have: MaxContainers}}
}

// aligns reports whether some node's managers align something for a container.
func (p *Pod) aligns(i int) bool {
	c := &p.Containers[i]
	return len(c.Devices) > 0 || p.Exclusive() && (len(c.Memory) > 0 || c.MilliCPU >= 1000 && c.MilliCPU%1000 == 0)
}

// complex returns the refusal of a pod that needs too many steps.
func (a *admission) complex() Verdict {
	r := Reason{Code: TooComplex, Want: int64(len(a.pod.Containers)), Have: maxWork, Width: len(a.u.Machine.NUMAs())}
	return Verdict{Refusal: UnexpectedAdmissionError, Reasons: []Reason{r}}
}

// costs bounds the steps of parts of an answer on one machine under its rules. A plan skips these parts, but must not
// answer yes if the full engine would need too many steps.
type costs struct {
	words     int // going through one part of the CPUs
	picking   int // picking the CPUs of one container
	ownMask   int // the memory manager's own choice of NUMA nodes, for each kind of memory and once more
	devices   int // looking for and picking the devices of one resource, beside its table
	shared    int // counting the devices of one resource that are on several NUMA nodes, for each mask
	sockets   int // sockets that each mask of CPUs is compared with
	distances int // comparing the distances of two masks
}

func newCosts(m *topo.Machine, r *Rules, sets []deviceSet) (c costs) {
	n := len(m.NUMAs())
	c.words = 8 + 6*(int(m.CPUs().Max())/64+1)
	cores := len(m.Cores())
	if !nested(m) {
		cores *= n // a core may be listed once for every NUMA node that its socket is in
	}
	c.picking = c.words*(16*(n+len(m.Sockets()))+20*cores) + 4*m.CPUs().Len()
	if r.Memory.Static {
		c.ownMask = 2*tableCost<<min(n, maxMaskSpace) + 16*n
	}
	if r.CPU.AlignBySocket {
		c.sockets = len(m.Sockets())
	}
	if r.Topology.PreferClosest {
		c.distances = 2 * n * n
	}
	for at := range sets {
		c.devices = max(c.devices, deviceSteps(len(m.Resources()[at].Devices), n))
		c.shared = max(c.shared, 2*sets[at].shared)
	}
	return c
}

// reachSteps returns the steps of intersecting a hint set's masks with the reached ones (hints.go).
func reachSteps(numas, masks int) int { return (2*numas + 4) * masks }

// deviceSteps returns the steps of counting devices for the masks of some NUMA nodes, and of picking some.
func deviceSteps(devices, numas int) int { return devices * (numas + 80) }

// expense classifies a request by the usages in which merging its hint sets surely needs too many steps.
type expense int8

const (
	cheap               expense = iota // in none
	expensiveWithMemory                // in usages in which memory has hints
	expensive                          // in all usages
	tableCost           = 10           // steps of one entry of a hint set's tables, and 6 more for each kind of memory
)

// mergeSteps returns an upper bound on the steps of merging the hint sets of a request, and the class of the request
// by a lower bound on these steps. The hint sets range over the given number of NUMA nodes. The bounds hold for pods
// whose init containers leave nothing.
func (u *Usage) mergeSteps(r *request, numas int) (bound int, class expense) {
	policy := u.Rules.Topology.Policy
	if policy == None || numas > maxMaskSpace {
		return 0, cheap
	}
	size := 1 << numas
	masks, reach := size, 0
	if policyTable[policy].single {
		masks = numas
	} else if !policyTable[policy].preferred {
		reach = reachSteps(numas, size)
	}
	// least is the lower bound without memory; more is what the upper bound adds to it.
	least, more := size/4, 2*u.costs.distances*masks
	for _, d := range r.devices {
		if at := u.resourceAt(d.Resource); at >= 0 && u.sets[at].numas != 0 {
			least += tableCost*masks + reach
			more += u.costs.devices + u.costs.shared*masks
		}
	}
	if r.cpus > 0 {
		least += tableCost*masks + reach
		more += (2*numas+4)*u.costs.words + u.costs.sockets*size
	}
	memory := 0
	if kinds := len(r.memory); kinds > 0 {
		least += (tableCost + 6*kinds) * masks
		memory = kinds * reach
		if policyTable[policy].single { // asked once more, of all masks
			more += (tableCost + 6*kinds) * size
		}
	}
	switch {
	case least > maxWork:
		class = expensive
	case least+memory > maxWork:
		class = expensiveWithMemory
	}
	return least + memory + more, class
}

// heavy reports whether the full engine may need too many steps before it admits a pod without init containers. The
// arguments are the sums of the results of [plan.tabling] for its requests.
func (u *Usage) heavy(p *Pod, tabling int, choice bool) bool {
	steps := tabling
	for i := range p.Containers {
		c := &p.Containers[i]
		steps += 256 + u.costs.picking + len(c.Memory)*16*u.numas +
			len(c.Devices)*(u.costs.devices+2*len(u.sets)+64)
		if choice {
			steps += (1 + len(c.Memory)) * u.costs.ownMask
		}
	}
	return steps > maxWork
}

// tabling returns an upper bound on the steps of tables before a request is admitted, and whether the memory manager
// may then choose NUMA nodes of its own. If tables surely need too many steps, both are zero, because the request is
// then admitted without tables or not at all.
func (p *plan) tabling() (steps int, choice bool) {
	if p.expense != cheap {
		return 0, false
	}
	return p.merging, !policyTable[p.policy].preferred
}
