package pod

import (
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/api/pod/podtest"
	"github.com/tenon-numa/tenon/core/place"
)

func TestDemand(t *testing.T) {
	type notes = map[string]string
	for name, c := range map[string]struct {
		notes notes
		want  place.Demand
	}{
		"none":   {notes{"other.io/numa": "x"}, place.Demand{}},
		"policy": {notes{PolicyAnnotation: "single-numa-node"}, place.Demand{Policy: place.SingleNUMA}},
		"policy and scope": {notes{PolicyAnnotation: "restricted", ScopeAnnotation: "pod"},
			place.Demand{Policy: place.Restricted, Scope: place.PerPod}},
		"asks for nothing": {notes{PolicyAnnotation: "none"}, place.Demand{}},
		"Volcano":          {notes{VolcanoPolicy: "best-effort"}, place.Demand{Policy: place.BestEffort}},
		"Volcano and a scope": {notes{VolcanoPolicy: "restricted", ScopeAnnotation: "pod"},
			place.Demand{Policy: place.Restricted, Scope: place.PerPod}},
		"Koordinator": {notes{KoordinatorSpec: `{"numaTopologyPolicy":"SingleNUMANode"}`},
			place.Demand{Policy: place.SingleNUMA}},
		"Koordinator, nothing": {notes{KoordinatorSpec: `{}`}, place.Demand{}},
		"Koordinator, a preference": {
			notes{KoordinatorSpec: `{"numaTopologyPolicy":"Restricted","singleNUMANodeExclusive":"Preferred"}`},
			place.Demand{Policy: place.Restricted}},
		"resources": {notes{AlignAnnotation: "cpu,acme.com/gpu", PolicyAnnotation: "restricted"},
			place.Demand{Policy: place.Restricted, Align: "acme.com/gpu,cpu"}},
		"resources alone": {notes{AlignAnnotation: "memory,cpu", ScopeAnnotation: "pod"},
			place.Demand{Policy: place.SingleNUMA, Scope: place.PerPod, Align: "cpu,memory"}},
		"all but resources": {notes{IgnoreAnnotation: "memory"},
			place.Demand{Policy: place.SingleNUMA, Ignore: "memory"}},
		"Volcano and resources": {notes{VolcanoPolicy: "restricted", AlignAnnotation: "cpu"},
			place.Demand{Policy: place.Restricted, Align: "cpu"}},
		"Koordinator and resources": {
			notes{KoordinatorSpec: `{"singleNUMANodeExclusive":"Preferred"}`, AlignAnnotation: "cpu"},
			place.Demand{Policy: place.SingleNUMA, Align: "cpu"}},
		"own goes before aliases": {notes{PolicyAnnotation: "none", VolcanoPolicy: "restricted", KoordinatorSpec: "{"},
			place.Demand{}},
	} {
		p := podtest.Pod("p", podtest.Exact("c", "cpu=2 memory=1Ki acme.com/gpu=1"))
		p.Annotations = c.notes
		if got, err := Demand(p); err != nil || got != c.want {
			t.Errorf("%s: %v, %v; want %v", name, got, err, c.want)
		}
	}
}

// Devices of claims in the list are a demand of their own: they go with any policy, and add none.
func TestDevicesThatAreDemandedNear(t *testing.T) {
	type notes = map[string]string
	gpu := Near{Drivers: []string{"gpu.acme.com"}}
	for _, c := range []struct {
		notes notes
		near  Near
		rest  place.Demand
	}{
		{notes{AlignAnnotation: "cpu"}, Near{}, place.Demand{Policy: place.SingleNUMA, Align: "cpu"}},
		{notes{AlignAnnotation: "driver:gpu.acme.com"}, gpu, place.Demand{}},
		{notes{AlignAnnotation: "driver:b.acme.com,cpu,driver:a.acme.com"},
			Near{Drivers: []string{"b.acme.com", "a.acme.com"}}, place.Demand{Policy: place.SingleNUMA, Align: "cpu"}},
		{notes{AlignAnnotation: "driver:gpu.acme.com", PolicyAnnotation: "none"}, gpu, place.Demand{}},
		{notes{AlignAnnotation: "driver:gpu.acme.com", PolicyAnnotation: "restricted"}, gpu,
			place.Demand{Policy: place.Restricted}},
		{notes{AlignAnnotation: "class:gpu.acme.com,claim:devices/gpu,claim:more,claim:more/nic/fast"},
			Near{Classes: []string{"gpu.acme.com"}, Requests: []ClaimRequest{{"devices", "gpu", ""}, {"more", "", ""},
				{"more", "nic", "fast"}}}, place.Demand{}},
	} {
		p := podtest.Pod("p", podtest.Exact("c", "cpu=2 memory=1Ki"))
		p.Annotations, p.Spec.ResourceClaims = c.notes, []v1.PodResourceClaim{{Name: "devices"}, {Name: "more"}}
		if d, err := Demand(p); err != nil || d != c.rest {
			t.Errorf("%v: demand %v, %v; want %v", c.notes, d, err, c.rest)
		}
		if got := NearDevices(p); !reflect.DeepEqual(got, c.near) {
			t.Errorf("%v: devices %v, want %v", c.notes, got, c.near)
		}
	}
}

// A demand that cannot be parsed is never a silent default.
func TestDemandsThatAreNotUnderstoodAreErrors(t *testing.T) {
	for _, c := range []struct{ note, value, want string }{
		{PolicyAnnotation, "",
			`annotation tenon.sh/numa-policy: unknown value "": want one of none, best-effort, restricted, single-numa-node`},
		{PolicyAnnotation, "Single-NUMA-Node", `unknown value "Single-NUMA-Node"`},
		{PolicyAnnotation, " restricted", `unknown value " restricted"`},
		{ScopeAnnotation, "", `annotation tenon.sh/numa-scope: unknown value "": want one of container, pod`},
		{ScopeAnnotation, "node", `annotation tenon.sh/numa-scope: unknown value "node"`},
		{VolcanoPolicy, "", `annotation volcano.sh/numa-topology-policy: unknown value ""`},
		{VolcanoPolicy, "strict", `unknown value "strict"`},
		{KoordinatorSpec, "",
			`annotation scheduling.koordinator.sh/numa-topology-spec: unknown value "": want a JSON object with numaTopologyPolicy`},
		{KoordinatorSpec, "null", `unknown value "null"`},
		{KoordinatorSpec, "[]", `unknown value "[]"`},
		{KoordinatorSpec, `{"numaTopologyPolicy":"single-numa-node"}`,
			`numa-topology-spec: numaTopologyPolicy: unknown value "single-numa-node"`},
		{KoordinatorSpec, `{"singleNUMANodeExclusive":"Required"}`,
			`singleNUMANodeExclusive: unknown value "Required"`},
		{AlignAnnotation, "",
			`annotation tenon.sh/align: "" is not a resource that the pod can get of its own: let the pod ask for it, ` +
				`or name some of: acme.com/gpu, cpu, memory`},
		{AlignAnnotation, "cpu,acme.com/gpus", `"acme.com/gpus" is not a resource that the pod can get`},
		{AlignAnnotation, "cpu, memory", `" memory" is not a resource that the pod can get`},
		{AlignAnnotation, "cpu,cpu", `unknown value "cpu,cpu": want every resource once`},
		{AlignAnnotation, "hugepages-2Mi", `"hugepages-2Mi" is not a resource that the pod can get`},
		{AlignAnnotation, strings.Repeat("cpu,", 16) + "cpu", `want at most 16 names`},
		{AlignAnnotation, "cpu,driver:", `unknown value "driver:": want driver:NAME`},
		{AlignAnnotation, "driver:GPU.example.com", `unknown value "driver:GPU.example.com": want driver:NAME`},
		{AlignAnnotation, "driver:a.example,driver:a.example", `want every name once`},
		{AlignAnnotation, "class:", `unknown value "class:": want class:NAME`},
		{AlignAnnotation, "claim:", `unknown value "claim:": want claim:NAME, claim:NAME/REQUEST or `},
		{AlignAnnotation, "claim:a/b/c/d", `unknown value "claim:a/b/c/d": want claim:NAME`},
		{AlignAnnotation, "claim:a/", `unknown value "claim:a/": want claim:NAME`},
		{AlignAnnotation, "claim:A", `unknown value "claim:A": want claim:NAME`},
		{AlignAnnotation, "driver:a.example,gpu", `"gpu" is not a resource that the pod can get`},
		{IgnoreAnnotation, "driver:a.example", `"driver:a.example" is not a resource that the pod can get`},
		{IgnoreAnnotation, "gpu", `annotation tenon.sh/align-ignore: "gpu" is not a resource that the pod can get`},
		{IgnoreAnnotation, "acme.com/gpu,cpu,memory", `want fewer resources than all that it can get of its own`},
		{PolicyAnnotation, strings.Repeat("x", 1<<18), `unknown value "` + strings.Repeat("x", 60) + `..."`},
	} {
		p := podtest.Pod("p", podtest.Exact("c", "cpu=2 memory=1Ki acme.com/gpu=1"))
		p.Annotations = map[string]string{c.note: c.value}
		got, err := Demand(p)
		prefix := "pod default/p: annotation " + c.note
		if err == nil || !strings.HasPrefix(err.Error(), prefix) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %s", err, c.want)
		}
		if got != (place.Demand{}) {
			t.Errorf("%s=%.40q is an error and demands %v", c.note, c.value, got)
		}
	}
}

// A demand that no node can be shown to meet is refused with the pod, not node by node.
func TestDemandsThatNoNodeCanSatisfyAreErrors(t *testing.T) {
	type notes = map[string]string
	burstable := podtest.Pod("p", podtest.Box("c", "cpu=2 memory=1Ki", ""))
	devices := podtest.Pod("p", podtest.Box("c", "cpu=2 acme.com/gpu=1", "acme.com/gpu=1"))
	whole := podtest.Pod("p", podtest.Exact("c", "cpu=2 memory=1Ki"))
	claiming := podtest.Pod("p", podtest.Exact("c", "cpu=2 memory=1Ki"))
	claiming.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu"}, {Name: "nic"}}
	for _, c := range []struct {
		pod   *v1.Pod
		notes notes
		want  string
	}{
		{burstable, notes{PolicyAnnotation: "restricted"},
			"demands restricted, and no node can give it CPUs, memory or devices of its own"},
		{burstable, notes{VolcanoPolicy: "single-numa-node"}, "demands single-numa-node, and no node"},
		{burstable, notes{PolicyAnnotation: "best-effort"}, ""},
		{devices, notes{PolicyAnnotation: "restricted"}, ""},
		{devices, notes{AlignAnnotation: "acme.com/gpu"}, ""},
		{devices, notes{AlignAnnotation: "cpu,acme.com/gpu"},
			`no kubelet gives the pod cpu of its own, since the pod is not Guaranteed or asks for no whole number of CPUs`},
		{devices, notes{AlignAnnotation: "driver:gpu.acme.com"}, ""},
		{whole, notes{AlignAnnotation: "driver:gpu.acme.com"},
			`"driver:gpu.acme.com" demands where devices of claims are, and the pod has none`},
		{whole, notes{AlignAnnotation: "class:gpu"}, `"class:gpu" demands where devices of claims are, and the pod has none`},
		{claiming, notes{AlignAnnotation: "claim:gpus/gpu"},
			`the pod has no claim "gpus": name one of spec.resourceClaims (gpu, nic)`},
		{claiming, notes{AlignAnnotation: "claim:gpu/other"}, ""},
		{whole, notes{AlignAnnotation: "cpu", IgnoreAnnotation: "memory"},
			"annotations tenon.sh/align and tenon.sh/align-ignore are both there"},
		{whole, notes{AlignAnnotation: "cpu", PolicyAnnotation: "none"},
			"annotation tenon.sh/align: the pod's policy is none, which demands nothing"},
		{whole, notes{IgnoreAnnotation: "cpu", KoordinatorSpec: `{"numaTopologyPolicy":"BestEffort"}`},
			"the pod's policy is best-effort"},
	} {
		c.pod.Annotations = c.notes
		d, err := Demand(c.pod)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: demand %+v, error %v, want %q", c.notes, d, err, c.want)
		}
	}
}

func FuzzDemand(f *testing.F) {
	for _, v := range []string{"", "none", "restricted", "pod", "{}",
		`{"numaTopologyPolicy":"Restricted"}`, "null", "\xff", `{"a":`, "cpu,acme.com/gpu", "cpu,,"} {
		f.Add(v, v, v, v, v)
	}
	f.Fuzz(func(t *testing.T, policy, scope, volcano, koordinator, align string) {
		for _, notes := range []map[string]string{
			{PolicyAnnotation: policy, ScopeAnnotation: scope},
			{VolcanoPolicy: volcano, ScopeAnnotation: scope},
			{KoordinatorSpec: koordinator},
			{AlignAnnotation: align},
			{IgnoreAnnotation: align, PolicyAnnotation: policy},
		} {
			p := podtest.Pod("p", podtest.Exact("c", "cpu=2 memory=1Ki acme.com/gpu=1"))
			p.Annotations = notes
			d, err := Demand(p)
			_, scoped := notes[ScopeAnnotation]
			switch {
			case err != nil && (len(err.Error()) > 1000 || !utf8.ValidString(err.Error())):
				t.Errorf("error of %d bytes: %q", len(err.Error()), err)
			case err != nil && d != place.Demand{}:
				t.Errorf("%v is an error and demands %v", notes, d)
			case err == nil && scoped && notes[ScopeAnnotation] != d.Scope.String():
				t.Errorf("scope %q is read as %s", notes[ScopeAnnotation], d.Scope)
			case err == nil && notes[PolicyAnnotation] != "" && notes[PolicyAnnotation] != d.Policy.String():
				t.Errorf("policy %q is read as %s", notes[PolicyAnnotation], d.Policy)
			case err == nil && d.Align+d.Ignore != "" && len(align) != len(d.Align+d.Ignore):
				t.Errorf("resources %q are read as %+v", align, d)
			}
		}
	})
}
