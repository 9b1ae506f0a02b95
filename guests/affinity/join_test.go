package affinity

import (
	"fmt"
	"testing"

	"github.com/tenon-numa/tenon/core/idset"
)

func member(id string, at idset.NUMA, milli int64) Pod {
	return Pod{ID: id, Group: "shop/cart", MilliCPU: milli, Bytes: 64 * mib, NUMA: at}
}

func TestAFurtherPodJoinsItsGroupWhereThereIsRoom(t *testing.T) {
	for name, c := range map[string]struct {
		pods []Pod
		want int
	}{
		"room":           {[]Pod{member("a", 1, 500), member("b", 1, 500)}, 2},
		"nowhere yet":    {[]Pod{member("a", Nowhere, 500), member("b", Nowhere, 500)}, 2},
		"an exclusive":   {[]Pod{{ID: "a", Group: "shop/cart", Exclusive: true, NUMA: 0}}, 1},
		"no room":        {[]Pod{member("a", 0, 3000), member("b", 1, 3000)}, 0},
		"load of others": {[]Pod{member("a", 0, 500), {ID: "x", MilliCPU: 6000, NUMA: Nowhere}}, 0},
		"another group":  {[]Pod{{ID: "a", Group: "shop/db", MilliCPU: 10, NUMA: 0}}, 0},
		"alone":          {nil, 0},
	} {
		got, err := Join(Input{NUMAs: two, Pods: c.pods}, Defaults(), member("new", Nowhere, 1000))
		if err != nil || got != c.want {
			t.Errorf("%s: it joins %d pods (%v), want %d", name, got, err, c.want)
		}
	}
	if _, err := Join(Input{NUMAs: two, Pods: []Pod{member("a", 0, 1)}}, Defaults(), member("a", 0, 1)); err == nil {
		t.Error("a pod joins itself")
	}
}

// Ten pods of one group are more than a NUMA node has: they are divided, and no NUMA node has more than it can take.
func TestTenPodsDoNotLandOnOneNUMANode(t *testing.T) {
	in := Input{NUMAs: two}
	for i := range 10 {
		in.Pods = append(in.Pods, member(fmt.Sprint("p", i), Nowhere, 700))
	}
	r := after(t, 3, in)
	milli := map[idset.NUMA]int64{}
	for _, v := range r.Verdicts {
		milli[v.NUMA] += 700
	}
	for numa, n := range milli {
		if numa != Nowhere && n > 3600 {
			t.Errorf("NUMA node %d has pods with %d of 4000 milli-CPU:\n%s", numa, n, r.text())
		}
	}
	if milli[0] == 0 || milli[1] == 0 {
		t.Errorf("the pods are not divided:\n%s", r.text())
	}
}
