// Package live keeps the part of a cluster that one identity may read in memory and up to date: nodes, pods, and the
// nodes' reports, in a ledger like the scheduler's.
//
// Invariant: the view has only objects that the API server gave to the identity. A resource that the identity may not
// read, or that is not served, is a [document.Limit], and does not affect other resources. Memory is bounded by the
// number of nodes and pods and by the bytes of the pods; a Limit names what is left out beyond a bound. The package
// only reads: it sends lists and watches of at most eight resources to the API server. It does not judge pods;
// cluster/stage and core do.
package live

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/ledger"
)

// Bounds limit how much of a cluster a view keeps.
type Bounds struct {
	Nodes, Pods int
	Bytes       int64 // of pods, in the form that the view keeps
}

// Standard returns bounds for clusters of all sizes that Kubernetes supports, with some reserve.
func Standard() Bounds { return Bounds{Nodes: 10_000, Pods: 200_000, Bytes: 256 << 20} }

// Options select what a view follows.
type Options struct {
	// Namespaces are followed one by one if the identity may not list the pods of all namespaces.
	Namespaces []string
	Bounds     Bounds
}

// maxNamespaces bounds the namespaces that are followed one by one.
const maxNamespaces = 32

// View is the part of a cluster that one identity may read. Its methods may be called from any goroutine.
type View struct {
	book    *ledger.Book
	feed    *kube.Feed
	bounds  Bounds
	changes changes
	ready   chan struct{}

	mu       sync.Mutex
	nodes    map[string]*v1.Node
	pods     pods
	devices  devices
	limits   map[string]string // reasons by resource; see Limits
	rejected bool              // the API server rejects the identity
	// followed are the namespaces whose pods have a source; "" is all. read has those whose pods were listed and may
	// still be read; see seen.
	followed []string
	read     map[string]bool

	stateMu sync.Mutex // held while a State is computed
	states  states
}

// Start follows the cluster in cfg, with the rights of cfg, until ctx ends.
func Start(ctx context.Context, cfg *rest.Config, o Options) (*View, error) {
	ctx = klog.NewContext(ctx, klog.Logger{}) // limits report failures; a log would be written to the user's terminal
	v := newView(o.Bounds)
	all, err := v.follow(ctx, cfg, o.Namespaces[:min(len(o.Namespaces), maxNamespaces)])
	if err != nil {
		return nil, err
	}
	go v.begin(ctx, all)
	return v, nil
}

func newView(b Bounds) *View {
	book := ledger.New()
	v := &View{book: book, feed: kube.NewFeed(book, nil, nil), bounds: b, ready: make(chan struct{}),
		nodes: map[string]*v1.Node{}, pods: newPods(), devices: newDevices(), limits: map[string]string{},
		read: map[string]bool{}}
	book.OnChange(v.changes.node)
	return v
}

// begin waits until every resource was listed or refused. Then the feed books what the first lists had, and the view
// is ready.
func (v *View) begin(ctx context.Context, all []*source) {
	for _, s := range all {
		select {
		case <-s.answered:
		case <-ctx.Done():
			return
		}
	}
	v.feed.Sees(v.Seen())
	v.feed.Begin()
	v.recordRefusals(all)
	close(v.ready)
	v.changes.everything()
}

// Seen returns the namespaces whose pods the view has now, perhaps none; nil: all. It changes when the identity gets or
// loses a right.
func (v *View) Seen() *kube.Seen {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.seen()
}

// seen is Seen for a caller that holds v.mu.
func (v *View) seen() *kube.Seen {
	if v.read[""] {
		return nil
	}
	out := &kube.Seen{}
	for _, namespace := range slices.Sorted(slices.Values(v.followed)) {
		if v.read[namespace] {
			out.Namespaces = append(out.Namespaces, namespace)
		}
	}
	return out
}

// setRead records whether the view has the pods of a namespace; "" is all.
func (v *View) setRead(namespace string, has bool) {
	v.mu.Lock()
	changed := v.read[namespace] != has
	v.read[namespace] = has
	v.mu.Unlock()
	if changed {
		v.changes.everything()
	}
}

// recordRefusals records in the feed which pods nodes have refused since they wrote their layouts.
func (v *View) recordRefusals(all []*source) {
	var refused []v1.Pod
	v.mu.Lock()
	for p := range v.pods.all() {
		if _, rejected := kube.Rejection(p); rejected {
			refused = append(refused, *p)
		}
	}
	v.mu.Unlock()
	for _, s := range all {
		for _, l := range s.keptObjects() {
			if layout := layoutOf(l); layout != nil && len(refused) > 0 {
				v.feed.RefusedBefore(layout, refused)
			}
		}
	}
}

// Ready returns a channel that is closed once every resource was listed or refused.
func (v *View) Ready() <-chan struct{} { return v.ready }

// Rejected reports whether the API server rejects the identity, for example because its token has expired.
func (v *View) Rejected() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.rejected
}

// Limits returns what the view lacks, in ascending order of resource.
func (v *View) Limits() (out []document.Limit) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(v.limits)) {
		l := document.Limit{Resource: name, Reason: v.limits[name]}
		if seen := v.seen(); l.Reason == forbiddenPods && seen != nil {
			l.Reason = seen.Text()
		}
		out = append(out, l)
	}
	return out
}

// setLimit records the reason why the view lacks a resource. With the reason "", it records that the view has the
// resource.
func (v *View) setLimit(resource, reason string) {
	v.mu.Lock()
	old := v.limits[resource]
	if v.limits[resource] = reason; reason == "" {
		delete(v.limits, resource)
	}
	v.mu.Unlock()
	if old != reason {
		v.changes.everything()
	}
}

// Snapshot returns the states of the nodes that report.
func (v *View) Snapshot() *ledger.Snapshot { return v.book.Snapshot() }

// Version returns a number that grows with every change.
func (v *View) Version() uint64 { return v.changes.now() }

// Follow returns a follower that receives all changes from now on. The caller closes it.
func (v *View) Follow() Follower { return v.changes.follow() }

// Nodes returns the nodes in ascending order of name. The caller must not change them. Their metadata and status have
// only the fields by which pods are judged.
func (v *View) Nodes() []*v1.Node {
	v.mu.Lock()
	out := slices.Collect(maps.Values(v.nodes))
	v.mu.Unlock()
	slices.SortFunc(out, func(a, b *v1.Node) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Pod returns a pod, or nil. The pod has only the fields by which pods are judged.
func (v *View) Pod(namespace, name string) *v1.Pod {
	v.mu.Lock()
	defer v.mu.Unlock()
	if r := v.pods.kept[types.NamespacedName{Namespace: namespace, Name: name}]; r != nil {
		return r.Pod()
	}
	return nil
}

// Pods returns the list entries of the pods that accept returns true for, in ascending order of namespace and name.
func (v *View) Pods(accept func(Pod) bool) (out []Pod) {
	v.mu.Lock()
	for _, r := range v.pods.kept {
		if p := r.entry(); accept(p) {
			out = append(out, p)
		}
	}
	v.mu.Unlock()
	slices.SortFunc(out, Pod.compare)
	return out
}

// count returns the number of pods, and how many of them wait for a node.
func (v *View) count() (all, waiting int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, r := range v.pods.kept {
		if r.node == "" && !r.entry().Ended() {
			waiting++
		}
	}
	return len(v.pods.kept), waiting
}

// View returns all nodes, states and pods in the form that a [kube.Reader] returns. The result shares its pods with
// v, which replaces pods instead of changing them.
func (v *View) View() *kube.View {
	out := &kube.View{}
	for _, n := range v.Nodes() {
		out.Nodes = append(out.Nodes, *n)
	}
	snap := v.book.Snapshot()
	for _, name := range snap.Names() {
		out.States = append(out.States, snap.Node(name))
	}
	out.Problems, out.Notes = v.feed.Problems(out.Nodes), v.feed.Notes()
	v.mu.Lock()
	defer v.mu.Unlock()
	out.Seen = v.seen()
	out.Pods = make([]kube.Stored, 0, len(v.pods.kept))
	for _, key := range v.pods.keys() {
		out.Pods = append(out.Pods, v.pods.kept[key])
	}
	return out
}

// Problems returns, for each node without a state, why it has none.
func (v *View) Problems() []document.Problem {
	var nodes []v1.Node
	for _, n := range v.Nodes() {
		nodes = append(nodes, *n)
	}
	return v.feed.Problems(nodes)
}
