package dropin

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/node/kubelet"
	"github.com/tenon-numa/tenon/node/kubelet/fields"
)

// Texts as people write them, with keys twice, further documents, gates and numbers: Tenon refuses what the kubelet
// refuses, takes the same values, and warns where the kubelet ignores a part.
func TestTextsAreReadAsByTheKubelet(t *testing.T) {
	klog.SetLogger(logr.Discard())
	if version.DefaultKubeBinaryVersion != place.DefaultRelease.String() {
		t.Skipf("this is release %s, and all gates are known of %s", version.DefaultKubeBinaryVersion, place.DefaultRelease)
	}
	m := startMachines(t)[0]
	starts, warned := 0, 0
	for i := range *startsN {
		w := &writing{drawn: &drawn{rand.New(rand.NewPCG(*startsSeed, uint64(i)))}}
		text := w.text()
		theirs := theirs(t, text, m)
		ours, _ := judged(text, m)
		if (ours == nil) != (theirs == nil) {
			t.Fatalf("text %d:\n%s\nthe kubelet: %v\nTenon: %v", i, text, theirs, ours)
		}
		if theirs != nil {
			continue
		}
		starts++
		sameValues(t, text, m)
		if says := len(fields.Of([]byte(text))) > 0; says != w.ignored {
			t.Fatalf("text %d:\n%s\nwarned: %v, want %v", i, text, says, w.ignored)
		} else if says {
			warned++
		}
	}
	t.Logf("%d of %d start, and %d of them are warned of", starts, *startsN, warned)
	if starts < *startsN/10 || starts > *startsN*9/10 || warned < starts/10 || warned > starts*9/10 {
		t.Error("the texts are too much alike")
	}
}

// sameValues compares what both read of a text.
func sameValues(t *testing.T, text string, m *topo.Machine) {
	t.Helper()
	dir := shortDir(t)
	file := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Merge(t.Context(), file, dir)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	read := func(data []byte) kubelet.Setup {
		out, err := kubelet.SetUp(data, m, place.DefaultRelease)
		if err != nil {
			t.Fatalf("%s\n%v", data, err)
		}
		return out
	}
	if ours, theirs := read([]byte(text)), read(data); !reflect.DeepEqual(ours, theirs) {
		t.Fatalf("%s\nTenon reads %+v\nthe kubelet %+v", text, ours, theirs)
	}
}

// writing writes a configuration.
type writing struct {
	*drawn
	json, ignored bool
	noGates       bool
}

// entries are fields with values that start and some that do not.
var entries = map[string][]string{
	"maxPods": {"5", "0", "110", "-1"}, "podsPerCore": {"0", "3", "-2"}, "kubeAPIBurst": {"9", "-9"},
	"registryPullQPS": {"1", "0", "-1"}, "eventRecordQPS": {"0", "-7"}, "maxOpenFiles": {"1000", "-1"},
	"reservedSystemCPUs": {`"0"`, `"2,4"`, `"0-1"`}, "topologyManagerScope": {`"pod"`, `"container"`},
	"systemReserved": {`{"cpu": "1"}`, `{"memory": "1Gi"}`, `{"cpu": "2", "memory": "2Gi"}`},
}

func (w *writing) text() string {
	w.json = w.IntN(4) == 0
	lines := []string{`"apiVersion": "kubelet.config.k8s.io/v1beta1"`, `"kind": "KubeletConfiguration"`}
	names := slices.Sorted(maps.Keys(entries))
	for range w.IntN(4) {
		name := pick(w.drawn, names...)
		values := entries[name]
		if w.IntN(8) > 0 {
			values = slices.DeleteFunc(slices.Clone(values), func(v string) bool { return strings.HasPrefix(v, "-") })
		}
		w.ignored = w.ignored || has(lines, name)
		lines = append(lines, fmt.Sprintf("%q: %s", name, pick(w.drawn, values...)))
	}
	lines = append(lines, w.gates()...)
	if w.json {
		out := "{" + strings.Join(lines, ", ") + "}"
		return out + pick(w.drawn, "", "\n", "", " \n", "\n", pick(w.drawn, "# text", "\n---\n"+out, "{}"))
	}
	out := pick(w.drawn, "", "---\n", "# text\n") + strings.Join(lines, "\n") + "\n"
	more := pick(w.drawn, "", "", "", "---\n", "...\n", "---\n"+strings.Join(lines, "\n"), "---\nmaxPods: [\n",
		"---\n# text\n")
	w.ignored = w.ignored || strings.Contains(more, "maxPods") || strings.Contains(more, "apiVersion")
	return out + more
}

// has reports whether lines have a key.
func has(lines []string, key string) bool {
	return slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, fmt.Sprintf("%q: ", key)) })
}

func (w *writing) gates() []string {
	if w.noGates || w.IntN(3) > 0 {
		return nil
	}
	all := utilfeature.DefaultMutableFeatureGate.GetAll()
	var names []string
	for name := range all {
		names = append(names, string(name))
	}
	slices.Sort(names)
	var set []string
	for range 1 + w.IntN(2) {
		name := pick(w.drawn, append(names, "AllBetas", "TopologyManagr", "SidecarContainers")...)
		if !has(set, name) {
			set = append(set, fmt.Sprintf("%q: %t", name, w.IntN(2) == 0))
		}
	}
	return []string{`"featureGates": {` + strings.Join(set, ", ") + "}"}
}
