package capacity

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/api/provisioning"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
	"github.com/tenon-numa/tenon/scheduler/promise"
)

var (
	queues    = flag.Int("queues.n", 100, "random queues of TestQueuesOfJobs")
	queueSeed = flag.Uint64("queues.seed", 1, "seed of the first queue")
)

// job is equal pods that are started together.
type job struct {
	name    string
	pods    []state.PodID
	size    int // CPUs of a pod
	started bool
	left    int // pods that have no node yet
	waited  bool
}

func (j *job) pod() *place.Pod {
	return &place.Pod{QoS: place.Guaranteed, Containers: []place.Container{{Name: "c", MilliCPU: int64(j.size) * 1000,
		Memory: []place.Amount{{Kind: "memory", Bytes: 1 << 30}}}}}
}

// cluster is a world with jobs, whose kubelets do what is predicted. quota is how many CPUs the pods of started jobs
// may have, where no request is made; 0 where requests are made.
type cluster struct {
	*world
	r     *rand.Rand
	quota int
	jobs  []*job
	on    map[string]string // the node of each pod, by UID
	idle  int               // looks at which a job fitted that was not started
}

// report has the node report what was predicted.
func (c *cluster) report(node string) {
	n := c.book.Snapshot().Node(node)
	l := state.Layout{Machine: n.Machine, Rules: n.Rules}
	for _, e := range n.Entries {
		e.Source = state.Observed
		l.Entries = append(l.Entries, e)
	}
	c.book.Report(node, l)
}

// takes has a node take a pod, and reports whether it did.
func (c *cluster) takes(node string, n *state.Node, id state.PodID, p *place.Pod, request string) (ok bool) {
	if !n.Takes(p, place.Demand{}) {
		return false
	}
	book := func(whatif.Amounts) bool {
		v, known := c.book.Reserve(node, id, p, place.Demand{})
		ok = known && v.Fits()
		return ok
	}
	if c.quota == 0 {
		c.keeper.Use(promise.Coming{UID: id.UID, Request: request, Node: node, Pod: p}, book)
	} else {
		book(nil)
	}
	if ok {
		c.on[id.UID] = node
		c.report(node)
	}
	return ok
}

// place gives a pod of a job a node: one that keeps room for it, or else any.
func (c *cluster) place(j *job, id state.PodID) bool {
	request := "ml/" + j.name
	if c.quota == 0 {
		for _, node := range c.keeper.Nodes(request) {
			n, _, _ := c.book.Snapshot().Node(node).Redeem(request, j.pod(), place.Demand{}, "")
			if c.takes(node, n, id, j.pod(), request) {
				return true
			}
		}
		return false
	}
	for _, n := range c.book.Snapshot().Names() {
		if c.takes(n, c.book.Snapshot().Node(n), id, j.pod(), "") {
			return true
		}
	}
	return false
}

// arrive adds a job to the queue.
func (c *cluster) arrive(i int) {
	j := &job{name: fmt.Sprint("j", i), size: 1 + c.r.IntN(8)}
	for k := range 1 + c.r.IntN(4) {
		name := fmt.Sprint(j.name, "-", k)
		j.pods = append(j.pods, state.PodID{Namespace: "ml", Name: name, UID: name})
	}
	j.left = len(j.pods)
	c.jobs = append(c.jobs, j)
	if c.quota == 0 {
		c.ask(j.name, len(j.pods), j.size)
	}
}

// used returns the CPUs of the pods of started jobs.
func (c *cluster) used() (sum int) {
	for _, j := range c.jobs {
		if j.started {
			sum += j.size * len(j.pods)
		}
	}
	return sum
}

// start starts the jobs that may start.
func (c *cluster) start(t *testing.T) {
	if c.quota == 0 {
		c.time = c.time.Add(time.Second)
		c.round(t.Context())
	}
	for _, j := range c.jobs {
		switch {
		case j.started:
		case c.quota > 0:
			j.started = c.used()+j.size*len(j.pods) <= c.quota
		default:
			j.started = strings.HasPrefix(c.said(j.name, provisioning.Provisioned), "True")
		}
	}
}

// begin starts jobs, and gives pods of started jobs nodes, in a random order.
func (c *cluster) begin(t *testing.T) {
	c.start(t)
	var pods []func()
	for _, j := range c.jobs {
		for _, id := range j.pods {
			if j.started && c.on[id.UID] == "" {
				pods = append(pods, func() {
					if c.place(j, id) {
						j.left--
					} else {
						j.waited = true
					}
				})
			}
		}
	}
	c.r.Shuffle(len(pods), func(a, b int) { pods[a], pods[b] = pods[b], pods[a] })
	for _, place := range pods {
		place()
	}
}

// end ends a job all of whose pods run.
func (c *cluster) end(i int) {
	j := c.jobs[i]
	if !j.started || j.left > 0 {
		return
	}
	nodes := map[string]bool{}
	for _, id := range j.pods {
		nodes[c.on[id.UID]] = true
		c.book.Release(id.UID)
	}
	for node := range nodes {
		c.report(node)
	}
	if c.quota == 0 {
		o, _, _ := c.objects.GetByKey("ml/" + j.name)
		_ = c.objects.Delete(o)
	}
	c.jobs = slices.Delete(c.jobs, i, i+1)
}

// Owned returns nothing: pods name their request here.
func (c *cluster) Owned(string, string, int64) []*v1.Pod { return nil }

// Using returns the pods of a request that have nodes.
func (c *cluster) Using(request string) (out []*v1.Pod) {
	for _, j := range c.jobs {
		for _, id := range j.pods {
			if "ml/"+j.name == request && c.on[id.UID] != "" {
				p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: id.Namespace, Name: id.Name, UID: types.UID(id.UID)},
					Spec: *c.templates[j.name].Template.Spec.DeepCopy()}
				p.Spec.NodeName = c.on[id.UID]
				p.Spec.Containers[0].Resources.Requests = p.Spec.Containers[0].Resources.Limits
				out = append(out, p)
			}
		}
	}
	return out
}

// fit counts the jobs that were not started and that fit now, beside what is kept. Pods that have come may leave more
// room than was kept for them, so requests are looked at once more before.
func (c *cluster) fit(t *testing.T) {
	if c.quota == 0 {
		c.start(t)
	}
	for _, j := range c.jobs {
		if j.started {
			continue
		}
		var nodes []whatif.Node
		for n := range c.book.Snapshot().All() {
			nodes = append(nodes, whatif.Node{Name: n.Name, State: n})
		}
		want := &whatif.Want{Pod: j.pod()}
		out, err := whatif.New(nodes, whatif.Rules{}).Fill(want, len(j.pods), func(i int) state.PodID {
			return j.pods[i]
		}, func() error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		if len(out.Placed) == len(j.pods) {
			c.idle++
		}
	}
}

// Random queues of jobs on nodes with two NUMA nodes each. With requests, a job that was started has all its pods on
// nodes at once, whatever comes and ends between and beside them, also after a restart, and no job that fits waits. By
// quota alone, jobs are started that then wait.
func TestQueuesOfJobs(t *testing.T) {
	var waited, idle [2]int
	for q := range *queues {
		for way := range 2 { // 0: by quota
			r := rand.New(rand.NewPCG(*queueSeed+uint64(q), 0))
			nodes := 1 + r.IntN(4)
			c := &cluster{world: newWorld(t, nodes, 8), r: r, on: map[string]string{}}
			if way == 0 {
				c.quota = 16 * nodes
			}
			c.cluster = c
			for step := range 40 {
				switch r.IntN(3) {
				case 0, 1:
					c.arrive(step)
				default:
					if len(c.jobs) > 0 {
						c.end(r.IntN(len(c.jobs)))
					}
				}
				if way == 1 && r.IntN(10) == 0 { // the scheduler starts anew
					c.world.start()
					c.cluster = c
				}
				c.begin(t)
				c.fit(t)
			}
			for _, j := range c.jobs {
				if j.waited {
					waited[way]++
				}
			}
			idle[way] += c.idle
			if way == 1 && (waited[1] > 0 || c.idle > 0) {
				t.Fatalf("seed %d: %d started jobs waited, and at %d looks a job fitted that was not started", *queueSeed+uint64(q),
					waited[1], c.idle)
			}
		}
	}
	t.Logf("%d queues from seed %d: by quota %d jobs waited after their start, and %d times a job fitted that was not "+
		"started; with requests %d and %d", *queues, *queueSeed, waited[0], idle[0], waited[1], idle[1])
	if waited[0] == 0 {
		t.Error("by quota alone, no job waited: the queues are too easy")
	}
}
