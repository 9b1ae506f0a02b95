package v1alpha1

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/core/state"
)

// LayoutBase has all data of a NodeLayout at one sequence. The agent writes it rarely, and after it a NodeLayout that
// has only what has changed since: on a node with many pods, that is some hundred bytes instead of tens of kilobytes.
// It is cluster scoped and has the name of its Node. Only the agent writes it. Programs read the two together; see
// NodeLayout.On.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=layoutbases,shortName=lb,categories=tenon
// +kubebuilder:printcolumn:name="Sequence",type=integer,JSONPath=`.sequence`
// +kubebuilder:printcolumn:name="Kubelet",type=string,JSONPath=`.kubelet.version`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type LayoutBase struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// sequence is from the same count as that of the layout: a layout with a higher sequence was written later.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9007199254740991
	Sequence int64 `json:"sequence"`
	// agent is the process that writes the base.
	// +structType=atomic
	Agent Agent `json:"agent"`
	// machine is the hardware as the kubelet sees it.
	// +structType=atomic
	Machine Machine `json:"machine"`
	// rules are the kubelet's policies, options and reservations, by the names of its configuration.
	// +structType=atomic
	Rules Rules `json:"rules"`
	// kubelet is the program that admits the node's pods: its release, and its feature gates that concern alignment.
	// +optional
	// +structType=atomic
	Kubelet Kubelet `json:"kubelet,omitzero"`
	// inexact lists why a prediction for this node may differ from what its kubelet does; empty if the agent found no
	// reason.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Inexact []Inexact `json:"inexact,omitempty"`
	// holdings are the pods that hold a part of the machine, in the order in which the node probably admitted them.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2048
	// +optional
	Holdings []PodHoldings `json:"holdings,omitempty"`
	// memoryGroups are those of the layout, at this sequence.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +optional
	MemoryGroups []MemoryGroup `json:"memoryGroups,omitempty"`

	// Malformed is why the object could not be decoded.
	Malformed string `json:"-"`
}

// LayoutBaseList is a list of bases.
//
// +kubebuilder:object:root=true
type LayoutBaseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LayoutBase `json:"items"`
}

// BaseOf returns the base with the data of a complete layout. Both share their memory.
func BaseOf(l *NodeLayout) *LayoutBase {
	return &LayoutBase{TypeMeta: metav1.TypeMeta{APIVersion: GroupVersion().String(), Kind: BaseKind},
		ObjectMeta: metav1.ObjectMeta{Name: l.Name, Labels: l.Labels, OwnerReferences: l.OwnerReferences},
		Sequence:   l.Sequence, Agent: l.Agent, Machine: l.Machine, Rules: l.Rules, Kubelet: l.Kubelet, Inexact: l.Inexact,
		Holdings: l.Holdings, MemoryGroups: l.MemoryGroups}
}

// sameConstants reports whether two bases have equal data, apart from sequence, holdings, memoryGroups and the time
// of the agent.
func (b *LayoutBase) sameConstants(o *LayoutBase) bool {
	same := equality.Semantic.DeepEqual
	return b.Agent.ID == o.Agent.ID && same(b.Machine, o.Machine) && same(b.Rules, o.Rules) &&
		same(b.Kubelet, o.Kubelet) && same(b.Inexact, o.Inexact)
}

// Same reports whether two bases have the same data.
func (b *LayoutBase) Same(o *LayoutBase) bool {
	same := equality.Semantic.DeepEqual
	return b.Sequence == o.Sequence && b.sameConstants(o) && same(b.Holdings, o.Holdings) &&
		same(b.MemoryGroups, o.MemoryGroups)
}

// onto sets in a layout the data of the base, so that the layout is complete. It keeps the layout's sequence and
// agent.
func (b *LayoutBase) onto(l *NodeLayout) {
	l.Machine, l.Rules, l.Kubelet, l.Inexact = b.Machine, b.Rules, b.Kubelet, b.Inexact
	l.Holdings, l.MemoryGroups, l.Base, l.Ended = b.Holdings, b.MemoryGroups, 0, nil
}

// Since returns a complete layout as a difference from a base. Apart from the sequence, only holdings and
// memoryGroups can differ. ok is false if anything else does: the machine, the rules, the agent, labels or owners,
// which the base also has, or the order of the holdings.
func (l *NodeLayout) Since(b *LayoutBase) (d *NodeLayout, ok bool) {
	same := equality.Semantic.DeepEqual
	if !b.sameConstants(BaseOf(l)) || !same(l.Labels, b.Labels) || !same(l.OwnerReferences, b.OwnerReferences) {
		return nil, false
	}
	d = &NodeLayout{TypeMeta: l.TypeMeta, ObjectMeta: l.ObjectMeta, Sequence: l.Sequence, Agent: l.Agent,
		Base: b.Sequence, Summary: l.Summary, MemoryGroups: l.MemoryGroups, Status: l.Status}
	before := make(map[string]*PodHoldings, len(b.Holdings))
	for i := range b.Holdings {
		before[b.Holdings[i].UID] = &b.Holdings[i]
	}
	for _, p := range l.Holdings {
		if was := before[p.UID]; was == nil || !same(*was, p) {
			d.Holdings = append(d.Holdings, p)
		}
		delete(before, p.UID)
	}
	for i := range b.Holdings {
		if uid := b.Holdings[i].UID; before[uid] != nil {
			d.Ended = append(d.Ended, uid)
		}
	}
	return d, same(continued(b.Holdings, d.Ended, d.Holdings, uidOf), l.Holdings)
}

func uidOf(p PodHoldings) string { return p.UID }

// continued applies a difference to the holdings of a base. uid returns the UID of a holding's pod. It removes the
// holdings of the pods in ended. A changed holding takes the place of the one of the same pod, and holdings of new
// pods follow at the end. The result may share the memory of base.
func continued[E any](base []E, ended []string, changed []E, uid func(E) string) []E {
	if len(ended) == 0 && len(changed) == 0 {
		return base
	}
	gone := make(map[string]bool, len(ended))
	for _, id := range ended {
		gone[id] = true
	}
	at := make(map[string]int, len(changed))
	for i, e := range changed {
		at[uid(e)] = i
	}
	out := make([]E, 0, len(base)+len(changed))
	for _, e := range base {
		i, known := at[uid(e)]
		switch {
		case known:
			out = append(out, changed[i])
			delete(at, uid(e))
		case !gone[uid(e)]:
			out = append(out, e)
		}
	}
	for i, e := range changed {
		if k, isNew := at[uid(e)]; isNew && k == i {
			out = append(out, e)
		}
	}
	return out
}

// ErrNoBase is the error of a layout whose base is not at hand: it has not arrived yet, or it was deleted.
var ErrNoBase = errors.New("its LayoutBase is missing")

// follows compares a layout with a base of this agent and sequence. continues is true if the layout is a difference
// from the base, and older if it was written before the base. Both are false if the layout continues another base,
// which is then missing.
func (l *NodeLayout) follows(agent string, sequence int64) (continues, older bool) {
	if agent == l.Agent.ID && sequence == l.Base {
		return true, false
	}
	// An agent writes a new base before the first layout that continues it. Until that layout arrives, the base is the
	// latest that the agent has written.
	return false, sequence > l.Sequence
}

// Continues reports whether the layout is a difference from the base of this agent with this sequence.
func (l *NodeLayout) Continues(agent string, sequence int64) bool {
	continues, _ := l.follows(agent, sequence)
	return continues
}

// On returns the complete form of a layout that continues the base b. The result shares memory with b. If b was
// written after the layout, the result has the data of b. A layout that continues no base is returned itself; b may
// be nil then. The error wraps ErrNoBase if b is nil or another base.
func (l *NodeLayout) On(b *LayoutBase) (*NodeLayout, error) {
	if l.Base == 0 {
		return l, nil
	}
	if b == nil {
		return nil, l.missingBase()
	}
	continues, older := l.follows(b.Agent.ID, b.Sequence)
	if !continues && !older {
		return nil, l.missingBase()
	}
	out := *l
	b.onto(&out)
	if continues {
		out.Holdings = continued(b.Holdings, l.Ended, l.Holdings, uidOf)
		out.MemoryGroups = l.MemoryGroups
	} else {
		out.Sequence, out.Agent = b.Sequence, b.Agent
	}
	return &out, nil
}

// missingBase returns an error that wraps ErrNoBase.
func (l *NodeLayout) missingBase() error {
	return fmt.Errorf("layout of node %q continues base %d: %w", clip(l.Name), l.Base, ErrNoBase)
}

// Base is a LayoutBase as core values. It converts the object at the first use, and drops it then, because the object
// is large.
//
// +kubebuilder:object:generate=false
type Base struct {
	metav1.ObjectMeta
	Sequence int64
	Agent    string
	Parts    int // NodeLayout.Parts of the complete layout: the time of the conversion is in proportion to it

	mu     sync.Mutex
	object *NodeLayout // the complete layout, until it is converted
	layout Layout
	err    error // why layout is empty: the first fault of the object
}

// NewBase returns the base in the form that readers keep. It keeps the data of b until the base is converted, so the
// caller must not change b any more.
func NewBase(b *LayoutBase) *Base {
	out := &Base{Sequence: b.Sequence, Agent: b.Agent.ID,
		ObjectMeta: metav1.ObjectMeta{Name: b.Name, UID: b.UID, ResourceVersion: b.ResourceVersion}}
	out.object = &NodeLayout{ObjectMeta: b.ObjectMeta, Sequence: b.Sequence, Agent: b.Agent, Malformed: b.Malformed}
	b.onto(out.object)
	out.Parts = out.object.Parts()
	return out
}

// Parts returns how many containers, devices, groups of devices and groups of CPUs the layout has, without its base.
// Reading a layout takes time in proportion to this number.
func (l *NodeLayout) Parts() (n int) {
	for i := range l.Holdings {
		n += len(l.Holdings[i].Containers)
	}
	for i := range l.Machine.Devices {
		n += len(l.Machine.Devices[i].Groups)
		for k := range l.Machine.Devices[i].Groups {
			n += len(l.Machine.Devices[i].Groups[k].IDs)
		}
	}
	return n + len(l.Machine.CPUs)
}

// core returns the base as core values, or the error that its check has found. It checks and converts the base at the
// first call.
func (b *Base) core(by Sharing) (Layout, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.object != nil {
		b.layout, b.err = b.object.CoreOn(by)
		b.object = nil
	}
	out := b.layout
	out.Inexact = slices.Clip(out.Inexact) // callers append to it
	return out, b.err
}

// CoreFrom is [NodeLayout.CoreOn] for a layout that may continue a base. base may be nil. If the layout needs a base
// and the given one is nil or another, the error wraps ErrNoBase. The cost is in proportion to what has changed since
// the base, and the result shares the memory of the rest.
func (l *NodeLayout) CoreFrom(base *Base, by Sharing) (out Layout, err error) {
	if l.Base == 0 || l.Malformed != "" {
		return l.CoreOn(by)
	}
	if base == nil {
		return out, l.missingBase()
	}
	continues, older := l.follows(base.Agent, base.Sequence)
	if !continues && !older {
		return out, l.missingBase()
	}
	if out, err = base.core(by); err != nil {
		return Layout{}, fmt.Errorf("base: %w", err)
	}
	if older {
		return out, nil
	}
	if err := l.applyTo(&out, by); err != nil {
		return Layout{}, fmt.Errorf("layout of node %q: %w", clip(l.Name), err)
	}
	return out, nil
}

// applyTo checks the layout, which is a difference, and applies it to the core values of its base, in out.
func (l *NodeLayout) applyTo(out *Layout, by Sharing) error {
	if err := l.checkHead(); err != nil {
		return err
	}
	if err := within("ended", len(l.Ended), 0, MaxPods); err != nil {
		return err
	}
	changed, err := entries(l.Holdings, by, out.Machine)
	if err != nil {
		return fmt.Errorf("holdings: %w", err)
	}
	out.Entries = continued(out.Entries, l.Ended, changed, func(e state.Entry) string { return e.Pod.UID })
	if err := bounded(out.Entries); err != nil {
		return fmt.Errorf("holdings with those of base %d: %w", l.Base, err)
	}
	if out.Groups, err = groups(out.Machine, l.MemoryGroups); err != nil {
		return fmt.Errorf("memoryGroups: %w", err)
	}
	return nil
}

// bounded checks the bounds on all holdings of a node together: pods, containers, and the memory of the sets of CPUs.
func bounded(in []state.Entry) error {
	if err := within("pods", len(in), 0, MaxPods); err != nil {
		return err
	}
	var all tally
	for _, e := range in {
		if err := all.addContainers(len(e.Holdings)); err != nil {
			return err
		}
		for _, h := range e.Holdings {
			if err := all.addCPUs(h.CPUs); err != nil {
				return err
			}
		}
	}
	return nil
}
