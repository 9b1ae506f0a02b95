package v1alpha1_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// A decision has the same meaning on both ends, with the machine's ids of NUMA nodes, which may be sparse.
func TestADecisionIsReadAsItWasWritten(t *testing.T) {
	m, err := topo.ParseMachine("numa 0 cpus 0-3 memory 8Gi\nnuma 8 cpus 4-7 memory 8Gi\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []place.Holding{
		{Container: "init", Kind: place.Init, CPUs: idset.Of[idset.CPU](4, 5)},
		{Container: "main", CPUs: idset.Of[idset.CPU](4, 5, 6),
			Memory: []place.Block{{Kind: topo.Memory, NUMAs: 2, Bytes: 1 << 30}}},
	}
	text, err := v1alpha1.DecisionText(m, "uid-1", "n1", want)
	if err != nil {
		t.Fatal(err)
	}
	const form = `{"uid":"uid-1","node":"n1","containers":[{"name":"init","kind":"init","cpus":"4-5"},` +
		`{"name":"main","cpus":"4-6","memory":[{"kind":"memory","numas":"8","bytes":1073741824}]}]}`
	if text != form {
		t.Errorf("text\n%s, want\n%s", text, form)
	}
	if got, err := v1alpha1.ParseDecision(text, m, "uid-1", "n1"); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, %v; want %+v", got, err, want)
	}
	for name, c := range map[string]struct{ text, uid, node, want string }{
		"an earlier pod of the name": {text, "uid-2", "n1", "it is for the pod with UID uid-1, this one has UID uid-2"},
		"another node":               {text, "uid-1", "n2", "it is for node n1, the pod is on node n2"},
		"no JSON":                    {"4-5", "uid-1", "n1", "it is not a decision"},
		"an unknown field":           {`{"cpus":"4"}`, "uid-1", "n1", `unknown field "cpus"`},
		"CPUs that are not there":    {strings.Replace(text, "4-6", "4-99", 1), "uid-1", "n1", `container "main": cpus: machine has no cpu 8`},
		"a NUMA node that is not":    {strings.Replace(text, `"8"`, `"1"`, 1), "uid-1", "n1", `container "main": memory`},
		"too long":                   {strings.Repeat(" ", 1<<18), "uid-1", "n1", "it has 262144 bytes, at most 131072 are"},
	} {
		_, err := v1alpha1.ParseDecision(c.text, m, c.uid, c.node)
		if err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.HasPrefix(err.Error(), "annotation tenon.sh/placement: ") {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}
