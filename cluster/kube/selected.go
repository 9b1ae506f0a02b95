package kube

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/tenon-numa/tenon/core/printable"
)

// Selected returns the keys of the label sets that a label selector selects, in ascending order. It returns an error if
// there are none, because an empty answer would look like a good one. The error names a label that no set has. what is
// the kind of the objects in errors.
func Selected(what, selector string, all map[string]labels.Set) (out []string, err error) {
	s, err := labels.Parse(selector)
	if err != nil {
		return nil, fmt.Errorf("selector %q: %w", selector, err)
	}
	known := map[string]bool{}
	for name, set := range all {
		if s.Matches(set) {
			out = append(out, name)
		}
		for key := range set {
			known[key] = true
		}
	}
	if slices.Sort(out); len(out) > 0 {
		return out, nil
	}
	requirements, _ := s.Requirements()
	for _, r := range requirements {
		if !known[r.Key()] {
			return nil, fmt.Errorf("no %s matches the selector %q: none has a label %s%s", what, selector, r.Key(),
				printable.Instead(r.Key(), slices.Collect(maps.Keys(known))))
		}
	}
	return nil, fmt.Errorf("no %s matches the selector %q", what, selector)
}
