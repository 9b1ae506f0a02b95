package harness

import (
	"fmt"
	"os"
	"testing"

	_ "k8s.io/component-base/logs/json/register"
	perf "k8s.io/kubernetes/test/integration/scheduler_perf"

	"github.com/tenon-numa/tenon/test/bench/upstream"
	"github.com/tenon-numa/tenon/test/bench/whole"
)

func TestMain(m *testing.M) {
	whole.MaybeChild()
	if err := perf.InitTests(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// BenchmarkPerfScheduling runs the job that package upstream has written. Upstream's names of results begin with its
// name.
func BenchmarkPerfScheduling(b *testing.B) {
	j, err := upstream.ReadJob()
	if err != nil {
		b.Skip("only a process that package upstream starts has a job: ", err)
	}
	if err := openGates(j.Cases); err != nil {
		b.Fatal(err)
	}
	s := &subject{job: j}
	if j.Subject != upstream.Plain {
		if s.preemption, err = configure(j); err != nil {
			b.Fatal(err)
		}
	}
	perf.RunBenchmarkPerfScheduling(b, j.Cases, j.Topic, s.registry(), perf.WithPrepareFn(s.prepare),
		perf.WithNodeUpdateFn(s.nodesMade))
}
