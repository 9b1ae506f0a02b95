package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
)

// layoutWriter reads and writes the layout, and remembers the content that the API server has.
type layoutWriter struct {
	client *client.Client
	name   string
	labels []string // the keys of the labels to copy
	watch  *selfWatch
	claim  *claim
	log    logr.Logger

	// content and metadata are what the API server has; content is nil if there is no layout.
	content  []byte
	metadata string
	sequence int64                // the last sequence that was sent or read
	earlier  *v1alpha1.NodeLayout // the layout that was found first, until takeEarlier returns it
	started  bool                 // the layout was read once, and sequence is this agent's own
	mustRead bool                 // a read or a write failed, or another writer wrote
	// inFlight is set while the API server may still execute a write that failed. Another write with a higher sequence
	// has to follow it, even if the content is right.
	inFlight bool
	base     *baseWriter
}

// refresh reads the layout if ask is set, it was never read, another writer wrote it or its base, or a request failed.
func (w *layoutWriter) refresh(ctx context.Context, now time.Time, ask bool) error {
	foreign := w.watch.takeForeignWrite()
	if w.base.watch.takeForeignWrite() || foreign || !w.started || ask {
		w.mustRead = true
	}
	if !w.mustRead {
		return nil
	}
	if err := w.read(ctx, now); err != nil {
		return err
	}
	w.mustRead = false
	return nil
}

// read reads the layout and its base, so that the agent rewrites one that was changed or deleted.
func (w *layoutWriter) read(ctx context.Context, now time.Time) error {
	l, err := w.client.Layouts.Get(ctx, w.name, metav1.GetOptions{})
	none := apierrors.IsNotFound(err)
	if err != nil && !none {
		return fmt.Errorf("get layout %s: %w", w.name, err)
	}
	base, err := w.base.read(ctx)
	if err != nil {
		return err
	}
	w.start(l, base, none)
	if none {
		w.content, w.metadata = nil, ""
		w.watch.read(nil)
		return nil
	}
	whole, err := l.On(base)
	if err != nil {
		whole = nil // the layout is worth nothing: write it again
	}
	if w.content == nil {
		w.earlier = whole
	}
	w.metadata = metadataMark(l, w.labels)
	if w.content = nil; whole != nil {
		if w.content, err = contentOf(whole); err != nil {
			return err
		}
		if l.Base != 0 && (w.metadata != metadataMark(base, w.labels) || !l.Continues(base.Agent.ID, base.Sequence)) {
			w.base.written.End()
			w.metadata = ""
		}
	}
	if w.claim.read(l.Agent, w.watch.read(l), now) {
		w.log.Info("another agent writes the layout; claiming it, because this one started later", "other", l.Agent.ID)
		w.metadata = "" // so that the layout is written
	}
	return nil
}

// start continues from the highest sequence that was found. When the agent first reads, and after a forged sequence, it
// begins anew; see firstSequence.
func (w *layoutWriter) start(l *v1alpha1.NodeLayout, base *v1alpha1.LayoutBase, none bool) {
	var found []int64
	if !none {
		found = append(found, l.Sequence)
	}
	if base != nil {
		found = append(found, base.Sequence)
	}
	anew := !w.started && len(found) > 0
	for _, s := range found {
		if s < 0 || s > lastSequence { // forged: it does not count, and no sequence is used twice
			anew = true
		} else {
			w.sequence = max(w.sequence, s)
		}
	}
	if w.started = true; anew || w.sequence > lastSequence {
		w.sequence = firstSequence(w.sequence)
	}
}

// takeEarlier returns a layout that an earlier agent published. A second call returns nil, as does a call when no
// layout was found.
func (w *layoutWriter) takeEarlier() *v1alpha1.NodeLayout {
	out := w.earlier
	w.earlier = nil
	return out
}

// write writes the layout if it differs from the one at the API server and the claim permits it. Before it writes, it
// sets the sequence and the agent of l.
func (w *layoutWriter) write(ctx context.Context, l *v1alpha1.NodeLayout, now time.Time) (wrote bool, err error) {
	content, err := contentOf(l)
	if err != nil {
		return false, err
	}
	metadata := metadataMark(l, w.labels)
	right := !w.inFlight && w.content != nil && bytes.Equal(content, w.content) && w.metadata == metadata
	if err := w.claim.mayWrite(now, right); err != nil || right {
		return false, err
	}
	if err := w.send(ctx, l); err != nil {
		w.mustRead, w.inFlight = true, w.inFlight || mayBeCarriedOut(err)
		return false, err
	}
	w.content, w.metadata, w.inFlight = content, metadata, false
	w.log.V(1).Info("published", "sequence", l.Sequence, "pods", len(l.Holdings), "bytes", len(content))
	return true, nil
}

// send writes a complete layout as the difference from its base, and before that a new base if it is time for one.
func (w *layoutWriter) send(ctx context.Context, l *v1alpha1.NodeLayout) error {
	l.Agent = w.claim.me
	l.Sequence = w.next()
	out, err := w.base.written.Next(l)
	if err != nil {
		return err
	}
	if out == nil {
		if out, err = w.base.renew(ctx, l, w.next); err != nil {
			return err
		}
	}
	return w.watch.write(func() (metav1.Object, error) { return w.client.Apply(ctx, out) })
}

// next returns the next sequence. A sequence is used once, also if the write fails: it may be executed later.
func (w *layoutWriter) next() int64 {
	w.sequence++
	return w.sequence
}

// mayBeCarriedOut reports whether the API server, or a proxy before it, may execute a request in spite of the error.
func mayBeCarriedOut(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status) || status.Status().Code >= 500
}

// contentOf returns the part of a layout that an agent decides, in a form that can be compared.
func contentOf(l *v1alpha1.NodeLayout) ([]byte, error) {
	data, err := json.Marshal(v1alpha1.NodeLayout{Summary: l.Summary, Machine: l.Machine, Rules: l.Rules,
		Holdings: l.Holdings, MemoryGroups: l.MemoryGroups, Kubelet: l.Kubelet, Inexact: l.Inexact})
	if err != nil {
		return nil, fmt.Errorf("encode layout %s: %w", l.Name, err)
	}
	return data, nil
}

// stride is the distance between the first sequences of two agents. It exceeds the number of writes that one agent
// makes while one of its writes is delayed.
const stride = 1 << 20

// firstSequence returns the sequence from which an agent counts if the layout that it found has the sequence found:
// the next multiple of stride. A delayed write may have restored an old layout. If the agent continued from the old
// layout's sequence, a scheduler that has received a higher sequence would take its first layouts for old ones.
//
// Only a forged layout has a negative sequence or one above lastSequence. Then the agent counts from stride again.
// Schedulers reject a layout with a lower sequence, but only for some seconds (cluster/kube, lateGrace).
func firstSequence(found int64) int64 {
	if found < 0 || found > lastSequence {
		return stride
	}
	return (found/stride + 1) * stride
}

// lastSequence is the greatest sequence from which an agent continues.
const lastSequence = v1alpha1.MaxSequence - 2*stride
