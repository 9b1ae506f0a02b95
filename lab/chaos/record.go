package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/control"
)

// moment is the point at which an object was written. Its version comes from the one counter of the store, so
// versions order all writes to pods and layouts exactly. Its time is when the record received the write, and makes
// the moment comparable with events outside the store. The zero moment means that there was no such write.
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

// life is the history of a pod.
type life struct {
	pod                         *v1.Pod // as last seen
	bound, started, ended, gone moment  // the first write that shows it
	ran                         bool    // it was seen running
	reported                    bool    // its refusal was reported
}

func (l *life) tenon() bool { return l.pod.Spec.SchedulerName == tenonScheduler }

// over reports whether the pod holds nothing any more, according to the API server.
func (l *life) over() bool { return l.gone.known() || kube.Ended(l.pod) }

// record processes every write to the API server's store, in order, and keeps the history of each pod and the latest
// objects. It reads the store itself, because a watch of the API server stalls while the server restarts, and then
// shows only the last state of each object.
type record struct {
	mu      sync.Mutex
	lives   map[string]*life                // by UID
	pods    map[string]*v1.Pod              // existing pods, by their key in the store
	nodes   map[string]v1.ResourceList      // by node name: the most of each resource that was ever allocatable
	layouts map[string]*v1alpha1.NodeLayout // the last one of each node, by its name
	bases   map[string]*v1alpha1.LayoutBase // the same of their bases
	agents  map[string]time.Time            // when each agent's process wrote its first layout, by its id
	last    uint64                          // version of the last write
	changed chan struct{}                   // closed and renewed at every change
	// refused, if not nil, is called once for every pod that a kubelet refused, when the record sees that.
	refused func(life)
	failed  error // the first object that could not be read
	stop    func()
}

// Prefixes of the API server's keys.
const (
	podKeys    = "/registry/pods/default/"
	nodeKeys   = "/registry/minions/"
	layoutKeys = "/registry/" + v1alpha1.Group + "/nodelayouts/"
	baseKeys   = "/registry/" + v1alpha1.Group + "/layoutbases/"
)

// follow starts to record the writes to a cluster's store.
func follow(c *lab.Cluster) (r *record, err error) {
	r = &record{lives: map[string]*life{}, pods: map[string]*v1.Pod{}, nodes: map[string]v1.ResourceList{},
		layouts: map[string]*v1alpha1.NodeLayout{}, bases: map[string]*v1alpha1.LayoutBase{},
		agents: map[string]time.Time{}, changed: make(chan struct{})}
	r.stop, err = c.FollowStore("/registry/", r.process)
	return r, err
}

// process processes one write. FollowStore calls it from one goroutine, in the order of the versions.
func (r *record) process(c control.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = uint64(c.Version)
	now := moment{r.last, time.Now()}
	var err error
	switch {
	case strings.HasPrefix(c.Key, podKeys):
		err = r.processPod(c, now)
	case strings.HasPrefix(c.Key, layoutKeys) && !c.Deleted:
		l := &v1alpha1.NodeLayout{}
		if err = json.Unmarshal(c.Value, l); err == nil {
			l.ResourceVersion = strconv.FormatUint(now.version, 10)
			r.layouts[l.Name] = l
			if _, known := r.agents[l.Agent.ID]; !known {
				r.agents[l.Agent.ID] = now.at
			}
		}
	case strings.HasPrefix(c.Key, baseKeys) && !c.Deleted:
		b := &v1alpha1.LayoutBase{}
		if err = json.Unmarshal(c.Value, b); err == nil {
			r.bases[b.Name] = b
		}
	case strings.HasPrefix(c.Key, nodeKeys) && !c.Deleted:
		n := &v1.Node{}
		if err = decode(c.Value, n); err == nil {
			r.processNode(n)
		}
	default:
		return
	}
	if err != nil && r.failed == nil {
		r.failed = fmt.Errorf("read %s at version %d: %w", c.Key, c.Version, err)
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// decode decodes an object in the API server's storage format.
func decode(value []byte, into runtime.Object) error {
	_, _, err := scheme.Codecs.UniversalDeserializer().Decode(value, nil, into)
	return err
}

// processPod processes a write of a pod. A deletion has no value, so the pod's last state stands for it.
func (r *record) processPod(c control.Change, now moment) error {
	p := r.pods[c.Key]
	if c.Deleted {
		delete(r.pods, c.Key)
		if p != nil {
			r.updateLife(p, now, true)
		}
		return nil
	}
	p = &v1.Pod{}
	if err := decode(c.Value, p); err != nil {
		return err
	}
	p.ResourceVersion = strconv.FormatUint(now.version, 10)
	r.pods[c.Key] = p
	r.updateLife(p, now, false)
	return nil
}

// processNode keeps the most of each resource that a node ever had, because a restarted kubelet reports less until
// its device plugins have registered.
func (r *record) processNode(n *v1.Node) {
	seen := r.nodes[n.Name]
	if seen == nil {
		seen = v1.ResourceList{}
		r.nodes[n.Name] = seen
	}
	for name, q := range n.Status.Allocatable {
		if have, ok := seen[name]; !ok || q.Cmp(have) > 0 {
			seen[name] = q
		}
	}
}

// updateLife updates the life of a pod, and calls r.refused if the pod has just been refused. r.mu must be held.
func (r *record) updateLife(p *v1.Pod, now moment, gone bool) {
	l := r.lives[string(p.UID)]
	if l == nil {
		l = &life{}
		r.lives[string(p.UID)] = l
	}
	l.pod = p
	set := func(m *moment, happened bool) {
		if happened && !m.known() {
			*m = now
		}
	}
	set(&l.bound, p.Spec.NodeName != "")
	set(&l.started, kube.Started(p))
	set(&l.ended, kube.Ended(p))
	set(&l.gone, gone)
	l.ran = l.ran || p.Status.Phase == v1.PodRunning
	if r.refused != nil && !l.reported && refused(*l) {
		l.reported = true
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

// podNamed returns the life of the existing pod with a name. The bool is false if there is no such pod.
func (r *record) podNamed(name string) (life, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.lives {
		if l.pod.Name == name && !l.gone.known() {
			return *l, true
		}
	}
	return life{}, false
}

// now returns the present moment.
func (r *record) now() moment {
	r.mu.Lock()
	defer r.mu.Unlock()
	return moment{r.last, time.Now()}
}

// layoutOf returns a node's last layout, and the most of each resource that the node ever had allocatable. The layout
// is nil if there is none or its base is missing.
func (r *record) layoutOf(node string) (last *v1alpha1.NodeLayout, allocatable v1.ResourceList) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.layouts[node]; l != nil {
		if whole, err := l.On(r.bases[node]); err == nil {
			last = whole
		}
	}
	return last, maps.Clone(r.nodes[node])
}

// agentSince returns when an agent's process wrote its first layout, or the zero time.
func (r *record) agentSince(agent string) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.agents[agent]
}

// err returns why the record is incomplete, or nil.
func (r *record) err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
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

// wait calls done with the lives of all pods, again at each change, until it returns true. If ctx ends first, it
// returns an error that names what it waited for.
func (r *record) wait(ctx context.Context, what string, done func([]life) bool) error {
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
