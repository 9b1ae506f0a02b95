package live

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/tenon-numa/tenon/api/v1alpha1"
)

// source follows one resource through a reflector, and is its store. It keeps only what it needs to report the end of
// an object; the view keeps the rest. It takes the objects of a list one by one as they arrive: the reflector, which
// collects the whole list, receives only their names.
type source struct {
	view *View
	// resource and where name it for people, such as "pods" and "in namespace ml".
	resource, where string
	namespace       string // of the followed pods; "" is all
	// optional is set for a resource that an API server may lack. Its absence is then no limit of the view.
	optional bool
	// aside is set for slices and claims: what is missing of them is no limit of the view; see devices.unread.
	aside bool
	page  int64 // objects per page; 0 for the default
	list  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
	trim  cache.TransformFunc
	// put applies an object to the view. It returns what the source keeps of the object, or nil if the view does not
	// take the object. gone applies the end of an object; it receives what put returned, or the deleted object.
	put  func(obj any) (keep any)
	gone func(obj any)
	// unread applies that an object may not be read any more; nil: as its end. read is called when the objects were
	// listed, and when they may not be read any more; it may be nil.
	unread func(obj any)
	read   func(has bool)

	answered chan struct{} // closed when the resource was listed or refused
	once     sync.Once     // for closing answered
	mu       sync.Mutex
	kept     map[types.NamespacedName]any // what put returned, by the object's name
}

// How many objects one page of a list has, if the API server does not stream the list. Pages of custom resources are
// smaller, because layouts are large and arrive as JSON.
const (
	page       = 500
	customPage = 32
)

// run follows the resource until ctx ends. The reflector retries after errors, at growing intervals up to half a
// minute, so that a right that is granted later takes effect.
func (s *source) run(ctx context.Context) {
	from := &cache.ListWatch{ListWithContextFunc: s.listTrimmed, WatchFuncWithContext: s.startWatch}
	r := cache.NewReflectorWithOptions(from, nil, s, cache.ReflectorOptions{Name: "console-" + s.resource})
	r.WatchListPageSize = cmp.Or(s.page, page)
	r.RunWithContext(ctx)
}

// watchFor is how long one watch lasts. The API server checks rights only when a watch begins, so revoking a right
// takes effect with the next watch.
const watchFor = 2 * time.Minute

// startWatch starts a watch, which ends after watchFor unless it streams the first list.
func (s *source) startWatch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if o.SendInitialEvents == nil {
		o.TimeoutSeconds = new(int64(watchFor.Seconds()))
	}
	w, err := s.watch(ctx, o)
	s.recordResult(err)
	return w, err
}

// listTrimmed reads one page of a list and keeps its objects. It returns the page with only their names, so that the
// reflector holds no objects in memory.
func (s *source) listTrimmed(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	if o.ResourceVersion == "0" {
		o.ResourceVersion = "" // the API server ignores the page size of a list from its cache
	}
	list, err := s.list(ctx, o)
	s.recordResult(err)
	if err != nil {
		return nil, err
	}
	out := &metav1.List{}
	head, err := meta.ListAccessor(list)
	if err != nil {
		return nil, fmt.Errorf("read list of %s: %w", s.resource, err)
	}
	out.ResourceVersion, out.Continue = head.GetResourceVersion(), head.GetContinue()
	err = meta.EachListItem(list, func(o runtime.Object) error {
		x, err := s.takeListed(o)
		if err == nil && x != nil {
			out.Items = append(out.Items, runtime.RawExtension{Object: x})
		}
		return err
	})
	return out, err
}

// takeListed trims an object of a list and puts it into the view. It returns an object with only the name and
// version, or nil for an object that does not decode.
func (s *source) takeListed(obj any) (*metav1.PartialObjectMetadata, error) {
	x, err := s.trim(obj)
	if err != nil {
		return nil, err
	}
	m, err := meta.Accessor(x)
	if err != nil {
		return nil, nil // an object that does not decode affects no other
	}
	s.store(x)
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: m.GetNamespace(), Name: m.GetName(),
		ResourceVersion: m.GetResourceVersion()}}, nil
}

// recordResult records the result of a list or watch: why the resource cannot be read, or that it can. After an
// error, the view no longer waits for the first list. An error about the form or the age of a request is no such
// error, because the reflector then sends another request.
func (s *source) recordResult(err error) {
	switch {
	case err == nil, apierrors.IsInvalid(err), apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		s.setLimit("")
		return
	case apierrors.IsNotFound(err) && s.optional:
		s.setLimit("")
	case apierrors.IsNotFound(err):
		s.setLimit("the API server does not serve " + s.resource)
	case apierrors.IsForbidden(err):
		s.setLimit("you may not list " + s.name())
		s.forget()
	case apierrors.IsUnauthorized(err):
		s.setLimit("the API server does not accept your credentials any more")
		s.view.reject()
	default:
		s.setLimit(fmt.Sprintf("cannot be read: %.200s", err))
	}
	s.once.Do(func() { close(s.answered) })
}

// setLimit records why the view lacks the objects of the source; with the reason "", that it has them.
func (s *source) setLimit(reason string) {
	if s.aside {
		s.view.setAside(s.name(), reason)
		return
	}
	s.view.setLimit(s.name(), reason)
}

// forget removes the objects of the source from the view, because the identity may not read them any more.
func (s *source) forget() {
	s.mu.Lock()
	lost := slices.Collect(maps.Values(s.kept))
	clear(s.kept)
	s.mu.Unlock()
	s.tellRead(false)
	apply := s.gone
	if s.unread != nil {
		apply = s.unread
	}
	for _, o := range lost {
		apply(o)
	}
}

// tellRead calls read, if the source has it.
func (s *source) tellRead(has bool) {
	if s.read != nil {
		s.read(has)
	}
}

func (s *source) name() string {
	if s.where == "" {
		return s.resource
	}
	return s.resource + " " + s.where
}

func (v *View) reject() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.rejected = true
}

// Transformer returns the function that the reflector applies to the objects of a streamed list as they arrive.
func (s *source) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) {
		x, err := s.takeListed(obj)
		if x == nil {
			return obj, err
		}
		return x, err
	}
}

// Add receives a new object.
func (s *source) Add(obj any) error { return s.Update(obj) }

// Update receives an object that has changed.
func (s *source) Update(obj any) error {
	x, err := s.trim(obj)
	if err != nil {
		return err
	}
	s.store(x)
	return nil
}

// store puts an object into the view, and keeps what is needed to report the object's end.
func (s *source) store(obj any) {
	key, ok := keyOf(obj)
	if !ok {
		return
	}
	rest := s.put(obj)
	s.mu.Lock()
	defer s.mu.Unlock()
	if rest == nil {
		delete(s.kept, key)
	} else {
		s.kept[key] = rest
	}
}

// Delete receives an object that was deleted.
func (s *source) Delete(obj any) error {
	x, err := s.trim(obj)
	if err != nil {
		return err
	}
	key, ok := keyOf(x)
	if !ok {
		return nil
	}
	s.mu.Lock()
	delete(s.kept, key)
	s.mu.Unlock()
	s.gone(x)
	return nil
}

// Replace receives the names of the whole list. Its objects were kept as they arrived. Objects whose names are not in
// the list are gone.
func (s *source) Replace(list []any, _ string) error {
	listed := map[types.NamespacedName]bool{}
	for _, o := range list {
		if key, ok := keyOf(o); ok {
			listed[key] = true
		}
	}
	s.mu.Lock()
	var lost []any
	for key, o := range s.kept {
		if !listed[key] {
			lost = append(lost, o)
			delete(s.kept, key)
		}
	}
	s.mu.Unlock()
	for _, o := range lost {
		s.gone(o)
	}
	s.tellRead(true)
	s.once.Do(func() { close(s.answered) })
	return nil
}

// Resync does nothing: the view has all objects.
func (s *source) Resync() error { return nil }

// keptObjects returns what the source keeps of its objects, in no particular order.
func (s *source) keptObjects() (out []any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.kept {
		out = append(out, o)
	}
	return out
}

// keyOf returns the name of an object or of a record; the bool is false for other values.
func keyOf(obj any) (types.NamespacedName, bool) {
	if r, ok := obj.(*record); ok {
		return types.NamespacedName{Namespace: r.id.Namespace, Name: r.id.Name}, true
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()}, true
}

// The functions below are put and gone of the sources, for one kind of objects each. They store an object in the view
// or pass it to the feed, and record a change if readers of the view can see one. Each ignores objects of other
// types, which did not decode.

func (v *View) putNode(obj any) any {
	n, ok := obj.(*v1.Node)
	if !ok {
		return nil
	}
	v.mu.Lock()
	old := v.nodes[n.Name]
	full := old == nil && len(v.nodes) >= v.bounds.Nodes
	if !full {
		v.nodes[n.Name] = n
	}
	v.mu.Unlock()
	if full {
		v.setLimit("more nodes", fmt.Sprintf("only %d nodes are kept", v.bounds.Nodes))
		return nil
	}
	if old == nil || !sameNode(old, n) {
		v.changes.node(n.Name)
	}
	return n
}

// sameNode reports whether two nodes agree in everything that readers of the view see.
func sameNode(a, b *v1.Node) bool {
	return a.Spec.Unschedulable == b.Spec.Unschedulable && slices.Equal(a.Spec.Taints, b.Spec.Taints) &&
		reflect.DeepEqual(a.Status, b.Status) && reflect.DeepEqual(a.Labels, b.Labels)
}

func (v *View) nodeGone(obj any) {
	n, ok := obj.(*v1.Node)
	if !ok {
		return
	}
	v.mu.Lock()
	delete(v.nodes, n.Name)
	v.mu.Unlock()
	v.changes.node(n.Name)
}

func (v *View) putPod(obj any) any {
	p, ok := obj.(*v1.Pod)
	if !ok {
		return nil
	}
	v.mu.Lock()
	kept, changed, err := v.pods.put(p, v.bounds)
	var r *record
	if kept {
		r = v.pods.kept[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}]
	}
	v.mu.Unlock()
	if err != nil || !kept {
		v.setLimit("more pods", fmt.Sprintf("only %d pods of together %d MiB are kept", v.bounds.Pods, v.bounds.Bytes>>20))
		return nil
	}
	v.feed.Pod(p)
	if changed {
		v.changes.pod(p.Namespace + "/" + p.Name)
	}
	return r
}

func (v *View) podGone(obj any) {
	p, ok := obj.(*v1.Pod)
	if r, kept := obj.(*record); kept {
		p, ok = r.Pod(), true
	}
	if !ok {
		return
	}
	v.dropPod(p)
	v.feed.PodGone(p)
	v.changes.pod(p.Namespace + "/" + p.Name)
}

// podUnread applies that a pod may not be read any more. Its node may still run it.
func (v *View) podUnread(obj any) {
	r, kept := obj.(*record)
	if !kept {
		return
	}
	p := r.Pod()
	v.dropPod(p)
	v.feed.PodUnread(p)
	v.changes.pod(p.Namespace + "/" + p.Name)
}

func (v *View) dropPod(p *v1.Pod) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.pods.drop(types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
}

// named returns what is kept of a layout or a topology: enough to report its end.
func named(m metav1.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: m.GetName(), UID: m.GetUID(), ResourceVersion: m.GetResourceVersion()}
}

func (v *View) putLayout(obj any) any {
	l, ok := obj.(*v1alpha1.NodeLayout)
	if !ok {
		return nil
	}
	v.feed.Layout(l)
	return &v1alpha1.NodeLayout{ObjectMeta: named(l)}
}

func (v *View) layoutGone(obj any) {
	if l, ok := obj.(*v1alpha1.NodeLayout); ok {
		v.feed.LayoutGone(l)
		v.changes.node(l.Name)
	}
}

func (v *View) putBase(obj any) any {
	b, ok := obj.(*v1alpha1.Base)
	if !ok {
		return nil
	}
	v.feed.Base(b)
	return &v1alpha1.Base{ObjectMeta: named(b)}
}

func (v *View) baseGone(obj any) {
	if b, ok := obj.(*v1alpha1.Base); ok {
		v.feed.BaseGone(b)
	}
}

// layoutOf returns the kept part of a layout, or nil for other objects.
func layoutOf(obj any) *v1alpha1.NodeLayout {
	l, _ := obj.(*v1alpha1.NodeLayout)
	return l
}

func (v *View) putTopology(obj any) any {
	o, ok := obj.(*v1alpha2.NodeResourceTopology)
	if !ok {
		return nil
	}
	v.feed.Topology(o)
	return &v1alpha2.NodeResourceTopology{TypeMeta: o.TypeMeta, ObjectMeta: named(o)}
}

func (v *View) topologyGone(obj any) {
	if o, ok := obj.(*v1alpha2.NodeResourceTopology); ok {
		v.feed.TopologyGone(o)
		v.changes.node(o.Name)
	}
}
