package agent

import (
	"context"
	"fmt"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/api/objects"
	"github.com/tenon-numa/tenon/node/desired"
)

// nodeWatch keeps the parts of the Node that the agent needs. It watches the whole Node, because the kubelet's version
// and its count of devices are in the Node's status.
type nodeWatch struct {
	*objectWatch
	nodes  *objects.Client[*v1.Node, *v1.NodeList]
	name   string
	labels []string // the keys of the labels to copy

	mu    sync.Mutex
	known desired.Node
}

// newNodeWatch returns a watch that calls onChange when a part of the Node that the agent needs has changed.
func newNodeWatch(nodes *objects.Client[*v1.Node, *v1.NodeList], name string, labels []string,
	onChange func()) *nodeWatch {
	w := &nodeWatch{nodes: nodes, name: name, labels: labels}
	from := source{
		list:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return nodes.List(ctx, o) },
		watch: nodes.Watch, kind: &v1.Node{}, trim: trimNode,
	}
	w.objectWatch = newObjectWatch(from, name, func(o metav1.Object, deleted bool) {
		n, ok := o.(*v1.Node)
		if ok && (deleted && w.forget(n.UID) || !deleted && w.learn(n)) {
			onChange()
		}
	})
	return w
}

// get returns the Node that the watch has reported. If it has reported none, or the caller asks for a reading, get
// reads the Node from the API server's cache.
func (w *nodeWatch) get(ctx context.Context, ask bool) (desired.Node, error) {
	if n := w.current(); n.UID != "" && !ask {
		return n, nil
	}
	node, err := w.nodes.Get(ctx, w.name, *fromCache())
	if err != nil {
		return desired.Node{}, fmt.Errorf("get node %s: %w", w.name, err)
	}
	w.learn(node)
	return w.current(), nil
}

func (w *nodeWatch) current() desired.Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known
}

// learn keeps the parts of a Node that an agent needs, and reports whether they differ from the ones it had.
func (w *nodeWatch) learn(node *v1.Node) (changed bool) {
	now := desired.Node{UID: node.UID, Labels: pick(node.Labels, w.labels),
		KubeletVersion: node.Status.NodeInfo.KubeletVersion, Capacity: devicesOf(node.Status.Capacity),
		Usable:    devicesOf(node.Status.Allocatable),
		Hugepages: map[string]int64{},
		CPUs:      node.Status.Capacity.Cpu().Value(), Memory: node.Status.Capacity.Memory().Value()}
	for name, q := range node.Status.Capacity {
		if strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix) {
			now.Hugepages[string(name)] = q.Value()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	changed = !w.known.Equal(now)
	w.known = now
	return changed
}

// devicesOf returns the amounts of the extended resources in a list, by name. It leaves out amounts that are not whole
// numbers.
func devicesOf(list v1.ResourceList) map[string]int64 {
	out := map[string]int64{}
	for name, q := range list {
		if count, ok := q.AsInt64(); ok && strings.Contains(string(name), "/") {
			out[string(name)] = count
		}
	}
	return out
}

// forget drops the Node with the UID, and reports whether it was the known one.
func (w *nodeWatch) forget(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known.UID != uid {
		return false
	}
	w.known = desired.Node{}
	return true
}

// trimNode keeps the parts of a Node that learn reads.
func trimNode(obj any) (any, error) {
	n, ok := obj.(*v1.Node)
	if !ok {
		return obj, nil
	}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: n.UID, ResourceVersion: n.ResourceVersion, Labels: n.Labels},
		Status: v1.NodeStatus{Capacity: n.Status.Capacity, Allocatable: n.Status.Allocatable,
			NodeInfo: v1.NodeSystemInfo{KubeletVersion: n.Status.NodeInfo.KubeletVersion}},
	}, nil
}

// pick returns the labels with these keys, or nil if there are none.
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
