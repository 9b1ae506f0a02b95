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
}

// refresh reads the layout if ask is set, it was never read, another writer wrote it, or a request failed.
func (w *layoutWriter) refresh(ctx context.Context, now time.Time, ask bool) error {
	if w.watch.takeForeignWrite() || !w.started || ask {
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

// read reads the layout, so that the agent rewrites one that was changed or deleted.
func (w *layoutWriter) read(ctx context.Context, now time.Time) error {
	l, err := w.client.Get(ctx, w.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		w.started, w.content, w.metadata = true, nil, ""
		w.watch.read(nil)
		return nil
	}
	if err != nil {
		return fmt.Errorf("get layout %s: %w", w.name, err)
	}
	if w.content == nil {
		w.earlier = l
	}
	w.sequence = max(w.sequence, l.Sequence)
	if !w.started || w.sequence > lastSequence {
		w.started, w.sequence = true, firstSequence(w.sequence)
	}
	w.metadata = metadataMark(l, w.labels)
	if w.content, err = contentOf(l); err != nil {
		return err
	}
	if w.claim.read(l.Agent, w.watch.read(l), now) {
		w.log.Info("another agent writes the layout; claiming it, because this one started later", "other", l.Agent.ID)
		w.metadata = "" // so that the layout is written
	}
	return nil
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
	w.sequence++ // also if the write fails: it may be executed later, and must differ from the next one
	l.Sequence, l.Agent = w.sequence, w.claim.me
	if err := w.watch.write(func() (metav1.Object, error) { return w.client.Apply(ctx, l) }); err != nil {
		w.mustRead, w.inFlight = true, w.inFlight || mayBeCarriedOut(err)
		return false, err
	}
	w.content, w.metadata, w.inFlight = content, metadata, false
	w.log.V(1).Info("published", "sequence", l.Sequence, "pods", len(l.Holdings), "bytes", len(content))
	return true, nil
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
