//go:build !upto1.36

package operators_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/tenon-numa/tenon/api/provisioning"
)

// record has what has happened to jobs, as the API server showed it.
type record struct {
	mu                             sync.Mutex
	jobs                           []*jobRecord // in the order of their creation
	byName                         map[string]*jobRecord
	asked, again, failed, expired  int               // requests
	seenFailed, seenEnd, seenAsked map[string]bool   // by name
	beside                         []*jobRecord      // the pods of a stream, each as a job of one pod
	notes                          map[string]string // of the events PlacementRefused, by the UID of the pod
}

// jobRecord is what has happened to a job.
type jobRecord struct {
	job
	there, admitted, over bool
	asked                 bool                  // there is a request
	pods                  map[string]*podRecord // by UID
	lost                  string                // the message of a request that has lost its room
	again                 bool                  // there is another request
	leaves                time.Time             // when a pod of a stream is deleted
}

// podRecord is what has happened to a pod, and when it was seen.
type podRecord struct {
	uid, node             string
	came, waits, bound    time.Time // waits: the scheduler reported that it fits nowhere
	runs, ended           time.Time
	why                   string // it waits, or was refused
	lost                  string // as why, of an attempt for which the room was lost that was kept for it
	refused, beingStopped bool
}

func newRecord(jobs []job) *record {
	r := &record{byName: map[string]*jobRecord{}, seenFailed: map[string]bool{}, seenEnd: map[string]bool{},
		seenAsked: map[string]bool{}, notes: map[string]string{}}
	for _, j := range jobs {
		x := &jobRecord{job: j, pods: map[string]*podRecord{}}
		r.jobs, r.byName[j.name] = append(r.jobs, x), x
	}
	return r
}

// follow records what happens until the context ends.
func (w *world) follow(ctx context.Context, t *testing.T, r *record) {
	t.Helper()
	handle := func(do func(o any)) cache.ResourceEventHandlerFuncs {
		return cache.ResourceEventHandlerFuncs{AddFunc: do, UpdateFunc: func(_, o any) { do(o) }, DeleteFunc: r.gone}
	}
	f := informers.NewSharedInformerFactory(w.client, 0)
	for _, x := range []struct {
		informer cache.SharedInformer
		do       func(any)
	}{{f.Core().V1().Pods().Informer(), r.pod}, {f.Batch().V1().Jobs().Informer(), r.job},
		{f.Events().V1().Events().Informer(), r.event}} {
		if _, err := x.informer.AddEventHandler(handle(x.do)); err != nil {
			t.Fatal(err)
		}
	}
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop); f.Shutdown() })
	f.Start(stop)
	f.WaitForCacheSync(ctx.Done())
	requests, err := provisioning.NewClient(w.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	lw := &cache.ListWatch{WatchFuncWithContext: requests.Watch,
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return requests.List(ctx, o)
		}}
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{ListerWatcher: lw,
		ObjectType: &provisioning.Request{}, Handler: handle(r.request)})
	go informer.RunWithContext(ctx)
}

// pod records a change of a pod.
func (r *record) pod(o any) {
	p, ok := o.(*v1.Pod)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	j := r.byName[cmp.Or(p.Labels["batch.kubernetes.io/job-name"], p.Name)]
	if j == nil {
		return
	}
	x := j.pods[string(p.UID)]
	if x == nil {
		x = &podRecord{uid: string(p.UID), came: time.Now()}
		j.pods[x.uid] = x
	}
	now := func(at *time.Time) {
		if at.IsZero() {
			*at = time.Now()
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse && c.Reason == v1.PodReasonUnschedulable {
			now(&x.waits)
			x.why = c.Message
			lost, known := strings.Contains(c.Message, roomLost), strings.Contains(x.lost, roomLost)
			if lost || !known && strings.Contains(c.Message, roomUnsure) {
				x.lost = c.Message
			}
		}
	}
	if p.Spec.NodeName != "" {
		x.node = p.Spec.NodeName
		now(&x.bound)
	}
	switch p.Status.Phase {
	case v1.PodRunning:
		now(&x.runs)
	case v1.PodFailed:
		x.refused, x.why = true, p.Status.Reason+": "+p.Status.Message // no container of the lab fails
		now(&x.ended)
	case v1.PodSucceeded:
		now(&x.ended)
	}
}

// job records a change of a Job.
func (r *record) job(o any) {
	object, ok := o.(*batchv1.Job)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	j := r.byName[object.Name]
	if j == nil {
		return
	}
	j.there = true
	j.admitted = j.admitted || object.Spec.Suspend != nil && !*object.Spec.Suspend
	for _, c := range object.Status.Conditions {
		ends := c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed
		j.over = j.over || ends && c.Status == v1.ConditionTrue
	}
}

// request records a change of a ProvisioningRequest. Kueue numbers the requests of a job, and makes another one when it
// tries again.
func (r *record) request(o any) {
	x, ok := o.(*provisioning.Request)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	j := r.byName[jobOf(x.Name)]
	if j == nil {
		return // of an earlier crowd
	}
	j.see(x)
	count := func(n *int, seen map[string]bool) {
		if !seen[x.Name] {
			seen[x.Name] = true
			*n++
		}
	}
	if strings.HasSuffix(x.Name, "-1") {
		count(&r.asked, r.seenAsked)
	} else {
		count(&r.again, r.seenAsked)
		j.again = true
	}
	for _, c := range x.Status.Conditions {
		switch {
		case c.Status != metav1.ConditionTrue:
		case c.Type == provisioning.Failed:
			count(&r.failed, r.seenFailed)
		case c.Type == provisioning.BookingExpired:
			count(&r.expired, r.seenEnd)
		}
	}
}

// jobOf returns the job that a request is about: Kueue calls it job-NAME-HASH-CHECK-NUMBER.
func jobOf(request string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(request, "job-"), "-")
	return name
}

// due returns the running pods whose work is done, once each.
func (r *record) due(now time.Time) (out []*podRecord) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, j := range slices.Concat(r.jobs, r.beside) {
		for _, p := range j.pods {
			if !p.beingStopped && !p.runs.IsZero() && p.ended.IsZero() && now.Sub(p.runs) >= j.runs {
				p.beingStopped = true
				out = append(out, p)
			}
		}
	}
	return out
}

// over returns how many jobs have ended.
func (r *record) over() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, j := range r.jobs {
		if j.over {
			n++
		}
	}
	return n
}

// describe returns the jobs that have not ended.
func (r *record) describe() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out strings.Builder
	for _, j := range r.jobs {
		if j.over {
			continue
		}
		fmt.Fprintf(&out, "job %s, %d pods of %d CPUs: admitted %t\n", j.name, j.job.pods, j.cpus, j.admitted)
		var lines []string
		for _, p := range j.pods {
			lines = append(lines, fmt.Sprintf("  pod on %q, refused %t: %s\n", p.node, p.refused, p.why))
		}
		slices.Sort(lines)
		out.WriteString(strings.Join(lines, ""))
	}
	return out.String()
}
