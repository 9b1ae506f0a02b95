package place

// merge merges hint sets as an admission does, for tests that make their own hint sets.
func merge(u *Usage, l maskSpace, sets []hintSet) (hint, bool) {
	var cross crossing
	m := cross.merging(policyTable[u.Rules.Topology.Policy], l.size())
	m.work = &work{}
	for i := range sets {
		m.meet(&l, &sets[i])
	}
	return m.decide(u, &l)
}
