package kubelet_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/place/scenario"
)

// Some pods make the CPU manager loop forever, with its lock held. A goroutine cannot be ended, so such pods are tried
// in a process that can be killed.

var loopCount = flag.Int("loop.n", 3, "pods to draw on which the managers loop")

// loopFile names the scenario that a child process plays.
const loopFile = "TENON_LOOP_FILE"

// thinking is how long the managers of a child process may take for a pod on which place predicts a loop. Other pods
// take milliseconds.
const thinking = 3 * time.Second

// loops reports whether place predicts that the managers loop.
func loops(v place.Verdict) bool {
	return slices.ContainsFunc(v.Reasons, func(r place.Reason) bool { return r.Code == place.Endless })
}

// TestChildPlays is the child of TestPodsThatLoopTheKubelet: it plays a scenario, and prints how far its last pod has
// got if there is no answer.
func TestChildPlays(t *testing.T) {
	file := os.Getenv(loopFile)
	if file == "" {
		return // it is not run as a child
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	f, err := scenario.Parse(file, string(text))
	if err != nil {
		t.Fatal(err)
	}
	dir := judgeDir(t)
	tr, err := newTrial(t.Context(), here{}, dir, &f.Scenario, extras{}, place.Place, &tally{})
	if err != nil {
		t.Fatal(err)
	}
	last := len(f.Steps) - 1
	for _, st := range f.Steps[:last] {
		if err := tr.step(st); err != nil {
			t.Fatal(err)
		}
	}
	before, err := tr.usage()
	if err != nil {
		t.Fatal(err)
	}
	if v := place.Place(before, &f.Steps[last].Pod); !loops(v) {
		t.Fatalf("place says %q %v", v.Refusal, texts(v.Reasons))
	}
	pod := podOf(f.Steps[last])
	tr.pods = append(tr.pods, pod)
	if got, ok := tr.decide(pod, thinking); ok {
		t.Fatalf("the managers say %q (%s), admitted %v", got.Reason, got.Message, got.Admit)
	}
	var stacks bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&stacks, 2); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(stacks.String(), "cpumanager.takeByTopologyNUMADistributed(") {
		t.Fatalf("the managers think of something else:\n%s", &stacks)
	}
	fmt.Println("looping")
	os.RemoveAll(dir)
	os.Exit(0) // the goroutine does not end, and nothing is cleaned up
}

// The managers loop where place predicts it: on the last pod of scenario files, and on drawn pods. If they loop without
// a prediction, TestPlaceAgreesWithTheManagers fails.
func TestPodsThatLoopTheKubelet(t *testing.T) {
	files, err := filepath.Glob("../../core/place/testdata/*_loop_*.txt")
	if err != nil || len(files) < 2 {
		t.Fatalf("%d scenario files, want 2 or more (%v)", len(files), err)
	}
	files = append(files, drawnLoops(t, *loopCount)...)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestChildPlays$")
			child.Env = append(os.Environ(), loopFile+"="+file)
			if out, err := child.CombinedOutput(); err != nil || !strings.Contains(string(out), "looping\n") {
				text, _ := os.ReadFile(file)
				t.Errorf("the managers do not loop on the last pod of\n%s%v\n%s", text, err, out)
			}
		})
	}
}

// drawnLoops writes files of drawn scenarios that end with a pod on which the managers loop.
func drawnLoops(t *testing.T, n int) (files []string) {
	t.Helper()
	dir := t.TempDir()
	for seed := *firstSeed; len(files) < n; seed++ {
		if seed-*firstSeed == 100000 {
			t.Fatalf("only %d of %d seeds draw pods on which the managers loop", len(files), seed-*firstSeed)
		}
		s, ok := drawLoop(t, seed)
		if !ok {
			continue
		}
		files = append(files, filepath.Join(dir, fmt.Sprintf("seed_%d.txt", seed)))
		if err := os.WriteFile(files[len(files)-1], []byte(s.Text()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// drawLoop draws the pods of a seed by place's predictions, up to one on which the managers loop.
func drawLoop(t *testing.T, seed uint64) (*scenario.Scenario, bool) {
	d, err := draw(seed)
	if err != nil {
		t.Fatal(err)
	}
	if !d.s.Rules.CPU.Static || !d.s.Rules.CPU.DistributeAcrossNUMA {
		return nil, false
	}
	node := d.s.Begin()
	for d.names < perMachine {
		st := d.next(node)
		d.s.Steps = append(d.s.Steps, st)
		if st.Do == scenario.Admit {
			v := place.Place(node.Usage(), &st.Pod)
			if v.Chance || !v.Exact() {
				return nil, false // the managers may continue from another state
			}
			if loops(v) {
				return d.s, true
			}
			if v.Fits() {
				node.Hold(st.Name, v.Holdings)
			}
		}
		node.Do(st)
		d.refused = st.Do == scenario.Admit && !node.Has(st.Name)
	}
	return nil, false
}
