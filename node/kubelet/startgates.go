package kubelet

import (
	_ "embed" // for allGates
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/printable"
)

// This file finds settings of feature gates with which a kubelet does not start (k8s.io/component-base/featuregate,
// unsafeSetFromMap).

// allGates has every gate of a kubelet of [place.DefaultRelease], one a line. A line has name, stage, default,
// "locked" if no other value is accepted, and the gates that it needs. The test of lab/dropin writes it with -update.
//
//go:embed gates.txt
var allGates string

// anyGate is a line of allGates, or a gate of a release that allGates does not have.
type anyGate struct {
	Stage
	needs []string
}

// gatesIn returns the known gates of a release by name. For the default release these are all gates of a kubelet, for
// another release only the gates that concern the managers.
func gatesIn(r place.Release) map[string]anyGate {
	out := map[string]anyGate{}
	if r != place.DefaultRelease {
		for _, g := range Gates() {
			if at, ok := g.At(r); ok {
				out[g.Name] = anyGate{Stage: at}
			}
		}
		return out
	}
	for line := range strings.Lines(allGates) {
		words := strings.Fields(line)
		g := anyGate{Stage: Stage{Name: words[1], Default: words[2] == "true"}}
		for _, word := range words[3:] {
			if other, ok := strings.CutPrefix(word, "needs="); ok {
				g.needs = append(g.needs, other)
			} else {
				g.Locked = true
			}
		}
		out[words[0]] = g
	}
	return out
}

// gateFaults returns the settings of feature gates with which a kubelet of a release does not start. Release 0 means
// the default release.
func gateFaults(set map[string]bool, r place.Release) (out []place.StartFault) {
	const field = "featureGates"
	say := func(format string, args ...any) {
		out = append(out, place.StartFault{Setting: field, Text: field + ": " + fmt.Sprintf(format, args...)})
	}
	if r == 0 {
		r = place.DefaultRelease
	}
	all := gatesIn(r)
	for _, name := range slices.Sorted(maps.Keys(set)) {
		g, ok := all[name]
		concerns := slices.ContainsFunc(Gates(), func(g Gate) bool { return g.Name == name })
		switch {
		case !ok && (r == place.DefaultRelease || concerns):
			text := printable.Text(clip(name))
			if near := printable.Nearest(name, slices.Collect(maps.Keys(all))); near != "" {
				text += "; " + near + " may be meant"
			}
			say("a kubelet of %s has no gate %s", r, text)
		case g.Locked && set[name] != g.Default:
			say("%s cannot be %t in %s", name, set[name], r)
		}
	}
	if len(out) > 0 {
		return out
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, other := range all[name].needs {
			if all[name].value(name, set) && !all[other].value(other, set) {
				say("%s is on and needs %s, which is off", name, other)
			}
		}
	}
	return out
}
