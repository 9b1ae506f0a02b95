package kube

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/api/objects"
	"github.com/tenon-numa/tenon/api/objects/groups"
	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/provisioning"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/cluster/nrt"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
)

// Reader reads a cluster once, for tools. It computes the same ledger that a scheduler keeps, from the present objects
// of the API server.
type Reader struct {
	cfg     *rest.Config
	cluster *objects.Core
	storage *groups.Storage
	devices *groups.Devices
	layouts *client.Client
	now     func() time.Time
	notes   []document.Problem // see Notes
	within  []string           // see Within
}

// NewReader returns a reader of the cluster in cfg.
func NewReader(cfg *rest.Config) (*Reader, error) {
	cluster, err := objects.NewCore(cfg)
	if err != nil {
		return nil, err
	}
	layouts, err := client.New(cfg)
	if err != nil {
		return nil, err
	}
	storage, err := groups.NewStorage(cfg)
	if err != nil {
		return nil, err
	}
	devices, err := groups.NewDevices(cfg)
	if err != nil {
		return nil, err
	}
	return &Reader{cfg: cfg, cluster: cluster, storage: storage, devices: devices, layouts: layouts, now: time.Now}, nil
}

// At sets the time that the reader takes for the present, such as the time of a bundle.
func (r *Reader) At(at time.Time) { r.now = func() time.Time { return at } }

// View is a cluster that was read once.
type View struct {
	// States are the nodes with a valid layout or, if that is missing or rejected, a valid NodeResourceTopology or
	// Numatopology, in ascending order of name. Each has its holdings, observed and predicted. Problems has the reasons
	// why the other nodes are missing. Kinds that the identity may not read count as missing.
	States   []*state.Node
	Problems []document.Problem
	Nodes    []v1.Node
	Pods     []Stored
	// Seen are the namespaces whose pods were read; nil: all.
	Seen *Seen
	// Layouts and Topologies are the published objects, and Notes are further remarks about them. Only a Reader returns
	// them.
	Layouts    []v1alpha1.NodeLayout
	Topologies []*v1alpha2.NodeResourceTopology
	Notes      []document.Problem
	// Storage is nil if it was not read, or if the identity may not read it. The same holds for Namespaces, which has
	// the labels of each namespace.
	Storage    *Storage
	Namespaces map[string]map[string]string
	// Admission is nil if it was not read.
	Admission *Admission
	// Served are the extended resources that classes of devices (DRA) serve; see [Reader.Served]. It is nil if the
	// classes were not read, or if the identity may not read them.
	Served map[string]bool
	// Classes are the classes of devices; nil if they were not read, or if the identity may not read them.
	Classes []resourcev1.DeviceClass
	// Kept is the room that is kept for pods that have not come yet, by node. States have it, too.
	Kept map[string]*Kept
	// Devices is nil if it was not read.
	Devices *Devices
	// Unread are resources that count as missing because they could not be read, beside pods; see Seen.
	Unread []document.Limit
}

// Miss records that a resource could not be read, and why, each resource once.
func (v *View) Miss(resource, why string) {
	if !slices.ContainsFunc(v.Unread, func(l document.Limit) bool { return l.Resource == resource }) {
		v.Unread = append(v.Unread, document.Limit{Resource: resource, Reason: why})
	}
}

// Limits returns what was not read, pods included. Topologies count only where the state of a node is missing, since
// nodes with a layout do not need them.
func (v *View) Limits() (out []document.Limit) {
	if v.Seen != nil {
		out = append(out, document.Limit{Resource: "pods", Reason: v.Seen.Text()})
	}
	for _, l := range v.Unread {
		if len(v.Problems) > 0 || !isTopology(l.Resource) {
			out = append(out, l)
		}
	}
	return out
}

// notListed is why a resource that the identity may not list was not read.
const notListed = "you may not list them"

// Partial describes, for people, which pods and topologies were not read and how answers about nodes suffer from
// that. It is "" if all of these were read. Limits has the other resources, too.
func (v *View) Partial() string {
	var texts []string
	for _, l := range v.Limits() {
		switch {
		case isTopology(l.Resource):
			texts = append(texts, l.Resource+" were not read ("+l.Reason+"): a node that counts as unknown here may have one")
		case l.Resource == "pods":
			texts = append(texts, l.Reason)
		}
	}
	return strings.Join(texts, "; ")
}

// isTopology reports whether a resource is one that exporters publish for nodes.
func isTopology(resource string) bool {
	return resource == nrt.Numatopologies().Resource || resource == nrt.Resources()[0].Resource
}

// Stored is a pod in a form that may be smaller than v1.Pod, since a large cluster has many pods. Pod returns the whole
// pod, which must not be changed.
type Stored interface{ Pod() *v1.Pod }

// Whole is a v1.Pod as a Stored, with all of its fields.
type Whole v1.Pod

// Pod implements Stored.
func (w *Whole) Pod() *v1.Pod { return (*v1.Pod)(w) }

// StoreAll returns pods in the form of a view. The result points to the given pods, so the caller must not change
// them any more.
func StoreAll(pods []v1.Pod) []Stored {
	out := make([]Stored, len(pods))
	for i := range pods {
		out[i] = (*Whole)(&pods[i])
	}
	return out
}

// EachPod yields the whole pods, one after the other.
func EachPod(pods []Stored) iter.Seq[*v1.Pod] {
	return func(yield func(*v1.Pod) bool) {
		for _, p := range pods {
			if !yield(p.Pod()) {
				return
			}
		}
	}
}

// Nodes reads the cluster, and returns the states and the problems of the view.
func (r *Reader) Nodes(ctx context.Context) ([]*state.Node, []document.Problem, error) {
	v, err := r.View(ctx)
	if err != nil {
		return nil, nil, err
	}
	return v.States, v.Problems, nil
}

// View reads layouts, nodes, pods and topologies, and computes the states of the nodes. Unread has the topologies
// that the identity may not list. Volumes, namespaces and admission are not read; see ViewAll.
func (r *Reader) View(ctx context.Context) (*View, error) {
	layouts, err := r.layouts.List(ctx, metav1.ListOptions{})
	undefined := apierrors.IsNotFound(err)
	if err != nil && !undefined {
		return nil, fmt.Errorf("list node layouts: %w", err)
	}
	nodes, err := r.cluster.Nodes.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	pods, seen, err := r.pods(ctx)
	if err != nil {
		return nil, err
	}
	coarse, coarseErr := nrt.List(ctx, r.cfg)
	volcanos, volcanosErr := nrt.ListNumatopologies(ctx, r.cfg)
	for _, err := range []error{coarseErr, volcanosErr} {
		if err != nil && !apierrors.IsForbidden(err) {
			return nil, err
		}
	}
	v := ViewOfObjects(Objects{layouts.Items, nodes.Items, pods, append(coarse, volcanos...), seen}, r.now())
	if err := r.AddKept(ctx, v); err != nil {
		return nil, err
	}
	if apierrors.IsForbidden(coarseErr) {
		v.Miss(nrt.Resources()[0].Resource, notListed)
	}
	if apierrors.IsForbidden(volcanosErr) {
		v.Miss(nrt.Numatopologies().Resource, notListed)
	}
	r.notes = v.Notes
	if undefined {
		for i := range v.Problems {
			v.Problems[i].Reason = "the definition of NodeLayout is not installed (kubectl apply -k deploy/crd), and the " +
				"node has no NodeResourceTopology"
		}
	}
	return v, nil
}

// ViewAll reads what View and Around read, and the objects of admission plugins.
func (r *Reader) ViewAll(ctx context.Context) (*View, error) {
	v, err := r.View(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.Around(ctx, v); err != nil {
		return nil, err
	}
	if v.Admission, err = r.readAdmission(ctx, v.Seen); err != nil {
		return nil, err
	}
	return v, nil
}

// Around adds volumes, namespaces and the resources that DRA serves to a view. What the identity may not list stays
// nil, and is recorded in Unread.
func (r *Reader) Around(ctx context.Context, v *View) (err error) {
	if v.Storage, err = r.readStorage(ctx, v.Seen); err != nil {
		return err
	}
	if v.Namespaces, err = r.readNamespaces(ctx); err != nil {
		return err
	}
	if v.Classes, err = r.classes(ctx); err != nil {
		return err
	}
	if v.Classes != nil {
		v.Served = served(v.Classes)
	}
	for i, missing := range []bool{v.Storage == nil, v.Namespaces == nil, v.Served == nil} {
		if missing {
			v.Miss(AroundResources()[i], notListed)
		}
	}
	return nil
}

// AroundResources returns the names of the resources that [Reader.Around] and [Reader.AddKept] read, in the form of
// View.Unread.
func AroundResources() []string {
	return []string{"volumes and storage classes", "namespaces", "deviceclasses", provisioning.Resource().Resource}
}

// Objects are what a view is computed from.
type Objects struct {
	Layouts    []v1alpha1.NodeLayout
	Nodes      []v1.Node
	Pods       []v1.Pod
	Topologies []*v1alpha2.NodeResourceTopology
	Seen       *Seen // see [View]
}

// ViewOf is ViewOfObjects for objects with the pods of all namespaces.
func ViewOf(layouts []v1alpha1.NodeLayout, nodes []v1.Node, pods []v1.Pod,
	coarse []*v1alpha2.NodeResourceTopology, at time.Time) *View {
	return ViewOfObjects(Objects{layouts, nodes, pods, coarse, nil}, at)
}

// ViewOfObjects computes the view of objects that were all read at the given time.
func ViewOfObjects(o Objects, at time.Time) *View {
	book := ledger.New()
	feed := NewFeed(book, nil, nil)
	feed.Sees(o.Seen)
	for i := range o.Layouts {
		feed.Layout(&o.Layouts[i])
	}
	for i := range o.Pods {
		feed.Pod(&o.Pods[i])
	}
	for _, t := range o.Topologies {
		feed.Topology(t)
	}
	feed.Begin()
	feed.overdueAt(at)
	feed.openDoubts(at)
	for i := range o.Layouts {
		refusals(book, &o.Layouts[i], o.Pods, at)
	}
	snap := book.Snapshot()
	out := &View{Problems: problems(feed, snap, o.Nodes), Nodes: o.Nodes, Pods: StoreAll(o.Pods), Seen: o.Seen,
		Layouts: o.Layouts, Topologies: o.Topologies, Notes: notes(feed, snap)}
	for _, name := range snap.Names() {
		out.States = append(out.States, snap.Node(name))
	}
	return out
}

// RefusedFor is the longest time for which a node that has refused a pod gets no pods of the same shape. A report of
// the node ends this sooner, but a node on which nothing changes reports nothing.
const RefusedFor = 5 * time.Minute

// refusals records in a ledger which shapes of pods a node has refused since it wrote its layout, at most RefusedFor
// before the given time. A scheduler that runs all the time has the same record, and keeps such pods away.
func refusals(book *ledger.Book, l *v1alpha1.NodeLayout, pods []v1.Pod, at time.Time) {
	for i := range pods {
		pod := &pods[i]
		why, refused := Rejection(pod)
		if !refused || pod.Spec.NodeName != l.Name || compare(pod.ResourceVersion, l.ResourceVersion) <= 0 {
			continue
		}
		// The kubelet's status manager sets the start time of a refused pod when it writes the refusal.
		if start := pod.Status.StartTime; start == nil || at.Sub(start.Time) > RefusedFor {
			continue
		}
		if spec, err := apipod.ToPlace(pod); err == nil {
			book.RefusedBefore(l.Name, spec, why)
		}
	}
}

// problems returns why nodes have no state, in ascending order of node. The result is not nil, so that answers in JSON
// have an empty list if there are none.
func problems(feed *Feed, snap *ledger.Snapshot, nodes []v1.Node) []document.Problem {
	out := []document.Problem{}
	for i := range nodes {
		name := nodes[i].Name
		if snap.Node(name) != nil {
			continue
		}
		var why []string
		if p := feed.Problem(name); p != "" {
			why = append(why, "layout refused: "+p)
		}
		if p := feed.TopologyProblem(name); p != "" {
			why = append(why, "refused: "+p)
		}
		if len(why) == 0 {
			why = append(why, "no layout: is the agent running?")
		}
		out = append(out, document.Problem{Node: name, Reason: strings.Join(why, "; ")})
	}
	slices.SortFunc(out, func(a, b document.Problem) int { return strings.Compare(a.Node, b.Node) })
	return out
}

// Notes returns notes on the nodes that were read last: why a layout is not used, and which parts of a
// NodeResourceTopology were not understood or were corrected. They are in ascending order of node.
func (r *Reader) Notes() []document.Problem { return slices.Clone(r.notes) }

// notes computes what [Reader.Notes] returns. The result is not nil.
func notes(feed *Feed, snap *ledger.Snapshot) []document.Problem {
	out := []document.Problem{}
	for _, name := range snap.Names() {
		if p := feed.Problem(name); p != "" {
			out = append(out, document.Problem{Node: name,
				Reason: "its layout is refused, so its " + snap.Node(name).From + " counts: " + p})
		}
		for _, c := range feed.TopologyConditions(name) {
			out = append(out, document.Problem{Node: name, Reason: snap.Node(name).From + ": " + c})
		}
	}
	return out
}

// Lacks returns, by node, the plain amounts that the node has too little of for the pod. It leaves out nodes that have
// enough. It counts like kube-scheduler's NodeResourcesFit where no DRA driver and no extender serves a resource: the
// node's allocatable minus the requests of all pods bound to it.
func (r *Reader) Lacks(ctx context.Context, pod *v1.Pod) (map[string][]place.Reason, error) {
	nodes, err := r.cluster.Nodes.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	pods, err := r.cluster.Pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	used := map[string]whatif.Amounts{}
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.Spec.NodeName == "" || p.UID == pod.UID || Ended(p) {
			continue
		}
		needs, _ := Needs(p)
		used[p.Spec.NodeName] = used[p.Spec.NodeName].Add(needs)
	}
	out := map[string][]place.Reason{}
	needs, _ := Needs(pod)
	for i := range nodes.Items {
		n := whatif.Node{Name: nodes.Items[i].Name, Used: used[nodes.Items[i].Name]}
		n.Allocatable, _ = Amounts(nodes.Items[i].Status.Allocatable)
		if short := n.Lacks(needs); len(short) > 0 {
			out[n.Name] = short
		}
	}
	return out, nil
}

// Pod returns one pod.
func (r *Reader) Pod(ctx context.Context, namespace, name string) (*v1.Pod, error) {
	return r.cluster.Pods.In(namespace).Get(ctx, name, metav1.GetOptions{})
}
