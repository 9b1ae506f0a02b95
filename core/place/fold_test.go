package place

// merge folds hint sets as an admission does, for tests that make hint sets of their own.
func merge(u *Usage, l maskSpace, sets []hintSet) (hint, bool) {
	var cross crossing
	m := cross.merging(policyTable[u.Rules.Topology.Policy], l.size())
	m.work = &work{}
	for i := range sets {
		m.meet(&l, &sets[i])
	}
	return m.decide(u, &l)
}
