package printable

import (
	"fmt"
	"slices"
	"strings"
)

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

// maxListed bounds the names that Instead lists.
const maxListed = 5

// Instead returns the end of an error about a name that is not among the known ones: "; NAME may be meant" with the
// name that [Nearest] finds, or with the first one that begins like the unknown name. Otherwise it lists the first
// few known names. It returns "" if no name is known.
func Instead(name string, known []string) string {
	all := slices.Compact(slices.Sorted(slices.Values(known)))
	near := Nearest(name, all)
	if i := slices.IndexFunc(all, func(k string) bool { return strings.HasPrefix(k, name) }); near == "" && i >= 0 {
		near = all[i]
	}
	switch more := len(all) - maxListed; {
	case len(all) == 0:
		return ""
	case name != "" && near != "":
		return "; " + near + " may be meant"
	case more > 0:
		return fmt.Sprintf("; there are %s and %d more", strings.Join(all[:maxListed], ", "), more)
	case len(all) == 1:
		return "; there is " + all[0]
	}
	return "; there are " + strings.Join(all, ", ")
}

// InsteadOfPod is Instead for a pod that a namespace does not have. The known pods are "namespace/name". The result
// names a pod of the same name in another namespace, and otherwise a pod of the same namespace.
func InsteadOfPod(namespace, name string, known []string) string {
	var here []string
	for _, k := range known {
		ns, other, _ := strings.Cut(k, "/")
		switch {
		case ns == namespace:
			here = append(here, other)
		case other == name:
			return "; there is " + k
		}
	}
	return Instead(name, here)
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
