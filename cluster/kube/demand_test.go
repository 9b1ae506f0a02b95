package kube

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tenon-numa/tenon/core/place"
)

func TestDemand(t *testing.T) {
	type notes = map[string]string
	for name, c := range map[string]struct {
		notes notes
		want  place.Demand
	}{
		"none":                 {notes{"other.io/numa": "x"}, place.Demand{}},
		"policy":               {notes{PolicyAnnotation: "single-numa-node"}, place.Demand{Policy: place.SingleNUMA}},
		"policy and scope":     {notes{PolicyAnnotation: "restricted", ScopeAnnotation: "pod"}, place.Demand{Policy: place.Restricted, Scope: place.PerPod}},
		"asks for nothing":     {notes{PolicyAnnotation: "none"}, place.Demand{}},
		"Volcano":              {notes{volcanoPolicy: "best-effort"}, place.Demand{Policy: place.BestEffort}},
		"Volcano and a scope":  {notes{volcanoPolicy: "restricted", ScopeAnnotation: "pod"}, place.Demand{Policy: place.Restricted, Scope: place.PerPod}},
		"Koordinator":          {notes{koordinatorSpec: `{"numaTopologyPolicy":"SingleNUMANode"}`}, place.Demand{Policy: place.SingleNUMA}},
		"Koordinator, nothing": {notes{koordinatorSpec: `{}`}, place.Demand{}},
		"Koordinator, a preference": {notes{koordinatorSpec: `{"numaTopologyPolicy":"Restricted","singleNUMANodeExclusive":"Preferred"}`},
			place.Demand{Policy: place.Restricted}},
		"own goes before aliases": {notes{PolicyAnnotation: "none", volcanoPolicy: "restricted", koordinatorSpec: "{"}, place.Demand{}},
	} {
		p := podOf("p")
		p.Annotations = c.notes
		if got, err := Demand(p); err != nil || got != c.want {
			t.Errorf("%s: %v, %v; want %v", name, got, err, c.want)
		}
	}
}

// A demand that is not understood is never a silent default.
func TestDemandsThatAreNotUnderstoodAreErrors(t *testing.T) {
	for _, c := range []struct{ note, value, want string }{
		{PolicyAnnotation, "", `annotation tenon.sh/numa-policy: unknown value "": want one of none, best-effort, restricted, single-numa-node`},
		{PolicyAnnotation, "Single-NUMA-Node", `unknown value "Single-NUMA-Node"`},
		{PolicyAnnotation, " restricted", `unknown value " restricted"`},
		{ScopeAnnotation, "", `annotation tenon.sh/numa-scope: unknown value "": want one of container, pod`},
		{ScopeAnnotation, "node", `annotation tenon.sh/numa-scope: unknown value "node"`},
		{volcanoPolicy, "", `annotation volcano.sh/numa-topology-policy: unknown value ""`},
		{volcanoPolicy, "strict", `unknown value "strict"`},
		{koordinatorSpec, "", `annotation scheduling.koordinator.sh/numa-topology-spec: unknown value "": want a JSON object with numaTopologyPolicy`},
		{koordinatorSpec, "null", `unknown value "null"`},
		{koordinatorSpec, "[]", `unknown value "[]"`},
		{koordinatorSpec, `{"numaTopologyPolicy":"single-numa-node"}`, `numa-topology-spec: numaTopologyPolicy: unknown value "single-numa-node"`},
		{koordinatorSpec, `{"singleNUMANodeExclusive":"Required"}`, `singleNUMANodeExclusive: unknown value "Required"`},
		{PolicyAnnotation, strings.Repeat("x", 1<<18), `unknown value "` + strings.Repeat("x", 60) + `..."`},
	} {
		p := podOf("p")
		p.Annotations = map[string]string{c.note: c.value}
		got, err := Demand(p)
		if err == nil || !strings.HasPrefix(err.Error(), "pod default/p: annotation "+c.note) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %s", err, c.want)
		}
		if got != (place.Demand{}) {
			t.Errorf("%s=%.40q is an error and demands %v", c.note, c.value, got)
		}
	}
}

func FuzzDemand(f *testing.F) {
	for _, v := range []string{"", "none", "restricted", "pod", "{}", `{"numaTopologyPolicy":"Restricted"}`, "null", "\xff", `{"a":`} {
		f.Add(v, v, v, v)
	}
	f.Fuzz(func(t *testing.T, policy, scope, volcano, koordinator string) {
		for _, notes := range []map[string]string{
			{PolicyAnnotation: policy, ScopeAnnotation: scope},
			{volcanoPolicy: volcano, ScopeAnnotation: scope},
			{koordinatorSpec: koordinator},
		} {
			p := podOf("p")
			p.Annotations = notes
			d, err := Demand(p)
			switch {
			case err != nil && (len(err.Error()) > 800 || !utf8.ValidString(err.Error())):
				t.Errorf("error of %d bytes: %q", len(err.Error()), err)
			case err == nil && notes[koordinatorSpec] == "" && notes[ScopeAnnotation] != d.Scope.String():
				t.Errorf("scope %q is read as %s", notes[ScopeAnnotation], d.Scope)
			case err == nil && notes[PolicyAnnotation] != "" && notes[PolicyAnnotation] != d.Policy.String():
				t.Errorf("policy %q is read as %s", notes[PolicyAnnotation], d.Policy)
			}
		}
	})
}
