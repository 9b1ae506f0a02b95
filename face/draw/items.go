package draw

import (
	"strings"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// ItemsOn lists what holdings take on a node, for example "cpus 1-4,33-36 · 24Gi memory on NUMA node 0". A "~" before
// device ids shows that the kubelet may give other devices of the same resource instead. The ids of an estimated node
// are invented, so ItemsOn lists amounts for it: "12 cpus on NUMA node 0 · 24Gi memory on NUMA node 0".
func ItemsOn(n *state.Node, hs ...place.Holding) string {
	p := picture{node: n, machine: n.Machine}
	return strings.Join(p.holdItems(hs), joint)
}

// Wrap breaks a text of items, as [ItemsOn] returns it, into lines of a width, between items if possible. Width 0
// means no bound. It replaces runes that are not printable. The result has at least one line.
func Wrap(s string, width int) []string {
	s = Printable(s)
	if s == "" || width == 0 {
		return []string{s}
	}
	var out []string
	for _, l := range wrap(plain, strings.Split(s, joint), width) {
		out = append(out, l[0].text)
	}
	return out
}

// Clip cuts a text to a number of runes, and replaces runes that are not printable. The last rune of a cut text is an
// ellipsis.
func Clip(s string, width int) string { return clipText(Printable(s), width) }
