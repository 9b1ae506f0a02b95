package ledger

// This file remembers what pods on their way to coarse nodes may have got. An exact node is unsettled until its next
// report, which comes within a second and says what every pod holds. The report of a coarse node may take a minute and
// says it of nobody, so all that is possible is followed.

// earlier is what a pod may hold whatever is computed for it now.
type earlier struct {
	// kept are its options at the time when it became known that the node had admitted it, and before anything was
	// released while it was on its way.
	kept choices
	// open: what is computed anew is possible beside kept. The pod was known to be admitted when the end of another
	// became known, and nobody says which came first.
	open bool
	// firm: it was admitted so long ago that what ends now ended after that.
	firm bool
}

// keep makes sure that what is possible for a pod now stays possible.
func (a *account) keep(f *assumedPod) {
	if a.base != nil && a.base.Quality == Coarse {
		f.earlier.kept = f.earlier.kept.or(f.options, a.limits.options)
	}
}

// widen is keep for a pod that was on its way when something was released.
func (a *account) widen(f *assumedPod) {
	a.keep(f)
	f.earlier.open = f.acked != 0 && !f.earlier.firm
}

// exchanged notes that a pod has ended which may have had what was predicted for others of its shape.
func (a *account) exchanged(me *assumedPod) {
	a.keep(me)
	for _, f := range a.assumed {
		if f.turned != 0 && f.shape == me.shape && !f.before(me) && !me.before(f) {
			f.earlier.kept = f.earlier.kept.or(me.earlier.kept, a.limits.options)
		}
	}
}

// settleWidened ends widen: from here on, what was computed anew is what was possible, too.
func (f *assumedPod) settleWidened() {
	if f.earlier.open {
		f.earlier.kept, f.earlier.open = f.options, false
	}
}
