package v1alpha1

import (
	"encoding/json"
	"fmt"
)

// Differences decides what an agent writes of the successive layouts of its node: the difference from the base, or a
// new base first. A base is replaced when the differences from it have taken as many bytes as the base has. That
// keeps the bytes of bases and differences together near the minimum. A small base is used longer (leastBudget),
// because each request costs something, too. The zero Differences has no base.
//
// +kubebuilder:object:generate=false
type Differences struct {
	base   *LayoutBase
	empty  int // bytes of a layout that does not differ from the base
	budget int // how many bytes the differences may take together
	spent  int // how many they have taken
}

// leastBudget is the budget of small bases, in bytes.
const leastBudget = 16 << 10

// Base returns the base whose differences the next layout may have, or nil if there is none.
func (d *Differences) Base() *LayoutBase { return d.base }

// Begin makes b, which the caller has written, the base of the following layouts. It keeps b.
func (d *Differences) Begin(b *LayoutBase) error {
	*d = Differences{}
	weight, err := sizeOf(b)
	if err != nil {
		return err
	}
	same := &NodeLayout{ObjectMeta: b.ObjectMeta, Sequence: b.Sequence, Agent: b.Agent}
	b.onto(same)
	same, _ = same.Since(b)
	empty, err := sizeOf(same)
	if err != nil {
		return err
	}
	*d = Differences{base: b, empty: empty, budget: max(weight, leastBudget)}
	return nil
}

// End forgets the base: the next layout needs a new one.
func (d *Differences) End() { *d = Differences{} }

// Next returns what to write of a complete layout: its difference from the base. It returns nil if the layout needs a
// new base, which includes the case that the budget is spent.
func (d *Differences) Next(l *NodeLayout) (*NodeLayout, error) {
	if d.base == nil || d.spent >= d.budget {
		return nil, nil
	}
	out, ok := l.Since(d.base)
	if !ok {
		return nil, nil
	}
	size, err := sizeOf(out)
	d.spent += max(0, size-d.empty)
	return out, err
}

func sizeOf(object any) (int, error) {
	data, err := json.Marshal(object)
	if err != nil {
		return 0, fmt.Errorf("encode: %w", err)
	}
	return len(data), nil
}
