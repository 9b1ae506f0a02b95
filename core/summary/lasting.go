package summary

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/printable"
)

// This file has the sentences for pods that no end of other pods helps.

// hostname is the label that each kubelet sets to the name of its node.
const hostname = "kubernetes.io/hostname="

// maxGroups bounds the groups of nodes that one sentence has.
const maxGroups = 2

// selects reports whether a reason is that the pod itself does not want the node.
func selects(r place.Reason) bool {
	return r.Code == place.Unselected || r.Code == place.OtherAffinity || r.Code == place.NamesOther
}

// selection are the indices of the nodes that a pod selects. narrow is set if it does not select all.
type selection struct {
	at     []int
	narrow bool
}

// selected returns the nodes that the pod's own selector, affinity and nodeName admit. The other nodes say nothing
// about when the pod can run.
func (f *Facts) selected() selection {
	s := selection{}
	for i := range f.Nodes {
		if slices.ContainsFunc(f.Nodes[i].Reasons, selects) {
			s.narrow = true
		} else {
			s.at = append(s.at, i)
		}
	}
	return s
}

// selectsNothing is the sentence for a pod that selects none of the nodes.
func (f *Facts) selectsNothing() Summary {
	if f.NotJudged > 0 {
		return Summary{NotKnown, "Not known: it selects none of the " + nodes(len(f.Nodes)) + " that are judged, and " +
			nodes(f.NotJudged) + plural(f.NotJudged, " is not", " are not"), ""}
	}
	for _, r := range f.Nodes[0].Reasons {
		if r.Code != place.Unselected || !f.everywhere(r) {
			continue
		}
		if name, ok := strings.CutPrefix(r.Resource, hostname); ok {
			return Summary{WrongName, "Wrong name: no node is named " + name + ", which the pod's node selector wants",
				"correct the pod's nodeSelector"}
		}
		return Summary{WrongName, "Wrong name: no node has the label " + r.Resource +
			", which the pod's node selector wants" + f.values(r), "label a node, or correct the pod's nodeSelector"}
	}
	return Summary{Changed, "Not without a change: no node matches both the pod's node selector and its required node " +
		"affinity", "label a node, or change the pod's nodeSelector or nodeAffinity"}
}

// everywhere reports whether all nodes lack the label of a reason.
func (f *Facts) everywhere(label place.Reason) bool {
	for i := range f.Nodes {
		if !slices.ContainsFunc(f.Nodes[i].Reasons, func(r place.Reason) bool {
			return r.Code == place.Unselected && r.Resource == label.Resource
		}) {
			return false
		}
	}
	return true
}

// values names other values that nodes have for the key of a label; "" if no node has the key.
func (f *Facts) values(label place.Reason) string {
	var all []string
	for i := range f.Nodes {
		for _, r := range f.Nodes[i].Reasons {
			if r.Code == place.Unselected && r.Resource == label.Resource && r.With != "" {
				all = append(all, r.With)
			}
		}
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) == 0 {
		return ""
	}
	few := strings.Join(all[:min(len(all), maxNames)], ", ")
	if more := len(all) - maxNames; more > 0 {
		few += fmt.Sprintf(", and %d more", more)
	}
	return "; nodes have " + few
}

// forGood is the sentence for a pod that all selected nodes refuse, whatever ends there.
func (f *Facts) forGood(sel selection) Summary {
	if resource := f.offeredNowhere(sel); resource != "" && f.NotJudged == 0 {
		none := "no node offers "
		if sel.narrow {
			none = "none of the " + nodes(len(sel.at)) + " that it selects offers "
		}
		if f.Offered != nil {
			offered := f.Offered()
			slices.Sort(offered)
			if near := printable.Nearest(resource, slices.Compact(offered)); near != "" && near != resource {
				resource += "; " + near + " may be meant"
			}
		}
		return Summary{WrongName, "Wrong name, or its device plugin does not run: " + none + resource,
			"correct the name of the resource, or look at its device plugin"}
	}
	for _, i := range sel.at {
		if r := f.Nodes[i].Reasons[lasting(f.Nodes[i].Reasons)]; !permanent(r) {
			return f.changed(sel)
		}
	}
	return f.never(sel)
}

// never is the sentence for a pod that no selected node could take.
func (f *Facts) never(sel selection) Summary {
	best, fits := f.roomiest(sel.at)
	r := tightest(f.Nodes[best].Reasons, permanent)
	text := "Never " + f.where(sel) + ": " + r.Lack() + " (node " + f.Nodes[best].Name
	if n := len(sel.at); n > 1 {
		text += fmt.Sprintf(", the best of %d", n)
	}
	text += ")"
	if fits > 0 {
		text += "; " + place.Quantity(r.Resource, fits) + " would fit on the empty node" + f.without(f.Nodes[best])
	}
	return Summary{Never, text + f.doubts(sel.at, false), r.Remedy()}
}

// where names the nodes that "never" is about.
func (f *Facts) where(sel selection) string {
	what := ""
	if sel.narrow {
		what = " that it selects"
	}
	switch {
	case f.NotJudged > 0:
		return fmt.Sprintf("on the %s%s that %s judged (%d %s not)", nodes(len(sel.at)), what,
			plural(len(sel.at), "is", "are"), f.NotJudged, plural(f.NotJudged, "is", "are"))
	case sel.narrow:
		return "on the " + nodes(len(sel.at)) + what
	}
	return "here"
}

// changed is the sentence for a pod that needs a change of itself or of a node. It has the reasons of most nodes.
func (f *Facts) changed(sel selection) Summary {
	type group struct {
		text  string
		first place.Reason
		count int
	}
	var groups []*group
	for _, i := range sel.at {
		r := telling(f.Nodes[i].Reasons)
		at := slices.IndexFunc(groups, func(g *group) bool { return g.text == family(r) })
		if at < 0 {
			at, groups = len(groups), append(groups, &group{family(r), r, 0})
		}
		groups[at].count++
	}
	slices.SortStableFunc(groups, func(a, b *group) int {
		switch never := permanent(a.first); {
		case never == permanent(b.first):
			return cmp.Or(b.count-a.count, strings.Compare(a.text, b.text))
		case never:
			return 1 // what a change removes comes first
		}
		return -1
	})
	var parts []string
	others := 0
	for i, g := range groups {
		if i < maxGroups {
			parts = append(parts, fmt.Sprintf("%s (%s)", g.text, nodes(g.count)))
		} else {
			others += g.count
		}
	}
	if others > 0 {
		parts = append(parts, "other reasons ("+nodes(others)+")")
	}
	text := "Not without a change: "
	if sel.narrow || f.NotJudged > 0 {
		text = "Not " + f.where(sel) + " without a change: "
	}
	return Summary{Changed, text + strings.Join(parts, ", ") + f.doubts(sel.at, false),
		groups[0].first.Remedy()}
}

// telling returns the lasting reason of a node that a person has to know first: the tightest permanent one, or else the
// first one that only a change removes.
func telling(reasons []place.Reason) place.Reason {
	if slices.ContainsFunc(reasons, permanent) {
		return tightest(reasons, permanent)
	}
	return reasons[lasting(reasons)]
}

// words returns a reason as text. The text is the same for reasons that one sentence does not tell apart:
// kube-scheduler's plugins say less about volumes and other pods than Tenon's commands do.
func words(r place.Reason) string {
	if r.Never && r.Doubt != "" {
		return r.Text()
	}
	switch r.Code {
	case place.BadClaim, place.VolumeElsewhere, place.NoVolume, place.SmallVolumes, place.ClaimInUse, place.VolumeLimit:
		return "its volumes keep it away"
	case place.PodAffinity, place.PodAntiAffinity, place.KeptAway:
		return "affinity between pods keeps it away"
	case place.Uneven, place.NoDomain:
		return "its topology spread keeps it away"
	case place.PortTaken:
		return "its host ports are taken"
	}
	return r.Lack()
}

// family returns the words of a reason, without amounts that differ from node to node.
func family(r place.Reason) string {
	if permanent(r) && r.Resource != "" {
		return "never enough " + r.Resource
	}
	return words(r)
}

// offeredNowhere returns an extended resource that no selected node has, or "".
func (f *Facts) offeredNowhere(sel selection) string {
	for _, r := range f.Nodes[sel.at[0]].Reasons {
		if r.Never && r.Have == 0 && strings.Contains(r.Resource, "/") && f.noneHas(sel, r.Resource) {
			return r.Resource
		}
	}
	return ""
}

func (f *Facts) noneHas(sel selection, resource string) bool {
	for _, i := range sel.at {
		if !slices.ContainsFunc(f.Nodes[i].Reasons, func(r place.Reason) bool {
			return r.Never && r.Have == 0 && r.Resource == resource && (r.Code == place.Lacking || r.Code == place.Short)
		}) {
			return false
		}
	}
	return true
}

// permanent reports whether a reason proves that the node would refuse the pod even without other pods. A demand may
// be satisfied beside other pods only, and a verdict that is too complex proves nothing.
func permanent(r place.Reason) bool {
	return r.When() == place.Never && !r.Code.OfDemand() && r.Code != place.TooComplex
}

// anyReason accepts every reason.
func anyReason(place.Reason) bool { return true }

// lasting returns the index of the first reason that no end of pods removes, or -1. Permanent reasons come first.
func lasting(reasons []place.Reason) int {
	for _, is := range []func(place.Reason) bool{permanent,
		func(r place.Reason) bool { return r.When() != place.Later }} {
		if i := slices.IndexFunc(reasons, is); i >= 0 {
			return i
		}
	}
	return -1
}

// tightest returns the reason that is farthest from being satisfied, of those that accept lets pass. Reasons without
// amounts count as farthest.
func tightest(reasons []place.Reason, accept func(place.Reason) bool) place.Reason {
	best := -1
	for i, r := range reasons {
		if accept(r) && (best < 0 || share(r) < share(reasons[best])) {
			best = i
		}
	}
	return reasons[best]
}

// share is how much of what is wanted a node has, from 0 to 1.
func share(r place.Reason) float64 {
	switch r.Code {
	case place.Short, place.Lacking, place.OneNUMA, place.Width, place.NoNUMA, place.SMT, place.Reuse, place.Chosen:
		if r.Want > 0 {
			return min(1, float64(r.Have)/float64(r.Want))
		}
	}
	return 0
}

// maxTried bounds the nodes for which an amount that fits is computed.
const maxTried = 8

// roomiest returns the node on which most of what the pod lacks would fit without other pods, and that amount. It tries
// one node for each reason, the closest reasons first. Where no amount is known, it returns the closest node and 0.
// Nodes that something else keeps from the pod, such as a taint, count only if there are no others; the amount is then
// 0.
func (f *Facts) roomiest(at []int) (best int, fits int64) {
	open := slices.DeleteFunc(slices.Clone(at), f.barred)
	if len(open) > 0 {
		at = open
	}
	kinds := map[place.Reason]int{} // the node with the first name, by the tightest permanent reason
	for _, i := range at {
		r := tightest(f.Nodes[i].Reasons, permanent)
		if known, ok := kinds[r]; !ok || f.Nodes[i].Name < f.Nodes[known].Name {
			kinds[r] = i
		}
	}
	reasons := slices.SortedFunc(maps.Keys(kinds), func(r, s place.Reason) int {
		return cmp.Or(cmp.Compare(share(s), share(r)), strings.Compare(f.Nodes[kinds[r]].Name, f.Nodes[kinds[s]].Name))
	})
	best = kinds[reasons[0]]
	if f.Fitting == nil || len(open) == 0 {
		return best, 0
	}
	for _, r := range reasons[:min(len(reasons), maxTried)] {
		if r.Resource != reasons[0].Resource {
			continue // amounts of other resources cannot be compared with it
		}
		if n := f.Fitting(kinds[r], r); n > fits {
			best, fits = kinds[r], n
		}
	}
	return best, fits
}

// barred reports whether the node at an index has a reason that is not permanent, and that no end of pods removes.
func (f *Facts) barred(at int) bool {
	return slices.ContainsFunc(f.Nodes[at].Reasons, func(r place.Reason) bool {
		return !permanent(r) && r.When() != place.Later
	})
}

// closer reports whether a reason of one node is closer to being satisfied than a reason of another node. Of equally
// close ones, the node with the smaller name counts as closer.
func closer(node string, r place.Reason, other string, s place.Reason) bool {
	if a, b := share(r), share(s); a != b {
		return a > b
	}
	return node < other
}
