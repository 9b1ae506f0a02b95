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

	// content and metadata are the forms in which contentOf and metadataMark return what the API server has. content is
	// nil if there is no layout, or none that readers can use. An empty metadata makes the next write necessary.
	content  []byte
	metadata string
	sequence int64                // the last sequence that was sent or read
	earlier  *v1alpha1.NodeLayout // a layout that was found at the API server, until takeEarlier returns it
	started  bool                 // the layout was read once, and sequence is this agent's own
	mustRead bool                 // refresh must read: a read or a write failed, or another writer wrote
	// inFlight is set while the API server may still execute a write that failed. Another write with a higher sequence
	// has to follow it, even if the content is right.
	inFlight bool
	base     *baseWriter
}

// refresh reads the layout if the caller asks for it, if it was never read, if another writer wrote it or its base,
// or if a request failed. Otherwise it sends no request.
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

// read gets the layout and its base from the API server, and records them for the comparison in write. So write
// replaces a layout that another writer changed or deleted, or that readers cannot use.
func (w *layoutWriter) read(ctx context.Context, now time.Time) error {
	l, err := w.client.Layouts.Get(ctx, w.name, metav1.GetOptions{})
	none := apierrors.IsNotFound(err)
	if err != nil && !none {
		return fmt.Errorf("get layout %s: %w", w.name, err)
	}
	base, err := w.base.read(ctx)
	switch {
	case apierrors.IsForbidden(err) && !w.started && !none && l.Base != 0:
		// A base has the machine with which the kubelet started, and only the agent that wrote it has that from elsewhere.
		return fmt.Errorf("the base of layout %s may not be read, and nothing is written without it: give the agent the "+
			"right to get layoutbases.tenon.sh: %w", w.name, err)
	case apierrors.IsForbidden(err): // the roles come from an earlier release, or this agent knows what it wrote
	case err != nil:
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
		whole = nil // its base is missing, so readers cannot use it: write it again
	}
	if w.content == nil {
		w.earlier = whole
	}
	w.metadata = metadataMark(l, w.labels)
	if w.content = nil; whole != nil {
		if w.content, err = contentOf(whole); err != nil {
			return err
		}
		// The base has other labels or another owner, or was written after the layout: write both again.
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

// start sets the sequence from which the agent counts: the highest of its own sequence and the sequences in the
// layout l and the base. none is true if there is no layout. If the agent finds a layout or a base in its first
// reading, or a forged sequence at any time, it counts from a new multiple of stride; see firstSequence.
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
		if s < 0 || s > lastSequence { // forged: ignored, and the agent skips to sequences that were never used
			anew = true
		} else {
			w.sequence = max(w.sequence, s)
		}
	}
	if w.started = true; anew || w.sequence > lastSequence {
		w.sequence = firstSequence(w.sequence)
	}
}

// takeEarlier returns the layout that a reading found while the agent knew of none, for example the layout of an
// earlier agent. It returns each such layout once, and otherwise nil.
func (w *layoutWriter) takeEarlier() *v1alpha1.NodeLayout {
	out := w.earlier
	w.earlier = nil
	return out
}

// write writes the complete layout l if it differs from the layout at the API server and the claim permits it. Before
// it writes, it sets the sequence and the agent of l. wrote is false without an error if nothing had to be written.
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

// send writes a complete layout as the difference from the base. It writes a new base first if there is none, if more
// than holdings differs from the base, or if the differences have taken too many bytes.
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

// next returns the next sequence. A sequence is never used again, even if its write fails, because the API server may
// execute that write later.
func (w *layoutWriter) next() int64 {
	w.sequence++
	return w.sequence
}

// mayBeCarriedOut reports whether the API server, or a proxy before it, may execute a request in spite of the error.
func mayBeCarriedOut(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status) || status.Status().Code >= 500
}

// contentOf returns the part of a layout that an agent decides, without sequence, agent and metadata, in a form that
// can be compared.
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

// firstSequence returns the sequence after which an agent counts, given the sequence of the layout that it found: the
// next multiple of stride. A delayed write may have restored an old layout. If the agent continued from the old
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

// lastSequence is the greatest sequence from which an agent continues. Above it there is room for the next multiple
// of stride and the writes of the agent that counts from there.
const lastSequence = v1alpha1.MaxSequence - 2*stride
