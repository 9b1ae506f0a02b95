package room

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// A gang leaves with all its pods that are left, or not at all. While a pod waits for the room, all others leave with
// it; otherwise one gang leaves at a time, after the pods that leave by themselves.
func TestWhoLeavesTogether(t *testing.T) {
	moves := func(names string) (out []move) { // the letter is the gang; "-" is none
		for _, name := range strings.Fields(names) {
			gang, _, _ := strings.Cut(name, "0")
			out = append(out, move{Move: Move{UID: types.UID(name), Gang: strings.Trim(gang, "-")}})
		}
		return out
	}
	for _, c := range []struct{ left, have, now, alone string }{
		{"-01 -02 a01 a02", "-01 -02 a01 a02", "-01 -02 a01 a02", "-01 -02"},
		{"-01 a01 a02", "-01 a02", "-01", "-01"},
		{"-01 a01 a02", "a01 a02", "a01 a02", "a01 a02"},
		{"a01 a02 b01 b02", "a01 b01 b02", "b01 b02", "b01 b02"},
		{"a01 a02 b01 b02", "b01 a01 b02 a02", "b01 a01 b02 a02", "b01 b02"},
		{"a02", "a02", "a02", "a02"},
		{"a01 a02", "a01", "", ""},
	} {
		for _, goals := range [][]Goal{{{Node: "n"}}, nil} {
			x := &carrying{left: moves(c.left), goals: goals}
			var got []string
			for _, m := range x.turn(x.whole(moves(c.have))) {
				got = append(got, string(m.UID))
			}
			want := c.now
			if goals == nil {
				want = c.alone
			}
			if strings.Join(got, " ") != want {
				t.Errorf("of %s, which have places for %s, %d goals: %v leave, want %s", c.left, c.have, len(goals), got, want)
			}
		}
	}
}
