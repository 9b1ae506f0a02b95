package agent

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
)

// baseWriter reads and writes the LayoutBase of the node, which has a complete layout. A layout continues a base if
// it has only the differences from the base, which makes most writes small.
type baseWriter struct {
	client *client.Client
	name   string
	watch  *selfWatch
	log    logr.Logger
	// written has the base that this agent wrote, and computes the differences of the next layout from it. It has no
	// base if the next layout needs a new one.
	written v1alpha1.Differences
	// unserved is the API server's error if it accepts no LayoutBase, because its CRDs or its roles come from an
	// earlier release; otherwise it is nil. While it is set, layouts are written whole. The next read clears it, so
	// that the write after that tries a base again.
	unserved error
}

// read gets the base from the API server. It returns nil without an error if there is no base, and an error for which
// apierrors.IsForbidden is true if the agent may not read it. If the base is not the one that this agent wrote, or is
// not known, the next layout gets a new base.
func (w *baseWriter) read(ctx context.Context) (*v1alpha1.LayoutBase, error) {
	w.unserved = nil
	b, err := w.client.Bases.Get(ctx, w.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		w.written.End()
		w.watch.read(nil)
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get base of layout %s: %w", w.name, err)
	}
	w.watch.read(b)
	if own := w.written.Base(); own != nil && !own.Same(b) {
		w.written.End()
	}
	return b, nil
}

// renew writes a new base with the data and the sequence of the complete layout l. Then it sets the sequence of l to
// the result of next, and returns the layout that continues the base. If the API server accepts no bases, renew
// returns l itself, which is then written whole.
func (w *baseWriter) renew(ctx context.Context, l *v1alpha1.NodeLayout, next func() int64) (*v1alpha1.NodeLayout,
	error) {
	if w.unserved != nil {
		return l, nil
	}
	b := v1alpha1.BaseOf(l)
	w.written.End() // until the new one is known to be written
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
	if err := w.written.Begin(b); err != nil {
		return nil, err
	}
	l.Sequence = next()
	d, err := w.written.Next(l)
	if err == nil && d == nil {
		err = fmt.Errorf("layout %s differs from the base that was made of it", l.Name)
	}
	return d, err
}

// blind reports whether the agent would not notice that another writer changes the base: it has written a base, and
// its watch is not open.
func (w *baseWriter) blind() bool { return w.written.Base() != nil && !w.watch.open() }
