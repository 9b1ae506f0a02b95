package trial_test

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/lab/workload"
	"github.com/tenon-numa/tenon/ops/use"
)

// used reads what a node uses from its agent, as the console does: the CPU that a container keeps busy is seen for the
// container and for its NUMA node, and its memory where it has touched it.
func used(ctx context.Context, t *testing.T, w *world) {
	const node, name = "two", "spin"
	w.remove(ctx, t, "huge") // its CPUs are the last of the node
	pod := on(node, tenon, name, guaranteed("c", "2", "128Mi"))
	pod.Spec.Containers[0].Args = []string{"64", "spin"}
	w.create(ctx, t, pod)
	w.await(ctx, t, name, workload.Running)
	w.seen.await(ctx, t, name)
	defer w.remove(ctx, t, name)
	lines := use.NewTimelines(func(ctx context.Context, _ string) (io.ReadCloser, error) {
		text, err := w.nodes[node].Run(ctx, "wget -qO- http://127.0.0.1:9203/metrics")
		return io.NopCloser(strings.NewReader(text)), err
	}, time.Now)
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	why := "there is no sample"
	for why != "" {
		got := lines.Node(ctx, node, "")
		if n := len(got.Samples); n > 0 {
			why = cmp.Or(got.Problem, unlikely(got.Samples[n-1], name, w.numas(ctx, t, node, name)))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("what node %s uses: %s: %+v", node, why, got.Samples)
		}
	}
}

// unlikely returns what is wrong with a sample of a node on which a pod keeps a CPU of a NUMA node busy, and has
// touched 64 MiB there; "" if nothing is.
func unlikely(s document.UseSample, pod, numa string) string {
	const busy, touched = 0.5, 60 << 20
	i := slices.IndexFunc(s.Containers, func(c document.ContainerUse) bool { return c.Pod == pod })
	if i < 0 {
		return "the container is missing"
	}
	c := s.Containers[i]
	switch {
	case c.CPUs == nil || *c.CPUs < busy || *c.CPUs > 2:
		return "the container keeps no CPU busy"
	case string(c.NUMAs) != numa:
		return "the container's CPUs are on NUMA nodes " + string(c.NUMAs) + ", and the map says " + numa
	case len(c.Memory) == 0 || slices.MaxFunc(c.Memory, func(a, b document.BytesOnNUMA) int {
		return cmp.Compare(a.Bytes, b.Bytes)
	}).Bytes < touched:
		return "the container's memory is on no NUMA node"
	case c.Remote == nil || *c.Remote > 0.1:
		return "the container's memory is on another NUMA node than its CPUs"
	}
	for _, n := range s.NUMAs {
		if n.CPUs == nil || n.Memory == nil || n.MemoryFree == nil {
			return "a NUMA node has no numbers"
		}
		if n.ID == c.Memory[0].NUMA && *n.CPUs < busy {
			return "the container's NUMA node is idle"
		}
	}
	return ""
}
