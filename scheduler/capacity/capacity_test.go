package capacity

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/provisioning"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/stage"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/core/whatif"
	"github.com/tenon-numa/tenon/scheduler/promise"
)

// stored has requests and templates as an API server has them. Its nodes are a ledger's.
type stored struct {
	book      *ledger.Book
	nodes     []v1.Node
	pods      []*v1.Pod
	templates map[string]*v1.PodTemplate
	objects   cache.Store // requests
	waits     map[provisioning.First]bool
	version   int
	fail      error // of the next write of a status
	lands     bool  // the write that fails is stored all the same
	delay     func()
}

func (s *stored) List(context.Context, metav1.ListOptions) (*provisioning.RequestList, error) {
	return &provisioning.RequestList{}, nil
}

func (s *stored) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return watch.NewFake(), nil
}

// SetStatus stores a status, as the API server does.
func (s *stored) SetStatus(_ context.Context, r *provisioning.Request) error {
	s.wait()
	err := s.fail
	if s.fail = nil; err != nil && !s.lands {
		return err
	}
	s.version++
	next, _ := r.DeepCopyObject().(*provisioning.Request)
	next.ResourceVersion = fmt.Sprint(s.version)
	return cmp.Or(s.objects.Update(next), err)
}

func (s *stored) Stage(of *stage.Requests) (*stage.Stage, error) {
	v := &kube.View{Nodes: slices.Clone(s.nodes), States: slices.Collect(s.book.Snapshot().All()),
		Served: map[string]bool{}}
	for _, p := range s.pods {
		v.Pods = append(v.Pods, (*kube.Whole)(p))
	}
	return stage.OfAgain(v, of)
}

func (s *stored) Using(string) []*v1.Pod                { return nil }
func (s *stored) Owned(string, string, int64) []*v1.Pod { return nil }

func (s *stored) Waits(namespace, name string, uid types.UID) bool {
	return s.waits[provisioning.First{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}, UID: uid}]
}

func (s *stored) Broken(node string) bool { return !s.book.Snapshot().Node(node).Keeps() }

func (s *stored) Rules(scheduler string) (whatif.Rules, bool) {
	return whatif.Rules{}, scheduler == "tenon-scheduler"
}

func (s *stored) wait() {
	if s.delay != nil {
		s.delay()
	}
}

func (s *stored) Template(_ context.Context, _, name string) (*v1.PodTemplate, error) {
	s.wait()
	if t := s.templates[name]; t != nil {
		return t, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "podtemplates"}, name)
}

// world is a controller on some nodes of two NUMA nodes with the given number of CPUs each.
type world struct {
	*stored
	*Controller
	keeper *promise.Keeper
	time   time.Time
}

func newWorld(t testing.TB, nodes, cpus int) *world {
	t.Helper()
	m, err := topo.ParseMachine(fmt.Sprintf("numa 0 socket 0 cpus 0-%d memory 512Gi\n"+
		"numa 1 socket 1 cpus %d-%d memory 512Gi\n", cpus-1, cpus, 2*cpus-1))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{stored: &stored{book: ledger.New(), templates: map[string]*v1.PodTemplate{},
		objects: cache.NewStore(cache.MetaNamespaceKeyFunc)}, time: time.Unix(1e9, 0)}
	rules := place.Rules{Topology: place.TopologyRules{Policy: place.SingleNUMA}, CPU: place.CPURules{Static: true}}
	for i := range nodes {
		name := fmt.Sprintf("n%04d", i)
		w.book.Report(name, state.Layout{Machine: m, Rules: rules})
		w.nodes = append(w.nodes, v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name},
			Status: v1.NodeStatus{Allocatable: v1.ResourceList{"cpu": *resource.NewQuantity(int64(2*cpus), resource.DecimalSI),
				"memory": resource.MustParse("1000Gi"), "pods": resource.MustParse("250")}}})
	}
	w.start()
	return w
}

// start starts the controller, in place of the one before.
func (w *world) start() {
	w.keeper = promise.NewKeeper(w.book, func(node string, list []state.Promised, _ whatif.Amounts) bool {
		n := *w.book.Snapshot().Node(node)
		n.Promised = list
		return n.Keeps()
	}, func(string) {}, func(string) {})
	w.Controller = New(w.stored, w.stored, w.keeper, func() bool { return true }, func() time.Time { return w.time },
		klog.Background())
	w.store = w.objects
}

// ask stores a request for equal pods.
func (w *world) ask(name string, count, cpus int) {
	amounts := v1.ResourceList{"cpu": *resource.NewQuantity(int64(cpus), resource.DecimalSI),
		"memory": resource.MustParse("1Gi")}
	w.templates[name] = &v1.PodTemplate{Template: v1.PodTemplateSpec{Spec: v1.PodSpec{SchedulerName: "tenon-scheduler",
		Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Limits: amounts}}}}}}
	w.version++
	r := &provisioning.Request{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID(name),
		ResourceVersion: fmt.Sprint(w.version), CreationTimestamp: metav1.NewTime(w.time)},
		Spec: provisioning.Spec{ProvisioningClassName: pod.Class, PodSets: []provisioning.PodSet{{Count: int32(count),
			PodTemplateRef: provisioning.Reference{Name: name}}}}}
	if err := w.objects.Add(r); err != nil {
		panic(err)
	}
}

// said returns a condition of a request, "True: MESSAGE", or "".
func (w *world) said(name, kind string) string {
	o, _, _ := w.objects.GetByKey("ml/" + name)
	r, _ := o.(*provisioning.Request)
	if c := meta.FindStatusCondition(r.Status.Conditions, kind); c != nil {
		return string(c.Status) + ": " + c.Message
	}
	return ""
}

func (w *world) wants(t *testing.T, name, kind, part string) {
	t.Helper()
	if got := w.said(name, kind); !strings.HasPrefix(got, part) {
		t.Errorf("request %s has %s %q, want %q", name, kind, got, part)
	}
}

// Of small pods, far fewer places are kept on a node than would fit there. The request gets other nodes for the rest.
func TestManySmallPodsGetPlacesOnMoreNodes(t *testing.T) {
	w := newWorld(t, 20, 64)
	w.ask("small", 400, 1)
	w.round(t.Context())
	w.wants(t, "small", provisioning.Provisioned, "True: all 400 pods fit now")
	for i := range 12 {
		w.ask(fmt.Sprint("other", i), 20, 2+i%3)
	}
	for range 10 {
		w.round(t.Context())
	}
	for i := range 12 {
		w.wants(t, fmt.Sprint("other", i), provisioning.Provisioned, "True: all 20 pods fit now")
	}
}

// Pods of a controller are held back while a request that asks for it has no room, at most until its time is over.
func TestPodsAreHeldBackWhileARequestHasNoRoom(t *testing.T) {
	w := newWorld(t, 1, 8)
	asks := func(name string, cpus int, parameters map[string]string) {
		w.ask(name, 1, cpus)
		o, _, _ := w.objects.GetByKey("ml/" + name)
		r, _ := o.(*provisioning.Request)
		r.Spec.Parameters = parameters
	}
	holds := func(name string) bool { return slices.Contains(w.keeper.Holding(), "ml/"+name) }
	set := func(seconds string) map[string]string {
		return map[string]string{provisioning.PodsOf: "set", provisioning.HoldSeconds: seconds}
	}
	w.fill("n0000", 0)
	asks("a", 5, set("60"))
	asks("short", 5, set("20"))
	asks("never", 9, set("600"))
	asks("no-owner", 5, map[string]string{provisioning.HoldSeconds: "60"})
	asks("too-long", 5, set("601"))
	asks("no-number", 5, set("x"))
	asks("fits-not-asked", 5, map[string]string{provisioning.PodsOf: "set"})
	w.round(t.Context())
	w.round(t.Context())
	for name, want := range map[string]bool{"a": true, "short": true, "never": false, "no-owner": false, "too-long": false,
		"no-number": false, "fits-not-asked": false} {
		if holds(name) != want {
			t.Errorf("request %s holds back pods: %t, want %t", name, holds(name), want)
		}
		if told := strings.Contains(w.said(name, provisioning.Provisioned), provisioning.HeldBack); told != want {
			t.Errorf("request %s has the message %q", name, w.said(name, provisioning.Provisioned))
		}
	}
	w.time = w.time.Add(20 * time.Second)
	w.round(t.Context())
	if holds("short") || !holds("a") {
		t.Errorf("after 20 seconds, pods are held back for %v", w.keeper.Holding())
	}
	w.fill("n0000", 6)
	w.round(t.Context())
	w.wants(t, "a", provisioning.Provisioned, "True")
	if holds("a") {
		t.Error("pods are held back for a request that has its room")
	}
	asks("b", 5, set("600"))
	w.round(t.Context())
	if !holds("b") {
		t.Error("pods are not held back")
	}
	o, _, _ := w.objects.GetByKey("ml/b")
	_ = w.objects.Delete(o)
	w.round(t.Context())
	if len(w.keeper.Holding()) > 0 {
		t.Errorf("pods are held back for %v, which are gone", w.keeper.Holding())
	}
}

// A request that holds back pods gets no room while a pod waits that has its turn first, at most until its time is
// over.
func TestARequestGetsNoRoomBeforePodsThatHaveTheirTurnFirst(t *testing.T) {
	w := newWorld(t, 1, 8)
	first := func(name string) provisioning.First {
		return provisioning.First{NamespacedName: types.NamespacedName{Namespace: "other", Name: name},
			UID: types.UID("uid-" + name)}
	}
	w.waits = map[provisioning.First]bool{first("one"): true, first("two"): true}
	for name, hold := range map[string]string{"held": "600", "short": "20", "holds-nothing": ""} {
		w.ask(name, 1, 2)
		o, _, _ := w.objects.GetByKey("ml/" + name)
		r, _ := o.(*provisioning.Request)
		r.Spec.Parameters = map[string]string{provisioning.PodsOf: "set", provisioning.HoldSeconds: hold}
		if err := provisioning.SetFirst(r.Spec.Parameters, slices.Collect(maps.Keys(w.waits))); err != nil {
			t.Fatal(err)
		}
	}
	behind := func(names ...string) {
		t.Helper()
		w.round(t.Context())
		for _, name := range []string{"held", "short", "holds-nothing"} {
			want := "True: the pod fits now"
			if slices.Contains(names, name) {
				want = "False: not now: pod other/"
			}
			w.wants(t, name, provisioning.Provisioned, want)
			if said := w.said(name, provisioning.Provisioned); strings.HasPrefix(said, "False") &&
				!strings.Contains(said, " has its turn first; "+provisioning.HeldBack) {
				t.Errorf("request %s has the message %q", name, said)
			}
		}
	}
	behind("held", "short")
	w.waits[first("one")] = false
	behind("held", "short")
	w.time = w.time.Add(20 * time.Second)
	behind("held")
	if holding := w.keeper.Holding(); !slices.Equal(holding, []string{"ml/held"}) {
		t.Errorf("pods are held back for %v", holding)
	}
	w.waits[first("two")] = false
	behind()
}

// A parameter that names no pod fails its request.
func TestARequestThatNamesNoPodFails(t *testing.T) {
	w := newWorld(t, 1, 8)
	w.ask("a", 1, 2)
	o, _, _ := w.objects.GetByKey("ml/a")
	r, _ := o.(*provisioning.Request)
	r.Spec.Parameters = map[string]string{provisioning.After + "0": "ml/name"}
	w.round(t.Context())
	w.wants(t, "a", provisioning.Failed, "True: parameter tenon.sh/after-0")
}

// A write that fails for certain gives the room back; one that may have been stored does not. A scheduler that starts
// keeps what the API server has, and a booking ends in time.
func TestRoomFollowsWhatIsWritten(t *testing.T) {
	w := newWorld(t, 1, 8)
	conflict := apierrors.NewConflict(schema.GroupResource{}, "a", nil)
	w.ask("a", 2, 8)
	w.fail = conflict
	w.round(t.Context())
	if w.keeper.Any() || strings.HasPrefix(w.said("a", provisioning.Provisioned), "True") {
		t.Error("room is kept for an answer that was not written")
	}
	w.fail, w.lands = apierrors.NewTimeoutError("slow", 1), true
	w.round(t.Context())
	w.wants(t, "a", provisioning.Provisioned, "True: all 2 pods")
	w.ask("b", 1, 1)
	w.round(t.Context())
	if left := w.keeper.Left()["ml/a"]; left != 2 {
		t.Errorf("%d places are kept for an answer that was stored", left)
	}
	w.wants(t, "b", provisioning.Provisioned, "False: 0 of 1 pods fit now")

	w.book.Promise("n0000", nil)
	w.start()
	w.round(t.Context())
	if left := w.keeper.Left()["ml/a"]; left != 2 {
		t.Errorf("after a restart, %d places are kept", left)
	}
	w.time = w.time.Add(599 * time.Second)
	w.round(t.Context())
	w.wants(t, "a", provisioning.BookingExpired, "")
	w.time = w.time.Add(2 * time.Second)
	w.lands, w.fail = false, conflict
	w.round(t.Context())
	w.round(t.Context())
	w.wants(t, "a", provisioning.BookingExpired, "True: the room of 2 pods")
	w.wants(t, "b", provisioning.Provisioned, "True: the pod fits")
}

// After a round that waited for the API server, the next one begins as soon as after a quick one. After one that
// worked, it begins later.
func TestAWaitForTheAPIServerIsNoWork(t *testing.T) {
	w := newWorld(t, 1, 8)
	w.ask("a", 1, 1)
	w.delay = func() { w.time = w.time.Add(3 * time.Second) }
	began := w.time
	w.round(t.Context())
	w.wants(t, "a", provisioning.Provisioned, "True")
	took := w.time.Sub(began)
	if idle, busy := w.rest(took), w.rest(took+time.Second); idle != pause || busy != 2*time.Second {
		t.Errorf("after a round of %s, which waited %s, the next one begins after %s, or with a second of work after %s",
			took, w.waited, idle, busy)
	}
}

// Requests that fit get their room although many others wait, and the API server is slow. It is written in turns why
// the others do not fit.
func TestRoomIsGivenFirst(t *testing.T) {
	w := newWorld(t, 1, 8)
	for i := range 9 {
		w.ask(fmt.Sprint("large", i), 3, 8)
	}
	w.ask("small", 1, 1)
	w.round(t.Context())
	w.wants(t, "small", provisioning.Provisioned, "True")
	w.time = w.time.Add(time.Minute) // why they do not fit is due again
	due := w.time
	w.delay = func() { w.time = w.time.Add(time.Second) }
	for i := range 9 {
		w.ask(fmt.Sprint("late", i), 1, 1)
		w.round(t.Context())
		w.wants(t, fmt.Sprint("late", i), provisioning.Provisioned, "True")
	}
	for i := range 9 {
		name := fmt.Sprint("large", i)
		if w.wants(t, name, provisioning.Provisioned, "False: "); w.known["ml/"+name].explained.Before(due) {
			t.Errorf("why request %s does not fit was not found out again", name)
		}
	}
}

// Requests whose templates are missing hold up no later one, however many they are and however slow the API server is.
func TestRequestsThatCannotBeReadHoldUpNoOther(t *testing.T) {
	w := newWorld(t, 1, 8)
	var mu sync.Mutex
	w.delay = func() {
		mu.Lock()
		defer mu.Unlock()
		w.time = w.time.Add(20 * time.Millisecond)
	}
	w.Controller.now = func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return w.time
	}
	for i := range 300 {
		w.ask(fmt.Sprint("lost", i), 1, 1)
		delete(w.templates, fmt.Sprint("lost", i))
	}
	for range 20 {
		w.time = w.time.Add(rereading)
		w.round(t.Context())
	}
	w.ask("job", 1, 1)
	w.round(t.Context())
	w.wants(t, "job", provisioning.Provisioned, "True")
	w.wants(t, "lost299", provisioning.Provisioned, "False: not now: there is no PodTemplate lost299")
}

// An explanation that could not be written is written in the next round.
func TestAnExplanationIsWrittenAgain(t *testing.T) {
	w := newWorld(t, 1, 8)
	w.ask("large", 1, 9)
	w.fail = apierrors.NewConflict(schema.GroupResource{}, "large", nil)
	w.round(t.Context())
	w.round(t.Context())
	w.wants(t, "large", provisioning.Failed, "True: Never")
}

// A node that lacked room for a request is left out until it has changed, and not much longer.
func TestANodeThatLackedRoomIsTriedOnceItHasChanged(t *testing.T) {
	w := newWorld(t, 1, 8)
	full := func() int {
		s, err := w.Stage(&stage.Requests{})
		if err != nil {
			t.Fatal(err)
		}
		d := &deciding{Controller: w.Controller, stage: s}
		r := w.known["ml/a"]
		if r.full == nil {
			r.full = map[string]lacking{"n0000": {w.time, d.stateOf("n0000")}}
		}
		return len(d.stillFull(r))
	}
	w.ask("a", 3, 8)
	w.round(t.Context())
	w.known["ml/a"].full = nil
	for _, x := range []struct {
		after time.Duration
		cpus  int // of a pod that is bound then
		want  int
	}{{0, 0, 1}, {9 * time.Second, 0, 1}, {0, 8, 0}} {
		if w.time = w.time.Add(x.after); x.cpus > 0 {
			p := &place.Pod{QoS: place.Guaranteed, Containers: []place.Container{{Name: "c", MilliCPU: int64(x.cpus) * 1000}}}
			w.book.Assume("n0000", state.PodID{UID: "foreign"}, p)
		}
		if n := full(); n != x.want {
			t.Errorf("after %s, with a pod of %d CPUs, %d nodes are left out, want %d", x.after, x.cpus, n, x.want)
		}
	}
}

// Room that is lost ends the booking after a grace, and not before. A request that does not fit because of a change is
// not said to fit never.
func TestRoomThatIsLost(t *testing.T) {
	w := newWorld(t, 1, 8)
	w.ask("a", 1, 8)
	w.round(t.Context())
	w.wants(t, "a", provisioning.Provisioned, "True")
	for i := range 2 { // another scheduler binds pods
		p := &place.Pod{QoS: place.Guaranteed, Containers: []place.Container{{Name: "c", MilliCPU: 5000,
			Memory: []place.Amount{{Kind: topo.Memory, Bytes: 1 << 30}}}}}
		w.book.Assume("n0000", state.PodID{UID: fmt.Sprint("foreign", i)}, p)
	}
	for range 5 {
		w.time = w.time.Add(6 * time.Second)
		w.round(t.Context())
		w.wants(t, "a", provisioning.BookingExpired, "")
	}
	if got := w.said("a", provisioning.BookingExpired); got != "" {
		t.Errorf("the booking ended at once: %s", got)
	}
	for range 3 {
		w.time = w.time.Add(6 * time.Second)
		w.round(t.Context())
	}
	w.wants(t, "a", provisioning.BookingExpired, "True: node n0000 has no room")
	if w.keeper.Any() {
		t.Error("room is kept after the booking has ended")
	}
}

// BenchmarkWaitingRequests measures a round of 1,000 requests that do not fit on 5,000 nodes, and of one that does.
func BenchmarkWaitingRequests(b *testing.B) {
	for _, nodes := range []int{100, 5000} {
		for _, waiting := range []int{1, 1000} {
			b.Run(fmt.Sprintf("nodes=%d/waiting=%d", nodes, waiting), func(b *testing.B) {
				w := newWorld(b, nodes, 16)
				for i := range waiting {
					w.ask(fmt.Sprint("r", i), 2*nodes+1+i%7, 12)
					if 2*nodes > provisioning.MaxPods {
						w.ask(fmt.Sprint("r", i), 8, 17)
					}
				}
				for b.Loop() {
					for _, r := range w.list() {
						r.sets = nil
					}
					w.round(b.Context())
				}
			})
		}
	}
}
