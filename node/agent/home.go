package agent

import (
	"context"
	"maps"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/api/objects"
)

// home keeps what the agent needs of its Node. It watches the whole Node, because the kubelet's version and
// its count of devices are in the Node's status.
type home struct {
	*view
	labels []string // the keys of those that are copied

	mu  sync.Mutex
	now identity
}

// identity is what the agent needs of a Node; the zero identity is of no Node that is known.
type identity struct {
	// uid owns what the agent publishes.
	uid    types.UID
	labels map[string]string // those that are copied
	// version is the kubelet's, as the kubelet reported it.
	version string
	// capacity is the number of devices of each extended resource, unhealthy ones included.
	capacity map[string]int64
}

func (i identity) equal(o identity) bool {
	return i.uid == o.uid && i.version == o.version && maps.Equal(i.labels, o.labels) && maps.Equal(i.capacity, o.capacity)
}

func newHome(nodes *objects.Client[*v1.Node, *v1.NodeList], name string, labels []string, changed func()) *home {
	h := &home{labels: labels}
	from := source{
		list:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return nodes.List(ctx, o) },
		watch: nodes.Watch, kind: &v1.Node{}, trim: trimNode,
	}
	h.view = newView(from, name, func(o metav1.Object, deleted bool) {
		n, ok := o.(*v1.Node)
		if ok && (deleted && h.gone(n.UID) || !deleted && h.learn(n)) {
			changed()
		}
	})
	return h
}

// trimNode keeps of a Node what identityOf reads.
func trimNode(obj any) (any, error) {
	n, ok := obj.(*v1.Node)
	if !ok {
		return obj, nil
	}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: n.UID, ResourceVersion: n.ResourceVersion, Labels: n.Labels},
		Status: v1.NodeStatus{Capacity: n.Status.Capacity,
			NodeInfo: v1.NodeSystemInfo{KubeletVersion: n.Status.NodeInfo.KubeletVersion}},
	}, nil
}

func (h *home) identityOf(n *v1.Node) identity {
	out := identity{uid: n.UID, labels: pick(n.Labels, h.labels), version: n.Status.NodeInfo.KubeletVersion, capacity: map[string]int64{}}
	for name, q := range n.Status.Capacity {
		if count, ok := q.AsInt64(); ok && strings.Contains(string(name), "/") {
			out.capacity[string(name)] = count
		}
	}
	return out
}

// learn keeps what a Node says of itself, and reports whether that was not known.
func (h *home) learn(node *v1.Node) (fresh bool) {
	now := h.identityOf(node)
	h.mu.Lock()
	defer h.mu.Unlock()
	fresh = !h.now.equal(now)
	h.now = now
	return fresh
}

// gone forgets the Node with the UID, and reports whether that is the one that was known.
func (h *home) gone(uid types.UID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.now.uid != uid {
		return false
	}
	h.now = identity{}
	return true
}

// known returns the Node as it was last heard of.
func (h *home) known() identity {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

// pick returns the labels that have one of the keys.
func pick(labels map[string]string, keys []string) map[string]string {
	var out map[string]string
	for _, k := range keys {
		if v, ok := labels[k]; ok {
			if out == nil {
				out = map[string]string{}
			}
			out[k] = v
		}
	}
	return out
}
