package place

// merge folds families as an admission does, for tests that make families of their own.
func merge(u *Usage, l lattice, fams []family) (hint, bool) {
	var cross crossing
	m := cross.merging(policyTable[u.Rules.Topology.Policy], l.size())
	m.work = &work{}
	for i := range fams {
		m.meet(&l, &fams[i])
	}
	return m.decide(u, &l)
}
