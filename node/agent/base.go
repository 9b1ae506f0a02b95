package agent

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
)

// baseWriter reads and writes the LayoutBase that the layouts of this agent continue. A base is replaced when the
// differences from it have taken as many bytes as it has itself: that keeps the sum of both near its least, whatever
// pods do. A small base stays longer, because a request has its price, too.
type baseWriter struct {
	client *client.Client
	name   string
	labels []string // the keys of the labels to copy
	watch  *selfWatch
	log    logr.Logger

	last   *v1alpha1.LayoutBase // as this agent wrote it; nil if the next layout needs a new base
	empty  int                  // bytes of a layout that does not differ from last
	budget int                  // how many bytes the differences from last may take together
	spent  int                  // how many they have taken
	// unserved is why the API server takes no bases, by the definition or the rights of an earlier release. Layouts are
	// written whole then. It is tried again with the next reading.
	unserved error
}

// leastBudget is the budget of small bases.
const leastBudget = 16 << 10

// read returns the base at the API server, or nil. If it is not the one that this agent wrote, the next layout gets a
// new base.
func (w *baseWriter) read(ctx context.Context) (*v1alpha1.LayoutBase, error) {
	w.unserved = nil
	b, err := w.client.Bases.Get(ctx, w.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		w.last = nil
		w.watch.read(nil)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get base of layout %s: %w", w.name, err)
	}
	w.watch.read(b)
	if w.last != nil && (b.Sequence != w.last.Sequence || b.Agent.ID != w.last.Agent.ID) {
		w.last = nil
	}
	return b, nil
}

// difference returns a complete layout as the difference from the base, or nil if a new base is needed.
func (w *baseWriter) difference(l *v1alpha1.NodeLayout) (*v1alpha1.NodeLayout, error) {
	if w.last == nil || w.spent >= w.budget || metadataMark(l, w.labels) != metadataMark(w.last, w.labels) {
		return nil, nil
	}
	d, ok := l.Since(w.last)
	if !ok {
		return nil, nil
	}
	size, err := sizeOf(d)
	w.spent += max(0, size-w.empty)
	return d, err
}

// renew writes a new base with the data of a complete layout, and returns the layout that continues it. next returns
// the sequence of that layout. If the API server takes no bases, renew returns the complete layout.
func (w *baseWriter) renew(ctx context.Context, l *v1alpha1.NodeLayout, next func() int64) (*v1alpha1.NodeLayout,
	error) {
	if w.unserved != nil {
		return l, nil
	}
	b := v1alpha1.BaseOf(l)
	w.last = nil // until it is known to be written
	err := w.watch.write(func() (metav1.Object, error) { return w.client.ApplyBase(ctx, b) })
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		w.unserved = err
		w.log.Info("the API server takes no LayoutBase, so the layout is written whole, which costs it more",
			"why", err.Error())
		return l, nil
	}
	if err != nil {
		return nil, err
	}
	weight, err := sizeOf(b)
	if err != nil {
		return nil, err
	}
	l.Sequence = next()
	d, _ := l.Since(b) // it differs in nothing
	if w.empty, err = sizeOf(d); err != nil {
		return nil, err
	}
	w.last, w.budget, w.spent = b, max(weight, leastBudget), 0
	return d, nil
}

func sizeOf(object any) (int, error) {
	data, err := json.Marshal(object)
	if err != nil {
		return 0, fmt.Errorf("encode: %w", err)
	}
	return len(data), nil
}
