package follow

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
)

// Amounts has the present plain amounts of nodes: their totals of CPU, memory and other resources, without regard to
// NUMA nodes, and what pods request of them. It reads kube-scheduler's own informers. kube-scheduler checks the
// amounts when it chooses a node, but while a pod waits for its turn after that, another scheduler may bind pods to
// the node. A node that is not in the informers counts as having enough, because its kubelet rejects a pod that does
// not fit. A nil *Amounts has no nodes.
type Amounts struct {
	nodes corelisters.NodeLister
	pods  cache.Indexer
}

// Names of indexes of pods.
const (
	byNode    = "tenon.sh/node"
	byRequest = "tenon.sh/request"
)

// NewAmounts adds indexes of pods by node and by request. Call it before the informers start.
func NewAmounts(f informers.SharedInformerFactory) (*Amounts, error) {
	pods := f.Core().V1().Pods().Informer()
	err := pods.AddIndexers(cache.Indexers{byNode: func(o any) ([]string, error) {
		if p, ok := o.(*v1.Pod); ok && p.Spec.NodeName != "" {
			return []string{p.Spec.NodeName}, nil
		}
		return nil, nil
	}, byRequest: func(o any) ([]string, error) {
		if p, ok := o.(*v1.Pod); ok && p.Spec.NodeName != "" {
			if request := apipod.Request(p); request != "" {
				return []string{request}, nil
			}
		}
		return nil, nil
	}})
	if err != nil {
		return nil, fmt.Errorf("index pods: %w", err)
	}
	return &Amounts{nodes: f.Core().V1().Nodes().Lister(), pods: pods.GetIndexer()}, nil
}

// On returns the pods that are bound to a node, according to the informer, including pods that have terminated.
func (a *Amounts) On(node string) []*v1.Pod { return a.by(byNode, node) }

// Using returns the bound pods that use up the room of a ProvisioningRequest, "namespace/name".
func (a *Amounts) Using(request string) []*v1.Pod { return a.by(byRequest, request) }

// Owned returns the bound pods of a namespace and of an owner, as [apipod.Owner] returns it, which were created at a
// time, in seconds, or later. It looks at all pods of the namespace.
func (a *Amounts) Owned(namespace, owner string, since int64) []*v1.Pod {
	return slices.DeleteFunc(a.by(cache.NamespaceIndex, namespace), func(p *v1.Pod) bool {
		return p.Spec.NodeName == "" || p.CreationTimestamp.Unix() < since || apipod.Owner(p) != owner
	})
}

// by returns the pods that an index has under a key.
func (a *Amounts) by(index, key string) (out []*v1.Pod) {
	if a == nil {
		return nil
	}
	pods, err := a.pods.ByIndex(index, key)
	if err != nil {
		return nil
	}
	for _, o := range pods {
		if p, ok := o.(*v1.Pod); ok {
			out = append(out, p)
		}
	}
	return out
}

// Pods returns all pods that the informer has.
func (a *Amounts) Pods() (out []*v1.Pod) {
	if a == nil {
		return nil
	}
	for _, o := range a.pods.List() {
		if p, ok := o.(*v1.Pod); ok {
			out = append(out, p)
		}
	}
	return out
}

// Short returns what a node has too little of for a pod, or "". It counts the pods that are bound to the node
// according to the informer. Of the pods in more, it counts those that the informer has as not bound yet.
func (a *Amounts) Short(pod *v1.Pod, node string, more []state.PodID) string {
	if a == nil {
		return ""
	}
	n := a.Node(node)
	if n == nil {
		return ""
	}
	var out []string
	for _, r := range kube.Lacks(pod, n, a.With(node, more)) {
		out = append(out, r.Text())
	}
	return strings.Join(out, ", ")
}

// Node returns the node of this name according to the informer, or nil if the informer does not have it.
func (a *Amounts) Node(name string) *v1.Node {
	if a == nil {
		return nil
	}
	if n, err := a.nodes.Get(name); err == nil {
		return n
	}
	return nil
}

// With returns the pods that are bound to a node according to the informer, followed by the pods in more that the
// informer has as not bound yet.
func (a *Amounts) With(node string, more []state.PodID) []*v1.Pod {
	out := a.On(node)
	if a == nil {
		return nil
	}
	for _, id := range more {
		if p := a.Waiting(id); p != nil {
			out = append(out, p)
		}
	}
	return out
}

// Unbound reports whether the informer has a pod as not bound.
func (a *Amounts) Unbound(id state.PodID) bool { return a.Waiting(id) != nil }

// Waiting returns a pod that the informer has as not bound, or nil.
func (a *Amounts) Waiting(id state.PodID) *v1.Pod {
	if a == nil {
		return nil
	}
	o, there, err := a.pods.GetByKey(id.Namespace + "/" + id.Name)
	if p, ok := o.(*v1.Pod); err == nil && there && ok && string(p.UID) == id.UID && p.Spec.NodeName == "" {
		return p
	}
	return nil
}

// Version returns a number that changes when the result of [Amounts.Of] for a node may have changed. It is a hash of
// the versions of the node and its pods.
func (a *Amounts) Version(n *state.Node) uint64 {
	if a == nil {
		return 0
	}
	h, sum := fnv.New64a(), uint64(0)
	add := func(m *metav1.ObjectMeta) {
		h.Reset()
		_, _ = h.Write([]byte(m.UID))
		_, _ = h.Write([]byte(m.ResourceVersion))
		sum += h.Sum64() // the order of the pods does not matter
	}
	if node, err := a.nodes.Get(n.Name); err == nil {
		add(&node.ObjectMeta)
	}
	for _, p := range a.With(n.Name, predicted(n)) {
		add(&p.ObjectMeta)
	}
	return sum
}

// Of returns the node's allocatable amounts, and the amounts that its pods request. It counts pods that are bound and
// have not terminated, and pods that the ledger predicts on the node. It returns false if the informer does not have
// the node.
func (a *Amounts) Of(n *state.Node) (allocatable, used whatif.Amounts, there bool) {
	if a == nil {
		return nil, nil, false
	}
	node, err := a.nodes.Get(n.Name)
	if err != nil {
		return nil, nil, false
	}
	allocatable, _ = kube.Amounts(node.Status.Allocatable) // an amount beyond bounds counts as the bound
	for _, p := range a.With(n.Name, predicted(n)) {
		if !kube.Ended(p) {
			needs, _ := kube.Needs(p)
			used = used.Add(needs)
		}
	}
	return allocatable, used, true
}

// predicted returns the pods that the ledger has placed on a node and that the node has not reported yet.
func predicted(n *state.Node) (out []state.PodID) {
	for i := range n.Entries {
		if n.Entries[i].Source == state.Predicted {
			out = append(out, n.Entries[i].Pod)
		}
	}
	return out
}
