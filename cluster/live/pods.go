package live

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/cluster/group"
	"github.com/tenon-numa/tenon/core/state"
)

// Pod is the list entry of a pod.
type Pod struct {
	ID        state.PodID
	Node      string // empty while the pod waits for a node
	Scheduler string
	Phase     v1.PodPhase
	Reason    string // the status's reason
	Group     string // the name of its PodGroup, or ""
	Created   time.Time
}

// Ended reports whether the pod has terminated, so that it holds nothing.
func (p Pod) Ended() bool { return p.Phase == v1.PodSucceeded || p.Phase == v1.PodFailed }

func (p Pod) compare(o Pod) int {
	return cmp.Or(strings.Compare(p.ID.Namespace, o.ID.Namespace), strings.Compare(p.ID.Name, o.ID.Name))
}

// record is a pod in a small form, since a large cluster has many pods. Pods of one workload share their spec, except
// for the name of the node, and their origin.
type record struct {
	id            state.PodID
	version, node string
	created       int64  // Unix seconds, the precision of the API server
	started       *int64 // Unix seconds
	phase         v1.PodPhase
	class         v1.PodQOSClass
	origin        *origin
	spec          *shared
	rare          *rare // nil for most pods
}

// rare has the parts that few pods have: the deletion, and the status without the fields of the record.
type rare struct {
	deleted *metav1.Time
	status  v1.PodStatus
}

// shared is a spec without the name of a node, which several records may point to.
type shared struct {
	digest [sha256.Size]byte
	spec   v1.PodSpec
	size   int64
	users  int
}

// origin is the metadata that pods of one workload have in common. Several records may point to it.
type origin struct {
	key                 string
	labels, annotations map[string]string
	owners              []metav1.OwnerReference // the controller, if there is one
	users               int
}

// keyOfOrigin returns a text that is equal exactly for pods with equal labels, annotations and owners.
func keyOfOrigin(p *v1.Pod) string {
	var b strings.Builder
	for _, all := range []map[string]string{p.Labels, p.Annotations} {
		for _, k := range slices.Sorted(maps.Keys(all)) {
			fmt.Fprintf(&b, "%q=%q,", k, all[k])
		}
		b.WriteByte(';')
	}
	for i := range p.OwnerReferences {
		o := &p.OwnerReferences[i]
		fmt.Fprintf(&b, "%q %q %q %q,", o.APIVersion, o.Kind, o.Name, o.UID)
	}
	return b.String()
}

func (o *origin) size() int64 {
	return 2*int64(len(o.key)) + 64*int64(len(o.labels)+len(o.annotations)) + 128*int64(len(o.owners))
}

// newRecord makes the record of a trimmed pod.
func newRecord(p *v1.Pod, spec *shared, from *origin) *record {
	r := &record{id: state.PodID{UID: string(p.UID), Namespace: p.Namespace, Name: p.Name}, version: p.ResourceVersion,
		node: p.Spec.NodeName, created: p.CreationTimestamp.Unix(), phase: p.Status.Phase, class: p.Status.QOSClass,
		origin: from, spec: spec}
	x := rare{p.DeletionTimestamp, p.Status}
	x.status.Phase, x.status.QOSClass, x.status.StartTime = "", "", nil
	if c := x.status.Conditions; len(c) == 1 && c[0].Status == v1.ConditionTrue {
		x.status.Conditions = nil // the name of the node implies it
	}
	if t := p.Status.StartTime; t != nil {
		r.started = new(t.Unix())
	}
	if !reflect.ValueOf(x).IsZero() {
		r.rare = &x
	}
	return r
}

// Pod returns the pod of the record. The pod and the record share lists and maps.
func (r *record) Pod() *v1.Pod {
	p := &v1.Pod{Spec: r.spec.spec}
	if r.rare != nil {
		p.DeletionTimestamp, p.Status = r.rare.deleted, r.rare.status
	}
	p.Namespace, p.Name, p.UID, p.ResourceVersion = r.id.Namespace, r.id.Name, types.UID(r.id.UID), r.version
	p.CreationTimestamp = metav1.Unix(r.created, 0)
	p.Labels, p.Annotations, p.OwnerReferences = r.origin.labels, r.origin.annotations, r.origin.owners
	p.Spec.NodeName, p.Status.Phase, p.Status.QOSClass = r.node, r.phase, r.class
	if r.started != nil {
		p.Status.StartTime = new(metav1.Unix(*r.started, 0))
	}
	return p
}

func (r *record) entry() Pod {
	return Pod{ID: r.id, Node: r.node, Scheduler: r.spec.spec.SchedulerName, Phase: r.phase, Reason: r.status().Reason,
		Group: group.Of(&r.spec.spec), Created: time.Unix(r.created, 0)}
}

// status returns the part of the status that rare has; without rare, an empty status.
func (r *record) status() *v1.PodStatus {
	if r.rare == nil {
		return &v1.PodStatus{}
	}
	return &r.rare.status
}

// recordSize is about the size of a record without its texts and its spec, in bytes.
const recordSize = 1 << 9

func (r *record) size() int64 {
	size := recordSize + len(r.id.Name) + len(r.id.Namespace) + len(r.id.UID)
	if r.rare != nil {
		size += 1<<10 + len(r.rare.status.Message) + len(r.rare.status.Reason)
	}
	return int64(size)
}

// pods has the records by name, their specs by digest, and their origins by key.
type pods struct {
	kept    map[types.NamespacedName]*record
	specs   map[[sha256.Size]byte]*shared
	origins map[string]*origin
	bytes   int64
}

func newPods() pods {
	return pods{kept: map[types.NamespacedName]*record{}, specs: map[[sha256.Size]byte]*shared{},
		origins: map[string]*origin{}}
}

// put keeps a trimmed pod, unless the pod is new and would exceed the bounds. It returns whether the pod is kept, and
// whether the pod is new or differs from its previous record. The error is about a spec that cannot be encoded.
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
	sharedSpec := s.specs[digest]
	if sharedSpec == nil {
		// A decoded spec takes several times the bytes of its encoding.
		sharedSpec = &shared{digest: digest, spec: spec, size: 8 * int64(len(data))}
	}
	originKey := keyOfOrigin(p)
	from := s.origins[originKey]
	if from == nil {
		from = &origin{key: originKey, labels: p.Labels, annotations: p.Annotations, owners: p.OwnerReferences}
	}
	r := newRecord(p, sharedSpec, from)
	if old == nil && (len(s.kept) >= b.Pods || s.bytes+r.size()+sharedSpec.size+from.size() > b.Bytes) {
		return false, false, nil
	}
	s.drop(key)
	s.kept[key], s.specs[digest], s.origins[originKey] = r, sharedSpec, from
	if sharedSpec.users++; sharedSpec.users == 1 {
		s.bytes += sharedSpec.size
	}
	if from.users++; from.users == 1 {
		s.bytes += from.size()
	}
	s.bytes += r.size()
	return true, old == nil || old.spec.digest != digest || !old.equal(r), nil
}

// equal reports whether two records agree in all that pods are listed and judged by, except the spec.
func (r *record) equal(o *record) bool {
	a, b := r.status(), o.status()
	return r.entry() == o.entry() && a.NominatedNodeName == b.NominatedNodeName &&
		a.Message == b.Message && (r.started == nil) == (o.started == nil) &&
		sameStates(a.ContainerStatuses, b.ContainerStatuses) && r.origin.key == o.origin.key &&
		slices.EqualFunc(a.Conditions, b.Conditions, func(a, b v1.PodCondition) bool {
			return a.Status == b.Status && a.Message == b.Message
		})
}

// sameStates reports whether two trimmed lists agree in the names of containers, in which of them wait, and in which
// have allocated resources. It does not compare amounts.
func sameStates(a, b []v1.ContainerStatus) bool {
	return slices.EqualFunc(a, b, func(a, b v1.ContainerStatus) bool {
		return a.Name == b.Name && (a.State.Waiting == nil) == (b.State.Waiting == nil) &&
			(a.AllocatedResources == nil) == (b.AllocatedResources == nil)
	})
}

// drop removes a pod. It returns the record that it removed, or nil if there was none.
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
	if r.origin.users--; r.origin.users == 0 {
		delete(s.origins, r.origin.key)
		s.bytes -= r.origin.size()
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
			if !yield(r.Pod()) {
				return
			}
		}
	}
}
