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

// baseWriter reads and writes the LayoutBase that the layouts of this agent continue.
type baseWriter struct {
	client *client.Client
	name   string
	watch  *selfWatch
	log    logr.Logger
	// written is what the next layout may continue: a base that this agent wrote.
	written v1alpha1.Differences
	// unserved is why the API server takes no bases, by the definition or the rights of an earlier release. Layouts are
	// written whole then. It is tried again with the next reading.
	unserved error
}

// read returns the base at the API server, or nil. If it is not the one that this agent wrote, the next layout gets a
// new base.
func (w *baseWriter) read(ctx context.Context) (*v1alpha1.LayoutBase, error) {
	w.unserved = nil
	b, err := w.client.Bases.Get(ctx, w.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		w.written.End()
		w.watch.read(nil)
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

// renew writes a new base with the data of a complete layout, and returns the layout that continues it. next returns
// the sequence of that layout. If the API server takes no bases, renew returns the complete layout.
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

// blind reports whether nothing shows that another writer has changed the base.
func (w *baseWriter) blind() bool { return w.written.Base() != nil && !w.watch.open() }
