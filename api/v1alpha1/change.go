package v1alpha1

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/core/state"
)

// This file has what an agent writes between two layouts. A layout of 110 pods takes 40 KB; what changes when one pod
// comes takes some hundred bytes, and every watcher receives each write whole.

// MaxChanged bounds the pods in a change, and those that it ends. An agent that has more to report writes its layout.
const MaxChanged = 64

// LayoutChange has everything that has changed in the holdings of one node since its layout was written. It has the
// name of its Node. Every change contains all changes before it, so a reader needs only the last one, and the layout
// with the sequence in base. A change beside any other layout has no effect.
//
// Agents do not write it yet, and there is no definition of the kind: this is the contract that agents and readers will
// have.
type LayoutChange struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// base is the sequence of the layout that has changed.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	Base int64 `json:"base"`
	// sequence grows with every write of the agent, of its layout and of this object alike.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	Sequence int64 `json:"sequence"`
	// summary has totals of the changed layout, for people; nothing is computed from it.
	// +optional
	Summary Summary `json:"summary,omitzero"`
	// ended are the UIDs of pods in the layout that hold nothing any more.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^[-+.:_0-9A-Za-z]*$`
	// +optional
	Ended []string `json:"ended,omitempty"`
	// holdings are the pods that hold something else than in the layout, and the pods that the layout lacks, in the order
	// in which the node probably admitted them.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Holdings []PodHoldings `json:"holdings,omitempty"`
	// memoryGroups replace the memoryGroups of the layout.
	// +listType=map
	// +listMapKey=numa
	// +kubebuilder:validation:MaxItems=64
	// +optional
	MemoryGroups []MemoryGroup `json:"memoryGroups,omitempty"`

	// Malformed is why the object could not be decoded.
	Malformed string `json:"-"`
}

// Since returns what has changed from an earlier layout of the node to this one. ok is false if a change cannot express
// that: more than holdings and memory groups differ, or too many pods do, or pods of the earlier layout come in another
// order. The sequence of the change is that of this layout.
func (l *NodeLayout) Since(base *NodeLayout) (c *LayoutChange, ok bool) {
	if !reflect.DeepEqual(l.fixed(), base.fixed()) {
		return nil, false
	}
	c = &LayoutChange{Base: base.Sequence, Sequence: l.Sequence, Summary: l.Summary, MemoryGroups: l.MemoryGroups}
	c.Name, c.OwnerReferences = l.Name, l.OwnerReferences
	before := make(map[string]*PodHoldings, len(base.Holdings))
	for i := range base.Holdings {
		before[base.Holdings[i].UID] = &base.Holdings[i]
	}
	for i := range l.Holdings {
		h := &l.Holdings[i]
		if old := before[h.UID]; old == nil || !reflect.DeepEqual(old, h) {
			c.Holdings = append(c.Holdings, *h)
		}
		delete(before, h.UID)
	}
	for i := range base.Holdings {
		if uid := base.Holdings[i].UID; before[uid] != nil {
			c.Ended = append(c.Ended, uid)
		}
	}
	if len(c.Holdings) > MaxChanged || len(c.Ended) > MaxChanged {
		return nil, false
	}
	return c, slices.EqualFunc(base.With(c).Holdings, l.Holdings, func(a, b PodHoldings) bool { return a.UID == b.UID })
}

// fixed returns the parts of a layout that a change does not replace.
func (l *NodeLayout) fixed() NodeLayout {
	return NodeLayout{Machine: l.Machine, Rules: l.Rules, Kubelet: l.Kubelet, Inexact: l.Inexact}
}

// With returns the layout as a change has left it. If the change belongs to another layout, or is nil, With returns l.
// The result has the sequence of the change and its time of writing, and the later resource version of the two objects.
// If the change does not decode, the result is malformed, too.
func (l *NodeLayout) With(c *LayoutChange) *NodeLayout {
	if c == nil || c.Name != l.Name || l.Malformed != "" {
		return l
	}
	out := *l
	if c.Malformed != "" {
		out.Malformed = "its LayoutChange: " + c.Malformed
		return &out
	}
	if c.Base != l.Sequence || c.Sequence <= c.Base {
		return l
	}
	out.Sequence, out.Summary, out.MemoryGroups = c.Sequence, c.Summary, c.MemoryGroups
	out.ResourceVersion = later(l.ResourceVersion, c.ResourceVersion)
	if len(c.ManagedFields) > 0 {
		out.ManagedFields = c.ManagedFields
	}
	out.Holdings = merged(l.Holdings, c.Holdings, c.Ended, func(h *PodHoldings) string { return h.UID })
	return &out
}

// On returns a layout as the change has left it. The caller has checked that the change belongs to it.
func (c *LayoutChange) On(base Layout) (out Layout, err error) {
	if out, err = c.on(base); err != nil {
		return Layout{}, fmt.Errorf("layout change of node %q: %w", clip(c.Name), err)
	}
	return out, nil
}

func (c *LayoutChange) on(base Layout) (out Layout, err error) {
	if c.Malformed != "" {
		return out, fmt.Errorf("object does not decode: %s", visible(c.Malformed))
	}
	if c.Sequence < 0 || c.Sequence > MaxSequence {
		return out, fmt.Errorf("sequence: %d is outside 0..%d", c.Sequence, int64(MaxSequence))
	}
	if err := within("ended", len(c.Ended), 0, MaxChanged); err != nil {
		return out, err
	}
	if err := within("holdings", len(c.Holdings), 0, MaxChanged); err != nil {
		return out, err
	}
	changed, err := entries(base.Machine, c.Holdings)
	if err != nil {
		return out, fmt.Errorf("holdings: %w", err)
	}
	out = base
	out.Entries = merged(base.Entries, changed, c.Ended, func(e *state.Entry) string { return e.Pod.UID })
	if err := within("pods", len(out.Entries), 0, MaxPods); err != nil {
		return out, err
	}
	if out.Groups, err = groups(base.Machine, c.MemoryGroups); err != nil {
		return out, fmt.Errorf("memoryGroups: %w", err)
	}
	return out, nil
}

// WrittenAt returns when the change was last written, by the API server's clock, or the zero time.
func (c *LayoutChange) WrittenAt() time.Time {
	return (&NodeLayout{ObjectMeta: metav1.ObjectMeta{ManagedFields: c.ManagedFields}}).WrittenAt()
}

// merged returns what is left of the pods in old when some of them have ended, and others have changed or have come.
func merged[T any](old, changed []T, ended []string, uid func(*T) string) []T {
	out := make([]T, 0, len(old)+len(changed))
	fresh := make(map[string]*T, len(changed))
	for i := range changed {
		fresh[uid(&changed[i])] = &changed[i]
	}
	for i := range old {
		id := uid(&old[i])
		if now := fresh[id]; now != nil {
			out = append(out, *now)
			delete(fresh, id)
		} else if !slices.Contains(ended, id) {
			out = append(out, old[i])
		}
	}
	for i := range changed {
		if fresh[uid(&changed[i])] == &changed[i] {
			out = append(out, changed[i])
		}
	}
	return out
}

// later returns the later of two resource versions of one API server. They are numbers without leading zeros.
func later(a, b string) string {
	if len(b) > len(a) || len(b) == len(a) && b > a {
		return b
	}
	return a
}
