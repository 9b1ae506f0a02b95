package printable

import "strings"

// maxNear bounds the bytes of the misspelt name that are compared.
const maxNear = 60

// Nearest returns the known name that a misspelt name may mean: the one that differs in the fewest letters, and among
// several the alphabetically first. It returns "" if each known name differs in more letters than a fifth of the
// letters of name (rounded down) plus one. Capitals, "-" and "_" do not count.
func Nearest(name string, known []string) string {
	best, least := "", 1+min(len(name), maxNear)/5
	for _, other := range known {
		d := distance(Plain(Clip(name, maxNear)), Plain(other), least+1)
		if d < least || d == least && (best == "" || other < best) {
			best, least = other, d
		}
	}
	return best
}

// Plain returns a name without capitals, "-" and "_".
func Plain(name string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(name))
}

// distance returns the Levenshtein distance of two names, in bytes. If their lengths differ by at least limit, the
// result is limit, since the caller accepts only lower distances.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			next := last
			if a[i] != b[j] {
				next = 1 + min(last, row[j], row[j+1])
			}
			last, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}
