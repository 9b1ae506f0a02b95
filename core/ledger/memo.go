package ledger

import "github.com/tenon-numa/tenon/core/place"

// memo has the results of placements while orders of admission are followed: most orders lead through the same usages.
// The zero memo remembers nothing.
type memo struct {
	usages map[string]*place.Usage // by their keys
	known  map[placement]*tried
}

// placement is a pod on the node in one state.
type placement struct {
	usage *place.Usage
	pod   *assumedPod
}

// tried is the result of a placement. after is the usage when the pod holds what it gets.
type tried struct {
	verdict place.Verdict
	after   *place.Usage
	counted bool // it is counted in passing.budget
}

func newMemo() memo {
	return memo{usages: map[string]*place.Usage{}, known: map[placement]*tried{}}
}

// on reports whether the memo remembers anything.
func (m *memo) on() bool { return m.known != nil }

// same returns the usage that stands for all that give every pod the same as u.
func (m *memo) same(u *place.Usage) *place.Usage {
	if !m.on() {
		return u
	}
	key := u.Key()
	if known := m.usages[key]; known != nil {
		return known
	}
	m.usages[key] = u
	return u
}

// place places a pod on a usage.
func (m *memo) place(f *assumedPod, u *place.Usage) *tried {
	key := placement{u, f}
	if out := m.known[key]; out != nil {
		return out
	}
	out := &tried{verdict: f.place(u), after: u}
	if out.verdict.Fits() {
		out.after = m.same(u.Hold(out.verdict.Holdings...))
	}
	if m.on() {
		m.known[key] = out
	}
	return out
}

// has reports whether a placement is known.
func (m *memo) has(f *assumedPod, u *place.Usage) bool { return m.known[placement{u, f}] != nil }

// marks returns the values as text.
func marks(values []bool) string {
	out := make([]byte, len(values))
	for i, v := range values {
		if v {
			out[i] = 1
		}
	}
	return string(out)
}
