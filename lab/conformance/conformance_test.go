package conformance_test

import (
	"context"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"
	configv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/tenon-numa/tenon/lab/conformance"
	"github.com/tenon-numa/tenon/lab/conformance/judge"
	"github.com/tenon-numa/tenon/lab/kubelet"
)

var podCapacity = resource.NewQuantity(110, resource.DecimalSI)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// shortDir returns a directory for sockets, which have short paths.
func shortDir(t *testing.T) string {
	t.Helper()
	base := ""
	if st, err := os.Stat("/dev/shm"); err == nil && st.IsDir() {
		base = "/dev/shm"
	}
	dir, err := os.MkdirTemp(base, "tc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// schedulers are the schedulers of the tests: the ideal one, and others with one fault each.
func schedulers(j judge.Judge) map[string]scheduler {
	return map[string]scheduler{
		ideal:                        perfect{j: j}.schedule,
		"ignores NUMA nodes":         ignoresNUMA,
		"binds only the first pod":   onlyFirst(j),
		"prefers the worst node":     perfect{j: j, worst: true}.schedule,
		"tries a pod only once":      triesOnce(j),
		"decides by old data":        perfect{j: j, old: true}.schedule,
		"evicts for nothing":         evictsForNothing(j),
		"evicts nobody":              perfect{j: j, meek: true}.schedule,
		"believes what is published": perfect{j: j, believes: true}.schedule,
		"charges every NUMA node":    perfect{j: j, charges: true}.schedule,
		"takes the first devices":    perfect{j: j, careless: true}.schedule,
		"ignores claims":             perfect{j: j, blind: true}.schedule,
		"binds gangs pod by pod":     perfect{j: j, single: true}.schedule,
		"starts no gang":             perfect{j: j, timid: true}.schedule,
	}
}

const ideal = "ideal"

// Every case finds at least one planted fault, and finds nothing wrong with an ideal scheduler. Every planted fault is
// found by some case.
func TestCasesFindFaultsAndOnlyFaults(t *testing.T) {
	cases, err := conformance.Cases()
	if err != nil {
		t.Fatal(err)
	}
	if err := kubelet.SetFeatureGates(&configv1beta1.KubeletConfiguration{}); err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			caught := 0
			for name := range schedulers(judge.Judge{}) {
				r := play(t, c, name)
				switch {
				case r.Err != nil:
					t.Errorf("%s: %v", name, r.Err)
				case name == ideal && len(r.Findings) > 0:
					t.Errorf("findings about the ideal scheduler: %v", r.Findings)
				case name != ideal && !r.Passed():
					caught++
					found[name]++
					t.Logf("%s: %v", name, r.Counts())
				}
			}
			if caught == 0 {
				t.Error("finds no planted fault")
			}
		})
	}
	for name := range schedulers(judge.Judge{}) {
		if name != ideal && found[name] == 0 {
			t.Errorf("no case finds that a scheduler %s", name)
		}
	}
}

// play plays a case with one of the schedulers.
func play(t *testing.T, c *conformance.Case, name string) *conformance.Result {
	t.Helper()
	dir := shortDir(t)
	j := judge.Judge{Dir: dir}
	m, err := newMemory(context.Background(), dir, c, schedulers(j)[name])
	if err != nil {
		t.Fatal(err)
	}
	defer m.stop()
	return conformance.Runner{Judge: j}.Run(t.Context(), c, m)
}
