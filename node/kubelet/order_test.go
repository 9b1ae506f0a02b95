package kubelet_test

import (
	"fmt"
	"testing"
	"testing/fstest"

	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/node/kubelet"
	"github.com/tenon-numa/tenon/node/kubelet/kubelettest"
)

// The kubelet releases the memory of ended pods in an unpredictable order: if the order decides what is free, the
// layout names this as a reason.
func TestUndeterminedReleasesAreReported(t *testing.T) {
	s := &kubelettest.Service{}
	s.SetPods(kubelettest.Pod("ns", "p", &podresources.ContainerResources{Name: "main"}))
	pods := apiPods{"ns/p": pod("p", "u", kubelet.Container{Name: "main"})}
	static := place.Rules{Memory: place.MemoryRules{Static: true}}
	block := func(numas string, size int64) string {
		return fmt.Sprintf(`{"numaAffinity":%s,"type":"memory","size":%d}`, numas, size<<30)
	}
	many := ""
	for i := range 6 {
		many += fmt.Sprintf(`,"n%d":{"main":[%s]}`, i, block("[0]", 1))
	}
	for _, c := range []struct {
		what             string
		numa0, numa4     int64 // reserved, in GiB
		mine, a, b, more string
		want             bool
	}{
		{"nobody has ended", 3, 0, block("[0]", 3), "", "", "", false},
		{"two on one NUMA node each", 3, 3, "", block("[0]", 3), block("[4]", 3), "", false},
		{"one on both, alone", 3, 3, "", block("[0,4]", 6), "", "", false},
		{"one on both that leaves the other nothing to release, or not", 4, 2, "", block("[0,4]", 4), block("[0]", 2), "",
			true},
		{"one on both beside one that runs", 4, 2, block("[0]", 2), block("[0,4]", 4), "", "", false},
		{"two on both, which release all", 6, 2, "", block("[0,4]", 4), block("[0,4]", 4), "", false},
		{"more than can be tried", 9, 3, "", block("[0,4]", 6), "", many, true},
		{"many on one NUMA node each", 6, 3, "", block("[4]", 3), "", many, false},
	} {
		numa := func(reserved int64) string {
			return fmt.Sprintf(`{"cells":[0,4],"memoryMap":{"memory":{"reserved":%d,"free":%d}}}`, reserved<<30,
				(16-reserved)<<30)
		}
		o := observe(t, s, fstest.MapFS{kubelet.MemoryStateFile: {Data: []byte(`{"machineState":{"0":` + numa(c.numa0) +
			`,"4":` + numa(c.numa4) +
			`},"entries":{"u":{"main":[` + c.mine + `]},"a":{"main":[` + c.a + `]},"b":{"main":[` + c.b + `]}` +
			c.more + `}}`)}})
		entries, err := o.Entries(twoNUMAs(t), pods)
		if err != nil {
			t.Fatal(err)
		}
		why, got := o.ReleaseOrder(static, entries, pods)
		if got != c.want || got != (why.Code == state.ReleaseOrder) {
			t.Errorf("%s: %v, %+v", c.what, got, why)
		}
		if _, got := o.ReleaseOrder(place.Rules{}, entries, pods); got {
			t.Errorf("%s: undetermined though the memory manager has no policy", c.what)
		}
	}
}
