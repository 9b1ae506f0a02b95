package agent

import (
	"maps"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
)

// home is what the agent has to know of its Node: the UID, which owns what the agent publishes, and the
// labels that it copies.
type home struct {
	*view
	labels []string // the keys of those that are copied

	mu  sync.Mutex
	now identity
}

// identity is a Node's; the zero identity is of no Node that is known.
type identity struct {
	uid    types.UID
	labels map[string]string
}

func newHome(nodes metadata.ResourceInterface, name string, labels []string, changed func()) *home {
	h := &home{labels: labels}
	h.view = newView(nodes, name, func(p *metav1.PartialObjectMetadata, deleted bool) {
		if deleted && h.gone(p.UID) || !deleted && h.learn(p) {
			changed()
		}
	})
	return h
}

// learn keeps what a Node says of itself, and reports whether that was not known.
func (h *home) learn(node metav1.Object) (fresh bool) {
	now := identity{node.GetUID(), pick(node.GetLabels(), h.labels)}
	h.mu.Lock()
	defer h.mu.Unlock()
	fresh = h.now.uid != now.uid || !maps.Equal(h.now.labels, now.labels)
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
