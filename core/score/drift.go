package score

// drift is the sum of the differences between the weights of two mixes, out of 512, up to which they count as equal.
const drift = 24

// Differs reports whether scoring by another mix may choose other nodes: the weights differ by more than a little, or
// the weights of unseen pods differ.
func (m *Mix) Differs(from *Mix) bool {
	if m.Unseen() != from.Unseen() {
		return true
	}
	differences := map[string]int64{}
	for i, s := range m.Shares() {
		differences[m.texts[i]] += s.Weight
	}
	for i, s := range from.Shares() {
		differences[from.texts[i]] -= s.Weight
	}
	sum := int64(0)
	for _, w := range differences {
		sum += max(w, -w)
	}
	return sum > drift
}
