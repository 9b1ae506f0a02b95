package kube

import "testing"

// The resource version alone shows that an event is older than the recorded version of its object, however many digits
// it has. An object without a version, as tests and tools make them, always counts.
func TestResourceVersionsAreComparedAsNumbers(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"9", "10", -1}, {"10", "9", 1}, {"7", "7", 0},
		{"18446744073709551616", "18446744073709551615", 1},
		{"", "5", 1}, {"5", "", 1}, {"0", "5", 1}, {"012", "5", 1}, {"1x", "5", 1}, {"-1", "5", 1},
	} {
		if got := compare(c.a, c.b); got != c.want {
			t.Errorf("compare(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
