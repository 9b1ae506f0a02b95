package chaos

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/cluster/kube"
)

// moment is when something was seen. Versions come from one counter of the store, so they order pods and
// layouts exactly; the clock only tells how far apart two of them were.
type moment struct {
	version uint64
	at      time.Time
}

func (m moment) known() bool { return m.version != 0 }

// String returns the version and the time of day.
func (m moment) String() string {
	if !m.known() {
		return "never"
	}
	return fmt.Sprintf("at %d (%s)", m.version, m.at.Format("15:04:05.000"))
}

// life is what became of a pod.
type life struct {
	pod                         *v1.Pod // as last seen
	bound, started, ended, gone moment
	ran                         bool // it was seen running
	told                        bool // of its refusal
}

func (l *life) tenon() bool { return l.pod.Spec.SchedulerName == tenonScheduler }

// over reports whether the pod holds nothing any more, as far as the API server says.
func (l *life) over() bool { return l.gone.known() || kube.Ended(l.pod) }

// policy is what a layout tells of a node, as what its topology manager does, and since when.
type policy struct {
	name  string
	since moment
}

// record is what the API server told, in its order.
type record struct {
	mu       sync.Mutex
	lives    map[string]*life    // by UID
	policies map[string][]policy // of every node, as its layouts tell them, oldest first
	agents   map[string][]policy // alike: the ids of those that wrote the layouts
	last     uint64              // version
	changed  chan struct{}
	// refused is told of every pod that a kubelet refused, when that is seen; nil before the run is set up.
	refused func(life)
	stop    func()
}

// follow begins to record the pods and layouts of a cluster.
func follow(ctx context.Context, cfg *rest.Config, pods kubernetes.Interface) (*record, error) {
	r := &record{lives: map[string]*life{}, policies: map[string][]policy{}, agents: map[string][]policy{}, changed: make(chan struct{})}
	layouts, err := client.New(cfg)
	if err != nil {
		return nil, err
	}
	f := informers.NewSharedInformerFactory(pods, 0)
	p := f.Core().V1().Pods().Informer()
	l := cache.NewSharedInformer(&cache.ListWatch{
		ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return layouts.List(ctx, o) },
		WatchFuncWithContext: layouts.Watch,
	}, &v1alpha1.NodeLayout{}, 0)
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { r.see(o, false) }, UpdateFunc: func(_, o any) { r.see(o, false) },
		DeleteFunc: func(o any) { r.see(o, true) },
	}
	for _, i := range []cache.SharedInformer{p, l} {
		if _, err := i.AddEventHandler(handler); err != nil {
			return nil, fmt.Errorf("follow pods and layouts: %w", err)
		}
	}
	stop := make(chan struct{})
	r.stop = sync.OnceFunc(func() { close(stop); f.Shutdown() })
	f.Start(stop)
	go l.Run(stop)
	if !cache.WaitForCacheSync(ctx.Done(), p.HasSynced, l.HasSynced) {
		r.stop()
		return nil, fmt.Errorf("list pods and layouts: %w", context.Cause(ctx))
	}
	return r, nil
}

func (r *record) see(o any, gone bool) {
	if t, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = t.Obj
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch x := o.(type) {
	case *v1.Pod:
		r.pod(x, r.now(x.ResourceVersion), gone)
	case *v1alpha1.NodeLayout:
		now := policy{x.Rules.TopologyManagerPolicy + ", scope " + x.Rules.TopologyManagerScope, r.now(x.ResourceVersion)}
		note(r.policies, x.Name, now)
		note(r.agents, x.Name, policy{x.Agent.ID, now.since})
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// note appends what is new of a node.
func note(all map[string][]policy, node string, now policy) {
	if of := all[node]; len(of) == 0 || of[len(of)-1].name != now.name {
		all[node] = append(of, now)
	}
}

func (r *record) now(version string) moment {
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		n = r.last // the API server makes none such
	}
	r.last = max(r.last, n)
	return moment{n, time.Now()}
}

func (r *record) pod(p *v1.Pod, now moment, gone bool) {
	l := r.lives[string(p.UID)]
	if l == nil {
		l = &life{}
		r.lives[string(p.UID)] = l
	}
	l.pod = p
	set := func(m *moment, is bool) {
		if is && !m.known() {
			*m = now
		}
	}
	set(&l.bound, p.Spec.NodeName != "")
	set(&l.started, kube.Started(p))
	set(&l.ended, kube.Ended(p))
	set(&l.gone, gone)
	l.ran = l.ran || p.Status.Phase == v1.PodRunning
	if r.refused != nil && !l.told && refused(*l) {
		l.told = true
		r.refused(*l)
	}
}

// all returns the lives, oldest binding first, and a channel that is closed at the next change.
func (r *record) all() ([]life, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]life, 0, len(r.lives))
	for _, l := range r.lives {
		out = append(out, *l)
	}
	slices.SortFunc(out, func(a, b life) int {
		if a.bound.version != b.bound.version {
			if a.bound.version < b.bound.version {
				return -1
			}
			return 1
		}
		return strings.Compare(a.pod.Name, b.pod.Name)
	})
	return out, r.changed
}

// named returns the life of the pod of a name that is not gone.
func (r *record) named(name string) (life, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.lives {
		if l.pod.Name == name && !l.gone.known() {
			return *l, true
		}
	}
	return life{}, false
}

// mark is the present moment.
func (r *record) mark() moment {
	r.mu.Lock()
	defer r.mu.Unlock()
	return moment{r.last, time.Now()}
}

// told is when a policy was first told of a node since a moment, or that moment where it was the policy by
// then; the zero moment if it was not told yet.
func (r *record) told(node, name string, since moment) moment {
	r.mu.Lock()
	defer r.mu.Unlock()
	var before string
	for _, p := range r.policies[node] {
		switch {
		case p.since.version <= since.version:
			before = p.name
		case p.name == name && before != name:
			return p.since
		}
	}
	if before == name {
		return since
	}
	return moment{}
}

// heard reports whether an agent that started after a moment has written of a node.
func (r *record) heard(node string, since moment) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	var before string
	for _, w := range r.agents[node] {
		if w.since.version <= since.version {
			before = w.name
		} else if w.name != before {
			return true
		}
	}
	return false
}

// forget drops pods that are gone.
func (r *record) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid, l := range r.lives {
		if l.gone.known() {
			delete(r.lives, uid)
		}
	}
}

// until waits until done says so of the lives; it is asked again at each change.
func (r *record) until(ctx context.Context, what string, done func([]life) bool) error {
	for {
		lives, changed := r.all()
		if done(lives) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", what, context.Cause(ctx))
		}
	}
}
