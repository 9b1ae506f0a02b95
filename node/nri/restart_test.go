package nri_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/node/nri"
)

// The next agent reports again the fault that a pod had when the last agent ended. It also corrects the fault when this
// is possible, even if the API server returns nothing about the pod.
func TestFaultsOutliveTheAgent(t *testing.T) {
	r := serve(t, nil)
	w := agent(t, r, nil, nri.Ignore)
	w.pods.add("first", 4, decided("8-11", 2))
	w.pods.add("second", 4, decided("8-11", 2))
	w.pods.add("big", 12)
	for _, uid := range []string{"first", "second", "big"} {
		if err := r.create(uid); err != nil {
			t.Fatal(err)
		}
	}
	r.want("big: 0,5-7,12-15 on 0-1", "first: 8-11 on 1", "second: 1-4 on 0")
	w.stop()
	w.found = nil
	w.pods.remove("second")
	w.pods.remove("big")
	w = agent(t, r, w, nri.Ignore)
	want := []string{"default/second decided=false decision-replaced", "default/big decided=false shares-cpus"}
	if !slices.Equal(w.found, want) {
		t.Errorf("an agent that starts again says %q, want %q", w.found, want)
	}
	r.End("first")
	r.wantSoon("big: 0-7,12-15 on 0-1", "second: 8-11 on 1")
}

// A pod that could not grow keeps its CPUs: the next agent does not place it anew.
func TestAPodThatCouldNotGrowStays(t *testing.T) {
	r := serve(t, nil)
	w := agent(t, r, nil, nri.Ignore)
	w.pods.add("a", 4, decided("8-11", 2))
	w.pods.add("b", 4, decided("1-4", 1))
	for _, uid := range []string{"a", "b"} {
		if err := r.create(uid); err != nil {
			t.Fatal(err)
		}
	}
	w.pods.add("a", 14)
	r.Update("a", "c")
	r.want("a: 8-11 on 1", "b: 1-4 on 0")
	w.stop()
	w.pods.add("a", 4)
	agent(t, r, w, nri.Ignore)
	r.End("b")
	r.want("a: 8-11 on 1")
}

// The disk is full, or the file's directory is gone. Containers start and share CPUs, because no file would record
// which pod has which CPUs. Once the file can be written, they get exclusive CPUs.
func TestAStateThatCannotBeWritten(t *testing.T) {
	r := serve(t, nil)
	w := agent(t, r, nil, nri.Ignore)
	w.pods.add("a", 4, decided("8-11", 2))
	dir := filepath.Dir(w.state)
	if err := os.Rename(dir, dir+"-away"); err != nil {
		t.Fatal(err)
	}
	if err := r.create("a"); err != nil {
		t.Fatal(err)
	}
	r.want("a: 0-15 on 0-1")
	if err := w.Arrived(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "write state file") {
		t.Errorf("error %v", err)
	}
	if err := os.Rename(dir+"-away", dir); err != nil {
		t.Fatal(err)
	}
	if err := w.Arrived(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	r.wantSoon("a: 8-11 on 1")
}
