package draw

import (
	"strings"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// ItemsOn lists what holdings take on a node, for example "cpus 1-4,33-36 · 24Gi memory on NUMA node 0". A "~" stands
// before device ids where the kubelet may take other devices just as well. The ids of a coarse node are invented, so
// ItemsOn lists amounts for it: "12 cpus on NUMA node 0 · 24Gi memory on NUMA node 0".
func ItemsOn(n *state.Node, hs ...place.Holding) string {
	p := picture{node: n, machine: n.Machine}
	return strings.Join(p.holdItems(hs), joint)
}

// Wrap sets a text of items, as [ItemsOn] returns it, in lines of a width, and breaks between items where it can. Width
// 0 is no bound. Runes that are not printable are replaced. The result has at least one line.
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

// Clip cuts a text to a number of runes. The last rune of a cut text is an ellipsis.
func Clip(s string, width int) string { return clipText(Printable(s), width) }
