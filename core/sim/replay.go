package sim

import (
	"container/heap"
)

// This file handles the order of events. At one time, first pods depart, then nodes report, then pods move, then
// refused pods return, then new pods arrive. A pod without a node waits. Waiting pods are tried again when a pod
// departs, the earliest first, as in kube-scheduler's queue. The controller replaces a pod that a kubelet refused:
// after a second, and after twice as long for each further refusal, up to slowest.

const (
	slowest      = 256 // seconds between a refusal and the pod that replaces it
	grace        = 600 // seconds that a run continues after the last arrival or departure
	progressStep = 512 // arrivals between two reports of progress
)

// event is an event of the replay. Among events at one time, lower kinds come first; events of one kind come in the
// order of seq.
type event struct {
	at   int64
	kind happening
	seq  int64
	pod  int
}

// happening is a kind of event, in the order in which events at one time are handled.
type happening int

const (
	departs happening = iota
	reports
	moves
	returns
	arrives
)

// agenda has the future events, as a heap.
type agenda []event

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	x, y := a[i], a[j]
	if x.at != y.at {
		return x.at < y.at
	}
	if x.kind != y.kind {
		return x.kind < y.kind
	}
	return x.seq < y.seq
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }

// Push implements heap.Interface; only package heap calls it.
func (a *agenda) Push(x any) { *a = append(*a, x.(event)) }

// Pop implements heap.Interface; only package heap calls it.
func (a *agenda) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

// podState is the state of a pod.
type podState struct {
	node    int // -1: none
	refused int
	away    bool // refused, and not replaced yet
	ended   bool
}

// waiting is a pod in the queue, with the number of its creation.
type waiting struct {
	seq int64
	pod int
}

// replay is the state of a run.
type replay struct {
	trace   *Trace
	options Options
	cluster *cluster
	picker  picker
	chance  chance
	limit   int // number of pods that arrive
	now     int64
	quiet   int64 // time of the last arrival or departure
	coming  int   // arrivals and departures on the agenda
	seq     int64
	agenda  agenda
	pods    []podState
	queues  [][]waiting // by shape, ascending seq
	tally   Tally
	missed  bool          // some pod was not placed at once
	hook    func(*replay) // if not nil, called after every event, by tests
}

// newReplay returns a replay before its first event. Every arrival schedules the next one.
func newReplay(t *Trace, c Contender, o Options) *replay {
	r := &replay{trace: t, options: o, cluster: newCluster(t), chance: chance{o.Seed}, limit: len(t.Pods)}
	if o.Stay {
		r.limit = stayLimit(t)
	}
	r.picker = newPicker(r.cluster, c, o.Usual, &r.chance)
	r.pods = make([]podState, r.limit)
	r.queues = make([][]waiting, len(t.Shapes))
	r.schedule(event{at: t.Pods[0].At, kind: arrives})
	if c.moves && !o.Stay {
		r.schedule(event{at: moveSeconds, kind: moves})
	}
	if c.kind == charges {
		r.schedule(event{at: ReportSeconds, kind: reports})
	}
	return r
}

// stayLimit returns how many pods arrive in a run with the option Stay.
func stayLimit(t *Trace) (count int) {
	f := newFullness(t)
	for count < len(t.Pods) && !f.beyond() {
		f.add(t.Pods[count].Shape)
		count++
	}
	return count
}

// schedule puts an event on the agenda, after earlier ones of its time and kind.
func (r *replay) schedule(e event) {
	r.seq++
	e.seq = r.seq
	if e.kind == arrives || e.kind == departs {
		r.coming++
	}
	heap.Push(&r.agenda, e)
}

// run handles events until none is left, until grace seconds after the last arrival or departure, or until the refusal
// number MaxRefused. It stops if Progress returns an error, and returns that error.
func (r *replay) run() error {
	for len(r.agenda) > 0 {
		e := heap.Pop(&r.agenda).(event)
		if r.coming == 0 && e.at > r.quiet+grace {
			break
		}
		r.now = e.at
		switch e.kind {
		case arrives:
			if err := r.arrive(e.pod); err != nil {
				return err
			}
		case departs:
			r.depart(e.pod)
		case moves:
			r.makeRoom()
			r.schedule(event{at: r.now + moveSeconds, kind: moves})
		case returns:
			r.pods[e.pod].away = false
			r.enqueue(e.pod)
		case reports:
			if changed := r.picker.nodesReported(); len(changed) > 0 {
				r.wake(changed)
			}
			r.schedule(event{at: r.now + ReportSeconds, kind: reports})
		}
		if r.hook != nil {
			r.hook(r)
		}
		if r.tally.Refused >= MaxRefused {
			r.tally.Stopped = true
			return nil
		}
	}
	return nil
}

// arrive handles the arrival of a pod. It returns the error of Progress.
func (r *replay) arrive(pod int) error {
	r.quiet = r.now
	r.coming--
	r.tally.Pods++
	r.pods[pod] = podState{node: -1}
	r.picker.podArrived(r.trace.Pods[pod].Shape)
	r.enqueue(pod)
	if r.pods[pod].node >= 0 {
		r.tally.AtOnce++
	} else {
		r.missed = true
	}
	if !r.missed {
		r.tally.First++
	}
	if next := pod + 1; next < r.limit {
		r.schedule(event{at: r.trace.Pods[next].At, kind: arrives, pod: next})
	}
	if p := r.options.Progress; p != nil && (pod%progressStep == 0 || pod+1 == r.limit) {
		return p(pod+1, r.limit)
	}
	return nil
}

// enqueue tries a pod that has arrived or returned. While others of its shape wait, no node has room for this pod
// either. A pod that finds no node waits in the queue of its shape.
func (r *replay) enqueue(pod int) {
	shape := r.trace.Pods[pod].Shape
	if len(r.queues[shape]) > 0 || r.try(pod, nil) == nowhere {
		r.seq++
		r.queues[shape] = append(r.queues[shape], waiting{r.seq, pod})
	}
}

// outcome is the result of an attempt.
type outcome int

const (
	placed outcome = iota
	refused
	nowhere
)

// try lets the contender choose a node, among all nodes if among is nil, and sends the pod there. The kubelet admits
// or refuses the pod. A refused pod returns later, since its controller replaces it.
func (r *replay) try(pod int, among []int) outcome {
	shape := r.trace.Pods[pod].Shape
	n, ok := r.picker.pick(shape, among)
	if !ok {
		return nowhere
	}
	p := &r.pods[pod]
	if !r.cluster.answer(r.cluster.nodes[n].state, shape).fits {
		r.picker.podSent(n, shape)
		r.tally.Refused++
		p.refused++
		p.away = true
		r.schedule(event{at: r.now + min(slowest, int64(1)<<min(p.refused-1, 30)), kind: returns, pod: pod})
		return refused
	}
	r.settle(pod, n)
	return placed
}

// settle puts a pod that waits on a node that has room for it.
func (r *replay) settle(pod, n int) {
	shape, p := r.trace.Pods[pod].Shape, &r.pods[pod]
	v := r.cluster.admit(n, pod, shape)
	r.picker.podSent(n, shape)
	p.node = n
	r.tally.Placed++
	if r.options.Placed != nil {
		r.options.Placed(shape)
	}
	waited := r.now - r.trace.Pods[pod].At
	r.tally.Wait += waited
	r.tally.Longest = max(r.tally.Longest, waited)
	if machine := r.trace.Fleets[r.cluster.nodes[n].fleet].Machine; v.NUMAs(machine) != 0 {
		r.tally.OnNUMAs++
		r.tally.NUMAs += int64(v.NUMAs(machine).Len())
		r.tally.Distance += meanDistance(machine, v.NUMAs(machine))
	}
	if !r.options.Stay {
		r.schedule(event{at: r.now + r.trace.Pods[pod].For, kind: departs, pod: pod})
	}
}

// depart removes a pod from its node, and tries waiting pods there.
func (r *replay) depart(pod int) {
	r.quiet = r.now
	r.coming--
	n := r.pods[pod].node
	r.cluster.release(n, pod)
	r.picker.podLeft(n)
	r.pods[pod].ended = true
	r.wake([]int{n})
}

// wake tries the waiting pods, but only on the nodes in changed: all other nodes would answer as before. A shape that
// fits on no changed node is not tried again in this call.
func (r *replay) wake(changed []int) {
	hopeless := make([]bool, len(r.queues))
	for {
		earliest := -1 // the shape whose first waiting pod was created earliest
		for s, q := range r.queues {
			if len(q) > 0 && !hopeless[s] && (earliest < 0 || q[0].seq < r.queues[earliest][0].seq) {
				earliest = s
			}
		}
		if earliest < 0 {
			return
		}
		if r.try(r.queues[earliest][0].pod, changed) == nowhere {
			hopeless[earliest] = true
		} else {
			r.queues[earliest] = r.queues[earliest][1:]
		}
	}
}

// finish returns the tally, with the amounts at the end and the waiting times of pods that were never placed.
func (r *replay) finish() Tally {
	t, c := r.tally, r.cluster
	t.Seconds = r.now
	scarce := c.names.index(r.trace.Scarce())
	free := int64(0)
	for _, s := range c.live {
		count, all := int64(len(s.nodes)), c.fleets[s.fleet][scarce]
		t.Capacity += count * all
		t.Given += count * s.asked[scarce]
		t.Stranded += count * c.stranded(s, scarce)
		free += count * (all - s.asked[scarce])
	}
	for i := range r.pods {
		if p := &r.pods[i]; p.node < 0 {
			waited := r.now - r.trace.Pods[i].At
			t.Wait += waited
			t.Longest = max(t.Longest, waited)
			t.Wanted += c.requests[r.trace.Pods[i].Shape][scarce]
		}
	}
	t.Wanted = min(t.Wanted, free)
	// Resource 0 is CPUs, counted in thousandths.
	if scarce == 0 {
		t.Capacity, t.Given, t.Stranded, t.Wanted = t.Capacity/1000, t.Given/1000, t.Stranded/1000, t.Wanted/1000
	}
	return t
}
