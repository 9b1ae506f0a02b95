package ledger

import (
	"math/rand/v2"
	"testing"
)

// Pods that wait for their turns are woken when they may have them, and not at each change of the node. After each
// event, a pod that sleeps would have to wait if it asked. Most events wake none.
func TestPodsThatWaitAreWokenWhenTheyMayAsk(t *testing.T) {
	var waited, events, woken int
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		m := beginOn(randomNode(t, r), append(randomPods(r), randomPods(r)...), 4)
		waits := map[int]<-chan struct{}{}
		open := func() (n int) {
			for _, changed := range waits {
				if !isClosed(changed) {
					n++
				}
			}
			return n
		}
		for next := m.events(t, waits); len(next) > 0; next = m.events(t, waits) {
			before := open()
			next[r.IntN(len(next))]()
			after := open()
			events, woken, waited = events+before, woken+max(0, before-after), waited+max(0, after-before)
			for i, changed := range waits {
				if isClosed(changed) {
					continue
				}
				if v, wait, err := m.book.clone().Turn(id(i).UID, m.pods[i].created); wait == nil {
					m.fail(t, "seed %d: pod %d waits, and would not if it asked: %v, %v", seed, i, v.Fits(), err)
				}
			}
		}
	}
	t.Logf("%d waits; pods that waited were woken %d times in %d events", waited, woken, events)
	if waited < 300 || woken*2 > events {
		t.Errorf("%d waits, woken %d times in %d events: want many waits, and at most one in two", waited, woken, events)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// events returns what may happen next, in this model itself. waits has the pods that wait for their turns.
func (m *model) events(t *testing.T, waits map[int]<-chan struct{}) (out []func()) {
	may := func(what string, i int, yes bool, do func()) {
		if yes {
			out = append(out, func() { m.trace = &move{what, i, m.trace}; do() })
		}
	}
	for i := range m.pods {
		p := &m.pods[i]
		changed, waiting := waits[i]
		may("reserve", i, p.at == fresh && !p.refused, func() {
			if p.refused = !m.reserve(t, i); p.refused {
				p.at = fresh
			}
		})
		may("ask", i, p.at == reserved && (!waiting || isClosed(changed)), func() {
			delete(waits, i)
			v, wait, err := m.book.Turn(id(i).UID, p.created)
			switch {
			case err != nil:
				m.fail(t, "turn of pod %d: %v", i, err)
			case wait != nil:
				waits[i] = wait.Changed
				m.trace.what = "ask in vain"
			case !v.Fits():
				p.at = fresh
			default:
				m.bind(t, i)
			}
		})
		may("admit", i, p.at == bound && m.mayAdmit(i), func() { m.admit(t, i) })
		may("end", i, p.ends && p.at == admitted, func() { m.end(t, i) })
		may("write status of", i, p.at >= admitted && p.said != p.at, func() { m.writeStatus(t, i) })
	}
	may("see", -1, m.seen < len(m.log), m.see)
	may("take report", -1, m.reports > 0, func() { m.reports--; m.taken = append(m.taken, m.layout()) })
	may("deliver report", -1, len(m.taken) > 0, func() { m.deliver(t) })
	return out
}
