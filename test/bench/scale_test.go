package main

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/deploy/crd"
	"github.com/tenon-numa/tenon/test/bench/section"
)

const scalePage = "../../docs/scale.md"

// Sizes and figures derived from them depend only on the code, so the page must have the present ones.
func TestScalePageIsOfToday(t *testing.T) {
	data, err := os.ReadFile(scalePage)
	if err != nil {
		t.Fatal(err)
	}
	all, err := weigh(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range sizeTables(all) {
		now, err := section.Into(string(data), want.name, want.text)
		if err != nil {
			t.Fatal(err)
		}
		if now != string(data) {
			t.Errorf("the table of %s is not that of today: go run ./test/bench -scale -docs", want.name)
		}
	}
}

// Objects of the lab's agents are measured like a kube-apiserver stores them: their managedFields have the same fields.
func TestStoredAsAnAPIServerStores(t *testing.T) {
	for file, definition := range map[string][]byte{"nodelayouts.json": crd.NodeLayout(),
		"layoutbases.json": crd.LayoutBase(), "noderesourcetopologies.json": crd.NodeResourceTopology()} {
		data, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		var stored unstructured.Unstructured
		if err := stored.UnmarshalJSON(data); err != nil {
			t.Fatal(err)
		}
		sent := stored.DeepCopy()
		for _, field := range []string{"managedFields", "uid", "generation", "creationTimestamp"} {
			unstructured.RemoveNestedField(sent.Object, "metadata", field)
		}
		d, err := define(definition)
		if err != nil {
			t.Fatal(err)
		}
		w, made, err := d.measure(sent)
		if err != nil {
			t.Fatal(err)
		}
		got, want := made.GetManagedFields(), stored.GetManagedFields()
		if len(got) != 1 || len(want) != 1 || string(got[0].FieldsV1.Raw) != string(want[0].FieldsV1.Raw) {
			t.Errorf("%s: managedFields\n%v\nwant those of the API server\n%v", file, got, want)
		}
		plain, err := json.Marshal(&stored)
		if err != nil {
			t.Fatal(err)
		}
		if off := w.stored - len(plain); off < 0 || off > len("4711") { // generations have more or fewer digits
			t.Errorf("%s: %d bytes, the API server stored %d", file, w.stored, len(plain))
		}
	}
}

// The rate of writes is that of an agent whose changes come at random.
func TestWritesAreThoseOfAnAgent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		changes := rapid.Float64Range(0.05, 50).Draw(t, "changes per second")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		writes, last, now := 0, -minInterval, 0.0 // last may be yet to come
		for range 40_000 {
			if now += rng.ExpFloat64() / changes; now >= last {
				last = max(now, last+minInterval)
				writes++
			}
		}
		got, want := float64(writes)/now, writesPerNode(changes)
		if math.Abs(got-want) > want/20 {
			t.Errorf("%.3f writes/s of %.3f changes/s, the formula says %.3f", got, changes, want)
		}
	})
}

func TestNoAgentWritesMoreOftenThanItMay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		changes := rapid.Float64Range(0, 1e6).Draw(t, "changes per second")
		if w := writesPerNode(changes); w > changes*(1+1e-9) || w > 1/minInterval {
			t.Errorf("%g changes/s make %g writes/s", changes, w)
		}
	})
}

// The page's prose is kept, and a page without a place for a table is refused by name.
func TestScalePageKeepsItsWords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "scale.md")
	var b strings.Builder
	b.WriteString("# Words\n\n")
	for _, name := range []string{"sizes", "load", "times"} {
		b.WriteString("<!-- measured: " + name + " -->\nold\n<!-- end of " + name + " -->\nwords after " + name + "\n")
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := scaled(t, path); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	if strings.Contains(page, "old\n") || strings.Contains(page, "NaN") || strings.Contains(page, "%!") {
		t.Errorf("page is\n%s", page)
	}
	for _, want := range []string{"# Words\n", "words after sizes\n", "words after times\n",
		"| 256, 8 | 110 | NodeLayout |"} {
		if !strings.Contains(page, want) {
			t.Errorf("page lacks %q", want)
		}
	}
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "|") && len(strings.TrimSpace(line)) > 100 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	if err := os.WriteFile(path, []byte("# Words\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := scaled(t, path); err == nil || !strings.Contains(err.Error(), "sizes") {
		t.Errorf("a page without marks: %v", err)
	}
}

// scaled writes the page of scale.
func scaled(t *testing.T, path string) error {
	t.Helper()
	f, err := scaleLayer(t.Context(), options{rounds: 1})
	if err != nil {
		t.Fatal(err)
	}
	return write(path, f.tables)
}
