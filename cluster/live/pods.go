package live

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/core/ledger"
)

// Pod is what is listed of a pod.
type Pod struct {
	ID        ledger.PodID
	Node      string // empty while the pod waits for a node
	Scheduler string
	Phase     v1.PodPhase
	Reason    string // of the status
	Created   time.Time
}

// Ended reports whether the pod holds nothing any more.
func (p Pod) Ended() bool { return p.Phase == v1.PodSucceeded || p.Phase == v1.PodFailed }

func (p Pod) compare(o Pod) int {
	return cmp.Or(strings.Compare(p.ID.Namespace, o.ID.Namespace), strings.Compare(p.ID.Name, o.ID.Name))
}

// record is what is kept of a pod. Pods of one workload share their spec, but for the name of the node, and their
// labels.
type record struct {
	meta   metav1.ObjectMeta // its labels are those of labels
	labels *labels
	node   string
	spec   *shared
	status v1.PodStatus
}

// shared is a spec without the name of a node.
type shared struct {
	digest [sha256.Size]byte
	spec   v1.PodSpec
	size   int64
	users  int
}

// labels are those that some pods have.
type labels struct {
	key   string
	all   map[string]string
	users int
}

// keyOfLabels is equal for equal labels.
func keyOfLabels(all map[string]string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(all)) {
		b.WriteString(k + "=" + all[k] + ",") // neither has "=" or ","
	}
	return b.String()
}

func (l *labels) size() int64 { return 2*int64(len(l.key)) + 64*int64(len(l.all)) }

// pod returns the pod that the record is of. Its lists and maps are those of the record.
func (r *record) pod() *v1.Pod {
	p := &v1.Pod{ObjectMeta: r.meta, Spec: r.spec.spec, Status: r.status}
	p.Spec.NodeName = r.node
	return p
}

func (r *record) listed() Pod {
	return Pod{ID: ledger.PodID{UID: string(r.meta.UID), Namespace: r.meta.Namespace, Name: r.meta.Name}, Node: r.node,
		Scheduler: r.spec.spec.SchedulerName, Phase: r.status.Phase, Reason: r.status.Reason,
		Created: r.meta.CreationTimestamp.Time}
}

// recordSize is about what a record takes beside its texts and its spec.
const recordSize = 1 << 10

func (r *record) size() int64 {
	return int64(recordSize + len(r.meta.Name) + len(r.meta.Namespace) + len(r.status.Message) + len(r.status.Reason))
}

// pods are the records by name, their specs by digest, and their labels by key.
type pods struct {
	kept   map[types.NamespacedName]*record
	specs  map[[sha256.Size]byte]*shared
	labels map[string]*labels
	bytes  int64
}

func newPods() pods {
	return pods{kept: map[types.NamespacedName]*record{}, specs: map[[sha256.Size]byte]*shared{},
		labels: map[string]*labels{}}
}

// put keeps a trimmed pod within bounds, and reports whether it is kept, and whether something has changed.
func (s *pods) put(p *v1.Pod, b Bounds) (kept, changed bool, err error) {
	key := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
	spec := p.Spec
	spec.NodeName = ""
	data, err := spec.Marshal()
	if err != nil {
		return false, false, fmt.Errorf("encode the spec of pod %s: %w", key, err)
	}
	digest := sha256.Sum256(data)
	old := s.kept[key]
	one := s.specs[digest]
	if one == nil {
		// What is decoded takes several times the bytes of its encoding.
		one = &shared{digest: digest, spec: spec, size: 8 * int64(len(data))}
	}
	name := keyOfLabels(p.Labels)
	its := s.labels[name]
	if its == nil {
		its = &labels{key: name, all: p.Labels}
	}
	r := &record{meta: p.ObjectMeta, labels: its, node: p.Spec.NodeName, spec: one, status: p.Status}
	r.meta.Labels = its.all
	if old == nil && (len(s.kept) >= b.Pods || s.bytes+r.size()+one.size+its.size() > b.Bytes) {
		return false, false, nil
	}
	s.drop(key)
	s.kept[key], s.specs[digest], s.labels[name] = r, one, its
	if one.users++; one.users == 1 {
		s.bytes += one.size
	}
	if its.users++; its.users == 1 {
		s.bytes += its.size()
	}
	s.bytes += r.size()
	return true, old == nil || old.spec.digest != digest || !old.equal(r), nil
}

// equal compares what is listed and judged, but for the spec.
func (r *record) equal(o *record) bool {
	return r.listed() == o.listed() && r.status.NominatedNodeName == o.status.NominatedNodeName &&
		r.status.Message == o.status.Message && (r.status.StartTime == nil) == (o.status.StartTime == nil) &&
		len(r.status.ContainerStatuses) == len(o.status.ContainerStatuses) && r.labels.key == o.labels.key &&
		slices.EqualFunc(r.status.Conditions, o.status.Conditions, func(a, b v1.PodCondition) bool {
			return a.Status == b.Status && a.Message == b.Message
		}) && maps.Equal(r.meta.Annotations, o.meta.Annotations)
}

// drop forgets a pod, and returns what was kept of it, or nil.
func (s *pods) drop(key types.NamespacedName) *record {
	r := s.kept[key]
	if r == nil {
		return nil
	}
	delete(s.kept, key)
	s.bytes -= r.size()
	if r.spec.users--; r.spec.users == 0 {
		delete(s.specs, r.spec.digest)
		s.bytes -= r.spec.size
	}
	if r.labels.users--; r.labels.users == 0 {
		delete(s.labels, r.labels.key)
		s.bytes -= r.labels.size()
	}
	return r
}

func (s *pods) keys() []types.NamespacedName {
	return slices.SortedFunc(maps.Keys(s.kept), func(a, b types.NamespacedName) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
}

func (s *pods) all() iter.Seq[*v1.Pod] {
	return func(yield func(*v1.Pod) bool) {
		for _, r := range s.kept {
			if !yield(r.pod()) {
				return
			}
		}
	}
}
