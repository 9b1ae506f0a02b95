package volcano

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tenon-numa/tenon/lab/program"
)

// configuration is the configuration of Volcano's scheduler, with places for whether the plugin gang protects tasks
// from eviction, and for the name of the plugin that aligns tasks. That plugin is in the first tier, because the
// scheduler asks the first tier which tasks may be evicted. The plugin predicates is before it: the scheduler asks no
// plugin about a node that another one refuses, and then would evict tasks from nodes that node selectors exclude.
const configuration = `actions: "enqueue, allocate, preempt, backfill"
configurations:
- name: preempt
  arguments: {enableTopologyAwarePreemption: true}
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: %t
  - name: conformance
  - name: predicates
  - name: %s
    arguments: {weight: 10}
- plugins:
  - name: proportion
  - name: nodeorder
`

// Scheduler is a running Volcano scheduler.
type Scheduler struct {
	*program.Running
	Metrics string // URL
}

// Schedule starts the scheduler with a plugin, under the chart's service account. It returns when the controllers
// have opened the queue default. The context bounds the start only. The caller stops the scheduler before it starts
// another one.
func Schedule(ctx context.Context, o Options, plugin string) (*Scheduler, error) {
	conf := filepath.Join(o.Dir, "volcano-scheduler.conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, configuration, !o.EvictSingle, plugin), 0o600); err != nil {
		return nil, fmt.Errorf("configure Volcano's scheduler: %w", err)
	}
	client, err := o.clients()
	if err != nil {
		return nil, err
	}
	port, err := program.FreePort()
	if err != nil {
		return nil, err
	}
	address := fmt.Sprintf("%s:%d", program.Host, port)
	if o.Kubeconfig, err = o.schedulerKubeconfig(ctx); err != nil {
		return nil, err
	}
	r, err := o.launch("scheduler", scheduler, "--scheduler-conf="+conf, "--leader-elect=false", "--v=1",
		"--cache-dumper=false", "--schedule-period=200ms", "--enable-metrics", "--listen-address="+address,
		"--kube-api-qps=1000", "--kube-api-burst=1000")
	if err != nil {
		return nil, err
	}
	err = until(ctx, r.Err, func() error {
		q, err := client.dynamic.Resource(queues).Get(ctx, "default", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if state, _, _ := unstructured.NestedString(q.Object, "status", "state"); state != "Open" {
			return fmt.Errorf("queue default is %q", state)
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start Volcano's scheduler: %w", err), r.Stop())
	}
	return &Scheduler{r, "http://" + address + "/metrics"}, nil
}

// maxMetrics bounds how much of a scheduler's metrics is read, in bytes.
const maxMetrics = 64 << 20

// Counter returns the sum of a counter's series whose label has the value, or of all its series if label is empty. It
// fails if the scheduler serves no such counter.
func (s *Scheduler) Counter(ctx context.Context, name, label, value string) (sum float64, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Metrics, http.NoBody)
	if err != nil {
		return 0, fmt.Errorf("read metrics of Volcano's scheduler: %w", err)
	}
	r, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, fmt.Errorf("read metrics of Volcano's scheduler: %w", err)
	}
	defer r.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(io.LimitReader(r.Body, maxMetrics))
	if err != nil {
		return 0, fmt.Errorf("read metrics of Volcano's scheduler: %w", err)
	}
	family, ok := families[name]
	if !ok {
		return 0, fmt.Errorf("read metrics of Volcano's scheduler: it serves no %s", name)
	}
	for _, m := range family.GetMetric() {
		matches := label == ""
		for _, l := range m.GetLabel() {
			matches = matches || l.GetName() == label && l.GetValue() == value
		}
		if matches {
			sum += m.GetCounter().GetValue()
		}
	}
	return sum, nil
}
