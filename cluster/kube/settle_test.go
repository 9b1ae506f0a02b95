package kube

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/pod/podtest"
	"github.com/tenon-numa/tenon/cluster/nrt"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// clock runs the feed's delayed functions. Tests advance it.
type clock struct {
	now     time.Duration
	pending []alarm
}

type alarm struct {
	at time.Duration
	do func()
}

func (c *clock) later(d time.Duration, do func()) {
	if d == 0 {
		do()
		return
	}
	c.pending = append(c.pending, alarm{c.now + d, do})
}

// pass advances the clock.
func (c *clock) pass(d time.Duration) {
	end := c.now + d
	for {
		next := -1
		for i, a := range c.pending {
			if a.at <= end && (next < 0 || a.at < c.pending[next].at) {
				next = i
			}
		}
		if next < 0 {
			break
		}
		a := c.pending[next]
		c.pending = append(c.pending[:next:next], c.pending[next+1:]...)
		c.now = a.at
		a.do()
	}
	c.now = end
}

// timed returns a feed with the test's clock.
func timed(book *ledger.Book) (*Feed, *clock) {
	c := &clock{}
	f := NewFeed(book, nil, nil)
	f.later = c.later
	f.Begin()
	return f, c
}

// wide returns the object of a node of two NUMA nodes with 16 CPUs and 32Gi each, 8 devices nic on the first, 8 devices
// gpu on the second. The arguments are the available CPUs, GiB and devices of each.
func wide(version int, first, second [3]int64) *v1alpha2.NodeResourceTopology {
	first[1], second[1] = first[1]<<10, second[1]<<10
	return wideMiB(version, first, second)
}

// wideMiB is wide with memory in MiB.
func wideMiB(version int, first, second [3]int64) *v1alpha2.NodeResourceTopology {
	o := topologyOf("n", version)
	for i, free := range [][3]int64{first, second} {
		z := v1alpha2.Zone{Name: fmt.Sprint("node-", i), Type: "Node"}
		for k, r := range []struct {
			name string
			all  int64
		}{{"cpu", 16}, {"memory", 32 << 30}, {[]string{"acme.com/nic", "acme.com/gpu"}[i], 8}} {
			n := free[k]
			if r.name == "memory" {
				n <<= 20
			}
			all := *resource.NewQuantity(r.all, resource.DecimalSI)
			z.Resources = append(z.Resources, v1alpha2.ResourceInfo{Name: r.name, Capacity: all, Allocatable: all,
				Available: *resource.NewQuantity(n, resource.DecimalSI)})
		}
		o.Zones = append(o.Zones, z)
	}
	return o
}

// member returns a pod of a set that uses names again.
func member(name, uid, amounts string) *v1.Pod {
	p := bind(podtest.Pod(name, podtest.Exact("c", amounts)), "n", noon)
	p.UID = types.UID(uid)
	return p
}

// own makes the scheduler book a pod, bind it, and see it run.
func own(t *testing.T, b *ledger.Book, f *Feed, p *v1.Pod) {
	t.Helper()
	spec, err := apipod.ToPlace(p)
	if err != nil {
		t.Fatal(err)
	}
	if v, ok := b.Reserve("n", ID(p), spec, place.Demand{}); !ok || !v.Fits() {
		t.Fatalf("pod %s is refused: %v", p.Name, v.Reasons)
	}
	if v, wait, err := b.Turn(string(p.UID), 0); wait != nil || err != nil || !v.Fits() {
		t.Fatalf("pod %s may not go: %v, %v", p.Name, v.Reasons, err)
	}
	f.Pod(p)
	f.Pod(start(p))
}

func fits(t *testing.T, b *ledger.Book, amounts string) bool {
	t.Helper()
	spec, err := apipod.ToPlace(podtest.Pod("probe", podtest.Exact("c", amounts)))
	if err != nil {
		t.Fatal(err)
	}
	return b.Snapshot().Node("n").Fits(spec)
}

// Names of a StatefulSet are used again while no report arrives. Then one right report arrives, and the exporter
// repeats it, which makes no event. The fingerprint matches the ended pods as well as the running ones; the amounts
// show which are meant.
func TestAmountsDistinguishPodsOfOneName(t *testing.T) {
	book := ledger.New()
	f, _ := timed(book)
	f.Topology(signed(wide(1, [3]int64{16, 32, 8}, [3]int64{16, 32, 8})))
	for round := range 2 {
		uid := func(name string) string { return fmt.Sprintf("%s-%d", name, round) }
		foreign := []*v1.Pod{
			member("web-0", uid("a"), "cpu=2 memory=2Gi acme.com/nic=1"),
			member("web-1", uid("b"), "cpu=4 memory=3Gi acme.com/gpu=2"),
		}
		mine := member("web-2", uid("c"), "cpu=3 memory=3Gi acme.com/nic=2")
		for _, p := range foreign {
			f.Pod(start(p))
		}
		own(t, book, f, mine)
		for _, p := range append(foreign, mine) {
			f.PodGone(deleting(start(p)))
		}
		f.Topology(signed(wide(2+2*round, [3]int64{13, 29, 6}, [3]int64{16, 32, 8}), "web-2"))
		next := []*v1.Pod{
			member("web-0", uid("d"), "cpu=10 memory=20Gi acme.com/nic=3"),
			member("web-1", uid("e"), "cpu=9 memory=10Gi acme.com/gpu=3"),
		}
		for _, p := range next {
			f.Pod(start(p))
		}
		f.Topology(signed(wide(3+2*round, [3]int64{6, 12, 5}, [3]int64{7, 22, 5}), "web-0", "web-1"))
		if !fits(t, book, "cpu=7 memory=20Gi") {
			t.Fatalf("round %d: 7 CPUs and 22Gi are free, and a pod of 7 and 20Gi is refused: %s, doubt %q", round,
				amounts(book, "n"), book.Snapshot().Node("n").Doubtful())
		}
		for _, p := range next {
			f.PodGone(deleting(start(p)))
		}
	}
}

// One report contains 4 CPUs of a pod of this scheduler and 2 of a pod that is never seen. The exporter repeats it,
// which makes no event.
func TestAReportThatIsOnlyRepeatedEndsTheDoubt(t *testing.T) {
	for name, fingerprint := range map[string]func(*v1alpha2.NodeResourceTopology) *v1alpha2.NodeResourceTopology{
		"no fingerprint": func(o *v1alpha2.NodeResourceTopology) *v1alpha2.NodeResourceTopology { return o },
		"a fingerprint of pods not known": func(o *v1alpha2.NodeResourceTopology) *v1alpha2.NodeResourceTopology {
			return signed(o, "p", "hidden")
		},
	} {
		t.Run(name, func(t *testing.T) {
			book := ledger.New()
			f, c := timed(book)
			var freed []string
			f.OnFreed(func(node string) { freed = append(freed, node) })
			f.Topology(fingerprint(wide(1, [3]int64{16, 32, 8}, [3]int64{0, 0, 0})))
			own(t, book, f, member("p", "p", "cpu=4 memory=4Gi"))
			f.Topology(fingerprint(wide(2, [3]int64{10, 26, 8}, [3]int64{0, 0, 0})))
			if fits(t, book, "cpu=10 memory=10Gi") {
				t.Fatal("the report may be older than the pod: then 6 CPUs are free, and 10 fit")
			}
			c.pass(settlePeriod)
			if !fits(t, book, "cpu=10 memory=10Gi") {
				t.Errorf("the exporter had time to look again, and the pod counts twice still: %s", amounts(book, "n"))
			}
			if len(freed) == 0 {
				t.Error("nobody is told that pods may fit")
			}
			if fits(t, book, "cpu=11 memory=10Gi") {
				t.Error("11 CPUs fit where 10 are free")
			}
		})
	}
}

// If an exporter stops reporting, nothing shows that it has counted later pods: they stay charged.
func TestAPodThatTheLastReportCannotHoldStaysCharged(t *testing.T) {
	book := ledger.New()
	f, c := timed(book)
	f.Topology(wide(1, [3]int64{16, 32, 8}, [3]int64{14, 30, 8}))
	own(t, book, f, member("p", "p", "cpu=12 memory=12Gi acme.com/gpu=1"))
	c.pass(time.Hour)
	if fits(t, book, "cpu=3 memory=1Gi acme.com/gpu=1") {
		t.Errorf("12 of 14 CPUs are taken, and 3 fit: %s", amounts(book, "n"))
	}
}

func deleting(p *v1.Pod) *v1.Pod {
	p = p.DeepCopy()
	p.DeletionTimestamp = p.Status.StartTime
	return p
}

// wideNode imitates the kubelet of such a node, and its exporter.
type wideNode struct {
	t       *rapid.T
	book    *ledger.Book
	feed    *Feed
	clock   *clock
	machine *topo.Machine
	rules   place.Rules
	live    map[string]*wideMember // by name
	signed  bool
	// hides: some pods are missing at the API server, so that the present pods never explain the reports.
	hides bool
	// stages: pods have init containers. Exporters do not report what these leave.
	stages bool
	next   int
	// written is the last object as text; late are objects in transit.
	written string
	late    []*v1alpha2.NodeResourceTopology
	version int
}

type wideMember struct {
	pod      *v1.Pod
	holdings []place.Holding
}

func newWideNode(t *rapid.T) *wideNode {
	book := ledger.New()
	f, c := timed(book)
	o := wide(1, [3]int64{16, 32, 8}, [3]int64{16, 32, 8})
	r, err := nrt.Read(o)
	if err != nil {
		t.Fatal(err)
	}
	n := &wideNode{t: t, book: book, feed: f, clock: c, machine: r.Machine, rules: r.Rules, version: 1,
		live: map[string]*wideMember{}, signed: rapid.Bool().Draw(t, "signed")}
	n.look()
	n.deliver()
	return n
}

func (n *wideNode) usage() *place.Usage {
	u := place.NewUsage(n.machine, n.rules)
	for _, name := range slices.Sorted(maps.Keys(n.live)) {
		u = u.Hold(n.live[name].holdings...)
	}
	return u
}

// shown returns an exporter's view of the node: the podresources service lists no ordinary init containers.
func (n *wideNode) shown() *place.Usage {
	u := place.NewUsage(n.machine, n.rules)
	for _, name := range slices.Sorted(maps.Keys(n.live)) {
		for _, h := range n.live[name].holdings {
			if h.Kind != place.Init {
				u = u.Hold(h)
			}
		}
	}
	return u
}

// begin starts the containers of a pod: the memory manager takes what its init containers leave.
func (n *wideNode) begin(name string) {
	m := n.live[name]
	m.holdings = slices.Clone(m.holdings)
	for i := range m.holdings {
		if m.holdings[i].Kind == place.Init {
			m.holdings[i].Memory = nil
		}
	}
	n.feed.Pod(running(m.pod))
}

// look makes the exporter read the node. It writes the object if it differs from the last one.
func (n *wideNode) look() {
	u := n.shown()
	var free [2][3]int64
	for i, numa := range n.machine.NUMAs() {
		free[i] = [3]int64{int64(numa.CPUs.AndLen(u.FreeCPUs())), u.FreeMemory(i, topo.Memory) >> 20,
			int64(len(u.FreeDevices([]string{"acme.com/nic", "acme.com/gpu"}[i])))}
	}
	names := slices.Sorted(maps.Keys(n.live))
	text := fmt.Sprint(free, names)
	if !n.signed {
		text = fmt.Sprint(free)
	}
	if text == n.written {
		return
	}
	n.written = text
	n.version++
	o := wideMiB(n.version, free[0], free[1])
	if n.signed {
		o = signed(o, names...)
	}
	n.late = append(n.late, o)
}

func (n *wideNode) deliver() {
	for _, o := range n.late {
		n.feed.Topology(o)
	}
	n.late = nil
}

func (n *wideNode) draw() *v1.Pod {
	n.next++
	name := fmt.Sprint("web-", rapid.IntRange(0, 5).Draw(n.t, "name"))
	mib := 1024 * rapid.IntRange(1, 8).Draw(n.t, "gib")
	if n.hidden(name) {
		mib++ // no visible pod takes its place unnoticed
	}
	text := fmt.Sprintf("cpu=%d memory=%dMi", rapid.IntRange(1, 6).Draw(n.t, "cpus"), mib)
	switch rapid.IntRange(0, 2).Draw(n.t, "device") {
	case 1:
		text += " acme.com/nic=1"
	case 2:
		text += " acme.com/gpu=1"
	}
	p := member(name, fmt.Sprint("uid-", n.next), text)
	if n.stages {
		part := func(most int) string {
			some := rapid.IntRange(1, most)
			return fmt.Sprintf("cpu=%d memory=%dGi", some.Draw(n.t, "cpus"), some.Draw(n.t, "gib"))
		}
		p.Spec.InitContainers = []v1.Container{podtest.Exact("i", part(10))}
		if rapid.Bool().Draw(n.t, "two") {
			p.Spec.Containers = append(p.Spec.Containers, podtest.Exact("d", part(4)))
		}
	}
	return p
}

// admit makes the kubelet decide about a pod, and returns whether it admits it.
func (n *wideNode) admit(p *v1.Pod) bool {
	spec, err := apipod.ToPlace(p)
	if err != nil {
		n.t.Fatal(err)
	}
	v := place.Place(n.usage(), spec)
	if v.Fits() {
		n.live[p.Name] = &wideMember{p, v.Holdings}
		if !n.hidden(p.Name) {
			n.feed.Pod(p)
			n.feed.Pod(start(p))
		}
	}
	return v.Fits()
}

// bind makes the scheduler bind a pod if it fits; the kubelet then has to admit it.
func (n *wideNode) bind(p *v1.Pod) {
	spec, err := apipod.ToPlace(p)
	if err != nil {
		n.t.Fatal(err)
	}
	if v, ok := n.book.Reserve("n", ID(p), spec, place.Demand{}); !ok || !v.Fits() {
		return
	}
	if v, wait, err := n.book.Turn(string(p.UID), 0); wait != nil || err != nil || !v.Fits() {
		n.book.Unreserve(string(p.UID))
		return
	}
	if n.admit(p) {
		return
	}
	if !n.hides {
		n.t.Fatalf("the kubelet refuses %s %s: %s", p.Name, p.UID, amounts(n.book, "n"))
	}
	p = start(p)
	p.Status.Phase, p.Status.Reason = v1.PodFailed, "TopologyAffinityError"
	n.feed.Pod(p)
}

func (n *wideNode) end(name string) {
	p := n.live[name].pod
	delete(n.live, name)
	if !n.hidden(name) {
		n.feed.PodGone(deleting(start(p)))
	}
}

// hidden reports whether pods of a name are missing at the API server.
func (n *wideNode) hidden(name string) bool { return n.hides && name == "web-0" }

// actions are the events of the node.
func (n *wideNode) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"bind": func(t *rapid.T) {
			if p := n.draw(); n.live[p.Name] == nil && !n.hidden(p.Name) {
				n.bind(p)
			}
		},
		"foreign": func(t *rapid.T) {
			if p := n.draw(); n.live[p.Name] == nil {
				n.admit(p)
			}
		},
		"end": func(t *rapid.T) {
			if names := slices.Sorted(maps.Keys(n.live)); len(names) > 0 {
				n.end(rapid.SampledFrom(names).Draw(t, "which"))
			}
		},
		"begin": func(t *rapid.T) {
			if names := slices.Sorted(maps.Keys(n.live)); n.stages && len(names) > 0 {
				n.begin(rapid.SampledFrom(names).Draw(t, "which"))
			}
		},
		"look":    func(*rapid.T) { n.look() },
		"deliver": func(*rapid.T) { n.deliver() },
		"settle": func(t *rapid.T) {
			n.look()
			n.deliver()
			n.clock.pass(settlePeriod)
			if !n.stages {
				n.usesAll()
			}
		},
	}
}

// Names are used again while reports are late or unchanged. No pod is bound that the kubelet would refuse; and once the
// exporter has had time to read the node, all free resources can be used.
func TestNamesThatComeAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := newWideNode(t)
		t.Repeat(n.actions())
	})
}

// Pods keep what their init containers leave, which no report shows.
func TestNamesThatComeAgainWithInitContainers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := newWideNode(t)
		n.stages = true
		t.Repeat(n.actions())
	})
}

// Reports contain holdings of pods that are never seen. All free resources can be used nevertheless.
func TestPodsThatAreNeverSeenBlockNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := newWideNode(t)
		n.hides = true
		t.Repeat(n.actions())
	})
}

// usesAll fails if the node seems to have less free than it has.
func (n *wideNode) usesAll() {
	u, s := n.usage(), n.book.Snapshot().Node("n")
	if s.Unsettled {
		n.t.Fatalf("the node is unsettled for good: %s", amounts(n.book, "n"))
	}
	for i, numa := range n.machine.NUMAs() {
		cpus, gib := numa.CPUs.AndLen(u.FreeCPUs()), u.FreeMemory(i, topo.Memory)>>30
		if cpus == 0 || gib == 0 {
			continue
		}
		text := fmt.Sprintf("cpu=%d memory=%dGi", cpus, gib)
		spec, err := apipod.ToPlace(podtest.Pod("probe", podtest.Exact("c", text)))
		if err != nil {
			n.t.Fatal(err)
		}
		if !s.Fits(spec) {
			n.t.Fatalf("NUMA node %d has %s free, and a pod of as much is refused: %s, %d other states", i, text,
				amounts(n.book, "n"), len(s.Others))
		}
	}
}
