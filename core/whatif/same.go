package whatif

import (
	"maps"
	"slices"

	"github.com/tenon-numa/tenon/core/place"
)

// This file compares what pods want.

// Same reports whether two pods want the same: wherever one of them has a place, the other one would have it, and means
// the same to other pods there.
func (w *Want) Same(o *Want) bool {
	return w.Demand == o.Demand && w.Request == o.Request && w.Devices == o.Devices && w.Pod.Shape() == o.Pod.Shape() &&
		maps.Equal(w.Needs, o.Needs) && (w.Type == o.Type || w.Type != nil && o.Type != nil && *w.Type == *o.Type) &&
		w.Bars.same(o.Bars) && (w.Peers == nil && o.Peers == nil || w.Peers != nil && o.Peers != nil && w.Peers.Same(o.Peers))
}

// same reports whether two bars have the same reasons.
func (b *Bars) same(o *Bars) bool {
	if b == nil || o == nil {
		return b == o
	}
	return b == o || slices.EqualFunc(b.Why, o.Why, slices.Equal[[]place.Reason])
}
