package agent

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/core/state"
)

// topologyWriter calls the Publisher, and records whether the Publisher has to read its object first.
type topologyWriter struct {
	publisher Publisher
	watch     *selfWatch
	read      *metav1.GetOptions // nil if the publisher need not read
}

// fromCache makes the API server answer from its cache, which costs etcd nothing.
func fromCache() *metav1.GetOptions { return &metav1.GetOptions{ResourceVersion: "0"} }

// planRead decides whether the next write reads the object first. It does so from etcd the first time and after a
// foreign write, and from the API server's cache if only the caller asks for it. A reading stays planned until a
// write succeeds.
func (w *topologyWriter) planRead(first, ask bool) {
	switch foreign := w.watch.takeForeignWrite(); {
	case foreign || first:
		w.read = &metav1.GetOptions{}
	case ask && w.read == nil:
		w.read = fromCache()
	}
}

// write makes the Publisher publish the node. If that succeeds, no reading is planned any more.
func (w *topologyWriter) write(ctx context.Context, n *state.Node, meta metav1.ObjectMeta) (wrote bool, err error) {
	err = w.watch.write(func() (object metav1.Object, err error) {
		object, wrote, err = w.publisher.Publish(ctx, n, meta, w.read)
		return object, err
	})
	if err == nil {
		w.read = nil
	}
	return wrote, err
}
