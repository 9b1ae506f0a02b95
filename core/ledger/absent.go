package ledger

// This file tells when pods that were counted are not in the amounts of a coarse node any more though nobody has
// said that they ended: the exporter may see an end before the API server tells of it. Where the report does not say
// whom it counts, nobody knows which of the pods has left. What such a pod held is not given back when its end
// is told, since the amounts may be without it already; the next report shows what is free.

// entries makes entries of what a report shows: of the pods that were believed before (old), and of those that this
// report accounts for (fresh has both). agrees is false where they would hold more than the report shows.
func (a *account) entries(old, fresh []Entry, in map[string]bool) (out []Entry, agrees bool) {
	out, agrees = a.attribute(fresh)
	holds := agrees
	if !agrees {
		if out, holds = a.attribute(old); !holds {
			out, _ = a.attribute(nil)
		}
	}
	if a.layout.Amounts.Counts == nil {
		if !holds || !within(a.known(fresh, nil, in, func(guess) bool { return false }), a.coarse.totals.held) {
			out, _ = a.attribute(nil)
			a.suspect()
		}
		return out, agrees
	}
	for uid, r := range a.coarse.counted {
		if in[uid] {
			r.absent = false
			a.coarse.counted[uid] = r
		}
	}
	return out, agrees
}

// suspect notes that any of the pods that were counted may have left.
func (a *account) suspect() {
	for uid, r := range a.coarse.counted {
		r.absent = true
		a.coarse.counted[uid] = r
	}
}
