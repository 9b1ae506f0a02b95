package place

// MaxWork bounds the steps of one verdict.
const MaxWork = 1 << 22

// work counts the steps of one verdict.
type work struct{ steps int }

// spend counts steps that are about to be made; it returns false where that is more than a verdict may make.
func (w *work) spend(n int) bool {
	w.steps += n
	return w.steps <= MaxWork
}

// over reports whether the verdict needs more steps than it may make.
func (w *work) over() bool { return w.steps > MaxWork }

// exhaust lets the verdict make no more steps.
func (w *work) exhaust() { w.steps = MaxWork + 1 }
