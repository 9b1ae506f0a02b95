package plugin

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/provisioning"
	"github.com/tenon-numa/tenon/scheduler/capacity"
	"github.com/tenon-numa/tenon/scheduler/follow"
)

// BenchmarkBesideRequests measures what ProvisioningRequests that wait take from pods that have nothing to do with
// them: how long the scheduling cycle of such a pod takes while requests wait and are tried again after each change,
// and while they are not. One scheduler does both in turns, a few seconds each, on nodes of 30 pods each. Every pod
// that is placed, and every one that goes, is a change.
//
// The turns follow each other in pairs, so that what else the machine does falls on both; of the ratios, the one in
// the middle counts. CPU time for a pod is that of the process without the goroutine that answers requests, whose time
// is reported apart.
func BenchmarkBesideRequests(b *testing.B) {
	for _, waiting := range []int{100, 1000} {
		b.Run(fmt.Sprint("waiting=", waiting), func(b *testing.B) {
			y := newYard(b, 5000, 95)
			y.small(30)
			q := y.openQueue(b, waiting)
			for q.stored.Load() < int64(waiting) { // until all were tried once
				q.asked.Store(true)
				q.answers.Kick()
				time.Sleep(100 * time.Millisecond)
			}
			var all [2][]turn
			for b.Loop() {
				for i, asked := range []bool{false, true} {
					all[i] = append(all[i], q.turn(b, asked))
				}
			}
			reportTurns(b, all)
		})
	}
}

// turn is what pods took that were scheduled one after the other.
type turn struct {
	cycles    []time.Duration // ascending
	sum, cpu  time.Duration
	kilobytes float64
	rounds    int64
	answers   time.Duration // CPU time
	wall      time.Duration
}

func (t *turn) at(percent int) time.Duration { return t.cycles[len(t.cycles)*percent/100] }

// reportTurns reports the turns in which requests were left alone, and those in which they were tried.
func reportTurns(b *testing.B, all [2][]turn) {
	for i, name := range []string{"alone", "beside"} {
		var sum turn
		for _, t := range all[i] {
			sum.cycles = append(sum.cycles, t.cycles...)
			sum.cpu, sum.wall, sum.answers = sum.cpu+t.cpu, sum.wall+t.wall, sum.answers+t.answers
			sum.rounds, sum.kilobytes = sum.rounds+t.rounds, sum.kilobytes+t.kilobytes
		}
		slices.Sort(sum.cycles)
		pods := float64(len(sum.cycles))
		for _, percent := range []int{50, 99} {
			b.ReportMetric(float64(sum.at(percent).Microseconds()), fmt.Sprintf("%s-p%d-us", name, percent))
		}
		b.ReportMetric(float64((sum.cpu-sum.answers).Microseconds())/pods, name+"-cpu-us/pod")
		b.ReportMetric(sum.kilobytes/pods, name+"-kB/pod")
		if sum.rounds > 0 {
			b.ReportMetric(float64(sum.rounds)/sum.wall.Seconds(), "rounds/s")
			b.ReportMetric(float64(sum.answers.Milliseconds())/float64(sum.rounds), "cpu-ms/round")
			b.ReportMetric(100*sum.answers.Seconds()/sum.wall.Seconds(), "%-of-a-cpu")
		}
	}
	for name, of := range map[string]func(t turn) float64{
		"x-mean": func(t turn) float64 { return t.sum.Seconds() / float64(len(t.cycles)) },
		"x-p50":  func(t turn) float64 { return t.at(50).Seconds() },
		"x-p99":  func(t turn) float64 { return t.at(99).Seconds() },
	} {
		var ratios []float64
		for i := range all[0] {
			ratios = append(ratios, of(all[1][i])/of(all[0][i]))
		}
		slices.Sort(ratios)
		b.ReportMetric(ratios[len(ratios)/2], name)
	}
	b.ReportMetric(0, "ns/op")
}

// small has more pods run on each node, so many with those that the yard has, that no kubelet aligns.
func (y *yard) small(pods int) {
	on := map[string]int{}
	for _, p := range y.running {
		on[p.Spec.NodeName]++
	}
	for _, n := range y.nodes {
		for i := on[n.Name]; i < pods; i++ {
			p := podOf(fmt.Sprintf("small-%s-%d", n.Name, i), "memory=64Mi")
			p.Spec.Containers[0].Resources.Limits = nil
			y.running = append(y.running, bind(p, n.Name))
		}
	}
}

// queue is a scheduler that answers requests while asked is set.
type queue struct {
	*contender
	answers *capacity.Controller
	asked   atomic.Bool
	rounds  atomic.Int64
	worked  atomic.Int64 // the CPU time of the goroutine that answers, in nanoseconds
	*asking
	// idle gets a value when requests were left alone because asked is not set.
	idle chan struct{}
	pods follow.Gathered // as events would show them
	y    *yard
}

// openQueue returns a scheduler to which requests have come that have no room: their pods need more CPUs of one NUMA
// node than any has.
func (y *yard) openQueue(b *testing.B, waiting int) *queue {
	q := &queue{contender: y.open(b, "tenon", shippedProfile(b)), idle: make(chan struct{}, 1), y: y}
	s := q.shared
	s.any, s.promises = q.f, s.newKeeper()
	s.promises.Open()
	core := q.f.SharedInformerFactory().Core().V1()
	var err error
	for _, n := range y.nodes {
		err = errors.Join(err, core.Nodes().Informer().GetIndexer().Add(n))
	}
	for _, p := range y.running {
		err = errors.Join(err, core.Pods().Informer().GetIndexer().Add(p))
		q.pods.OnAdd(p, true)
	}
	if err != nil {
		b.Fatal(err)
	}
	r := newAsking(q.f.ProfileName(), waiting)
	q.asking = r
	leads := func() bool {
		q.worked.Store(usedBy(b, syscall.RUSAGE_THREAD))
		if q.asked.Load() {
			q.rounds.Add(1)
			return true
		}
		select {
		case q.idle <- struct{}{}:
		default:
		}
		return false
	}
	q.answers = capacity.New(r, seen{s, q.f, r.templates, &q.pods}, s.promises, leads, time.Now, klog.Background())
	s.Book.OnChange(func(string) { q.answers.Kick() })
	go func() {
		goruntime.LockOSThread() // or its CPU time is not known
		q.answers.Run(b.Context())
	}()
	return q
}

// rest has requests left alone, and returns once they are.
func (q *queue) rest() {
	q.asked.Store(false)
	for range cap(q.idle) + 1 { // one may be from before
		q.answers.Kick()
		<-q.idle
	}
}

// turn schedules pods for some seconds.
func (q *queue) turn(b *testing.B, asked bool) (t turn) {
	const long, many = 5 * time.Second, 32
	q.rest()
	rounds, answers := q.rounds.Load(), q.worked.Load()
	q.asked.Store(asked)
	pods := q.f.SharedInformerFactory().Core().V1().Pods().Informer().GetIndexer()
	cpu, garbage, began := used(b), allocated(), time.Now()
	for time.Since(began) < long {
		for _, pod := range q.y.pods(many) {
			at := time.Now()
			q.schedule(b, pod)
			took := time.Since(at)
			t.cycles, t.sum = append(t.cycles, took), t.sum+took
			bound := q.came[len(q.came)-1]
			if err := pods.Add(bound); err != nil {
				b.Fatal(err)
			}
			q.pods.OnAdd(bound, false)
		}
		gone := slices.Clone(q.came[:max(0, len(q.came)-many)])
		q.leave(b, many)
		for _, pod := range gone {
			q.shared.flights.End(string(pod.UID))
			if err := pods.Delete(pod); err != nil {
				b.Fatal(err)
			}
			q.pods.OnDelete(pod)
		}
	}
	t.cpu, t.kilobytes, t.wall = time.Duration(used(b)-cpu), float64(allocated()-garbage)/1e3, time.Since(began)
	q.rest()
	t.rounds, t.answers = q.rounds.Load()-rounds, time.Duration(q.worked.Load()-answers)
	slices.Sort(t.cycles)
	return t
}

// asking has requests and their templates, as an API server has them.
type asking struct {
	requests  provisioning.RequestList
	templates corev1.CoreV1Interface
	changes   *watch.FakeWatcher
	stored    atomic.Int64
}

// newAsking returns requests of many shapes for pods of a profile.
func newAsking(profile string, waiting int) *asking {
	client := fake.NewClientset()
	a := &asking{templates: client.CoreV1(), changes: watch.NewFake()}
	a.requests.ResourceVersion = "1"
	for i := range waiting {
		name := fmt.Sprintf("r%04d", i)
		amounts := v1.ResourceList{"cpu": *resource.NewQuantity(int64(18+i%15), resource.DecimalSI),
			"memory": *resource.NewQuantity(1<<30+int64(i)<<20, resource.BinarySI)}
		t := &v1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name}}
		t.Template.Annotations = map[string]string{apipod.PolicyAnnotation: "single-numa-node"}
		t.Template.Spec = v1.PodSpec{SchedulerName: profile, Containers: []v1.Container{{Name: "c",
			Resources: v1.ResourceRequirements{Requests: amounts, Limits: amounts}}}}
		if err := client.Tracker().Add(t); err != nil {
			panic(err)
		}
		a.requests.Items = append(a.requests.Items, provisioning.Request{ObjectMeta: metav1.ObjectMeta{Namespace: "ml",
			Name: name, UID: types.UID(name), ResourceVersion: "1", CreationTimestamp: metav1.Unix(1e9+int64(i), 0)},
			Spec: provisioning.Spec{ProvisioningClassName: apipod.Class, PodSets: []provisioning.PodSet{{Count: int32(1 + i%2),
				PodTemplateRef: provisioning.Reference{Name: name}}}}})
	}
	return a
}

// List implements capacity.Requests.
func (a *asking) List(context.Context, metav1.ListOptions) (*provisioning.RequestList, error) {
	out := a.requests
	return &out, nil
}

// Watch implements capacity.Requests.
func (a *asking) Watch(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if o.SendInitialEvents != nil {
		return nil, errors.New("only a list has the requests that there are")
	}
	return a.changes, nil
}

// SetStatus implements capacity.Requests.
func (a *asking) SetStatus(_ context.Context, r *provisioning.Request) error {
	r.ResourceVersion = fmt.Sprint(1 + a.stored.Add(1))
	a.changes.Modify(r)
	return nil
}
