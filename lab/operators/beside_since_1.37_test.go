//go:build !upto1.36

package operators_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tenon-numa/tenon/api/provisioning"
	"github.com/tenon-numa/tenon/lab/scheduler"
	"github.com/tenon-numa/tenon/lab/workload"
)

// besideLabel is the label of the pods of a stream.
const besideLabel = "beside"

// At most streamMost pods of a stream are there at a time, and one comes every streamEvery. That is a quarter of the
// cluster's CPUs: the rest is for the jobs, and a large job needs nearly half of it.
const (
	streamMost  = 4
	streamEvery = 200 * time.Millisecond
)

// stream has pods without a request come and go beside the jobs, with shapes like theirs. Some end, and others are
// deleted while they run or have no node.
type stream struct {
	name      string
	scheduler string
	rand      *rand.Rand
	last      time.Time // when a pod came
	came      int
}

func newStream(name, schedulerName string) *stream {
	return &stream{name: name, scheduler: schedulerName, rand: rand.New(rand.NewPCG(*queueSeed, 1))}
}

// flow has pods come and go at a time. A nil stream has none.
func (s *stream) flow(ctx context.Context, w *world, r *record, now time.Time) error {
	if s == nil {
		return nil
	}
	pods := w.client.CoreV1().Pods(metav1.NamespaceDefault)
	for _, name := range r.leaving(now) {
		if err := pods.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete pod %s: %w", name, err)
		}
	}
	if now.Sub(s.last) < streamEvery || r.present() >= streamMost {
		return nil
	}
	j := job{name: fmt.Sprintf("%s%04d", s.name, s.came), pods: 1, cpus: drawCPUs(s.rand), runs: drawTime(s.rand)}
	r.comes(j, now.Add(2*drawTime(s.rand)))
	s.last, s.came = now, s.came+1
	p := j.pod()
	p.Labels, p.Spec.SchedulerName = map[string]string{besideLabel: ""}, s.scheduler
	return workload.Create(ctx, w.client, p)
}

// end deletes all pods of the stream.
func (s *stream) end(ctx context.Context, w *world) error {
	if s == nil {
		return nil
	}
	return w.client.CoreV1().Pods(metav1.NamespaceDefault).DeleteCollection(ctx, metav1.DeleteOptions{},
		metav1.ListOptions{LabelSelector: besideLabel})
}

// comes adds a pod of a stream to the record, which is deleted at a time at the latest.
func (r *record) comes(j job, leaves time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := &jobRecord{job: j, pods: map[string]*podRecord{}, leaves: leaves}
	r.beside, r.byName[j.name] = append(r.beside, x), x
}

// present returns how many pods of a stream are there.
func (r *record) present() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, j := range r.beside {
		if !j.over {
			n++
		}
	}
	return n
}

// leaving returns the pods of a stream that have ended, or have been there for long enough, once each.
func (r *record) leaving(now time.Time) (names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, j := range r.beside {
		for _, p := range j.pods {
			if !j.over && !j.leaves.IsZero() && (!p.ended.IsZero() || now.After(j.leaves)) {
				j.leaves, p.beingStopped = time.Time{}, true
				names = append(names, j.name)
			}
		}
	}
	return names
}

// gone records that an object was deleted.
func (r *record) gone(o any) {
	if t, is := o.(cache.DeletedFinalStateUnknown); is {
		o = t.Obj
	}
	p, is := o.(*v1.Pod)
	if !is {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, j := range slices.Concat(r.jobs, r.beside) {
		x := j.pods[string(p.UID)]
		if x == nil {
			continue
		}
		if x.ended.IsZero() {
			x.ended = time.Now()
		}
		j.over = j.over || j.queue == "" // a pod of a stream
	}
}

// idle returns how many CPUs have no pod.
func (r *record) idle() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := crowdCPUs
	for _, j := range slices.Concat(r.jobs, r.beside) {
		for _, p := range j.pods {
			if !p.bound.IsZero() && p.ended.IsZero() {
				n -= j.cpus
			}
		}
	}
	return n
}

// event records the scheduler's event about a pod that a kubelet has refused.
func (r *record) event(o any) {
	e, ok := o.(*eventsv1.Event)
	if !ok || e.Reason != "PlacementRefused" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes[string(e.Regarding.UID)] = e.Note
}

// see records the conditions of a request of the job.
func (j *jobRecord) see(x *provisioning.Request) {
	j.asked = true
	for _, c := range x.Status.Conditions {
		if c.Type == provisioning.BookingExpired && c.Status == metav1.ConditionTrue && c.Reason == "RoomLost" {
			j.lost = c.Message
		}
	}
}

// besides is how the pods of a stream went.
type besides struct {
	came, ran, refused int
	without            int     // were deleted without ever having a node
	busy               float64 // CPU seconds with such a pod
}

// besides must be called with the lock.
func (r *record) besides() (out besides) {
	for _, j := range r.beside {
		out.came++
		for _, p := range j.pods {
			switch {
			case p.refused:
				out.refused++
			case !p.runs.IsZero():
				out.ran++
			case p.bound.IsZero():
				out.without++
			}
			if !p.bound.IsZero() && !p.ended.IsZero() {
				out.busy += p.ended.Sub(p.bound).Seconds() * float64(j.cpus)
			}
		}
	}
	return out
}

// The explanations that the product gives for a pod of an admitted job that waited or was refused.
const (
	byCondition = "the pod's condition: the room kept for it is lost"
	byDoubt     = "the pod's condition: the room kept for it may be lost"
	byRequest   = "the request's condition BookingExpired: RoomLost"
	byAnother   = "another request"
	byEvent     = "the event PlacementRefused of a refused pod"
	byRefused   = "that event, of the pod that it replaces"
	byNothing   = "nothing"
)

// roomLost is in the condition of a pod for which a node has kept room and has lost it, and roomUnsure in that of a pod
// whose node has not reported since it got a pod that may have taken the room.
const (
	roomLost   = " lost the room that was kept for"
	roomUnsure = "not reported yet whether the room that is kept"
)

// causes returns the product's explanations for the pods of a job that waited or were refused, each once, and logs
// them. It must be called with the lock.
func (r *record) causes(t *testing.T, j *jobRecord) (out []string) {
	t.Helper()
	for _, p := range j.pods {
		if !p.refused && p.late() <= patience && !p.stuck() {
			continue
		}
		cause, text := r.cause(j, p)
		t.Logf("a pod of job %s that waited %s, bound after %s, refused %t, is explained by %s: %s", j.name, p.late(),
			p.bound.Sub(p.came), p.refused, cause, text)
		if !slices.Contains(out, cause) {
			out = append(out, cause)
		}
	}
	return out
}

// stuck reports whether the pod had no node for long, whatever its condition was: it may have been chosen one, and then
// have waited to be bound.
func (p *podRecord) stuck() bool { return !p.bound.IsZero() && p.bound.Sub(p.came) > 10*patience }

// cause returns the product's explanation for a pod that waited or was refused.
func (r *record) cause(j *jobRecord, p *podRecord) (cause, text string) {
	if note := r.notes[p.uid]; p.refused && note != "" {
		return byEvent, note
	}
	switch {
	case p.refused:
		return byNothing, p.why
	case strings.Contains(p.lost, roomLost):
		return byCondition, p.lost
	case p.lost != "":
		return byDoubt, p.lost
	case j.lost != "":
		return byRequest, j.lost
	}
	for _, q := range j.pods {
		if note := r.notes[q.uid]; q.refused && note != "" && q.ended.Before(p.waits) {
			return byRefused, note
		}
	}
	if j.again {
		return byAnother, ""
	}
	return byNothing, p.why
}

// addCauses adds rows about the jobs that waited or were refused, and about the pods beside them.
func addCauses(t *rows) {
	t.add("jobs that waited or were refused, explained by", func(result) string { return "" })
	for _, cause := range []string{byCondition, byDoubt, byRequest, byEvent, byRefused, byAnother, byNothing} {
		t.add("  "+cause, count(func(r result) int { return r.causes[cause] }))
	}
	t.add("longest time from an admitted pod's creation to its binding",
		seconds(func(r result) time.Duration { return r.slowest }))
	t.add("times that a node lost room that it kept", count(func(r result) int { return r.lost }))
	t.add("pods beside the queue", count(func(r result) int { return r.beside.came }))
	t.add("  that ran", count(func(r result) int { return r.beside.ran }))
	t.add("  that a kubelet refused", count(func(r result) int { return r.beside.refused }))
	t.add("  that were deleted before they had a node", count(func(r result) int { return r.beside.without }))
	t.add("  CPUs that they had, on average",
		func(r result) string { return fmt.Sprintf("%.1f", r.beside.busy/r.took.Seconds()) })
}

// Jobs go through Kueue with the admission check while other pods come and go. Pods of the same scheduler, of equal
// priority, take no room that is kept: no admitted pod waits. kube-scheduler knows nothing of that room, and takes it:
// then conditions and events explain why an admitted pod waits or is refused.
func TestKueueStartsJobsBesideOtherPods(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	w := startCrowd(ctx, t)
	plain, err := scheduler.Start(t.TempDir(), w.SchedulerKubeconfig, scheduler.Plain, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plain.Stop(); err != nil {
			t.Error(err)
		}
	})
	own, foreign := w.crowd(ctx, t, byRoom, newStream("own", "tenon-scheduler")), result{}
	if !t.Failed() {
		foreign = w.crowd(ctx, t, byRoom, newStream("foreign", v1.DefaultSchedulerName))
	}
	text := table(column{"tenon-scheduler", own}, column{"kube-scheduler", foreign})
	t.Logf("%d jobs, seed %d, on %d nodes with %d CPUs for pods, beside pods of\n%s", *queueJobs, *queueSeed, crowdNodes,
		crowdCPUs, text)
	if n := own.waited + own.refused; n > 0 {
		t.Errorf("%d jobs that had room have pods that waited or were refused", n)
	}
	if n := own.again + own.failed + own.expired + own.beside.refused; n > 0 {
		t.Errorf("beside pods of tenon-scheduler, %d requests were made again, %d failed, %d expired; %d other pods were "+
			"refused", own.again, own.failed, own.expired, own.beside.refused)
	}
	if own.beside.ran == 0 || foreign.beside.ran == 0 {
		t.Error("no other pods ran")
	}
	if n := foreign.causes[byNothing]; n > 0 {
		t.Errorf("%d jobs waited or were refused, and the product does not say why", n)
	}
}
