package use

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	prometheus "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/tenon-numa/tenon/api/document"
)

// step is the time between two samples in the answers of Prometheus. It is a common scrape interval.
const step = 30 * time.Second

// Prometheus reads what nodes use from a Prometheus server that has the agents' metrics.
type Prometheus struct {
	api prometheus.API
	now func() time.Time
}

// NewPrometheus returns a client of the Prometheus server at an address. It sends no credentials and follows no
// redirects.
func NewPrometheus(address string, now func() time.Time) (*Prometheus, error) {
	c, err := api.NewClient(api.Config{Address: address, Client: &http.Client{Timeout: maxScrape, Transport: bounded{},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}})
	if err != nil {
		return nil, fmt.Errorf("address of Prometheus %q: %w", address, err)
	}
	return &Prometheus{prometheus.NewAPI(c), now}, nil
}

// maxAnswer bounds an answer in bytes: its numbers are those that nodes have sent.
const maxAnswer = 16 << 20

// bounded reads no more than maxAnswer bytes of an answer.
type bounded struct{}

// RoundTrip implements http.RoundTripper.
func (bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := api.DefaultRoundTripper.RoundTrip(r)
	if err == nil {
		res.Body = struct {
			io.Reader
			io.Closer
		}{&most{res.Body, maxAnswer}, res.Body}
	}
	return res, err
}

// most is a reader that fails after left bytes.
type most struct {
	io.Reader
	left int
}

// Read implements io.Reader.
func (m *most) Read(p []byte) (int, error) {
	if m.left <= 0 {
		return 0, fmt.Errorf("the answer is longer than %d bytes", maxAnswer)
	}
	n, err := m.Reader.Read(p[:min(len(p), m.left)])
	m.left -= n
	return n, err
}

// question is a query. over is the length of the time line that it asks for; 0 asks only for the present numbers. add
// receives each number of the answer, with its labels.
type question struct {
	query string
	over  time.Duration
	add   func(r *reading, labels map[string]string, v float64)
}

// questions returns the queries about a node: its NUMA nodes over time, all its containers now, and the containers of
// one pod over time. pod is "namespace/name", or "".
func questions(node, pod string) []question {
	in := fmt.Sprintf("node=%q", node)
	out := []question{
		{"rate(numa_node_cpu_busy_seconds_total{" + in + "}[2m])", lineLength,
			func(r *reading, l map[string]string, v float64) { numa(r.busy, l, v) }},
		{"numa_node_memory_used_bytes{" + in + "}", lineLength,
			func(r *reading, l map[string]string, v float64) { numa(r.used, l, int64(v)) }},
		{"numa_node_memory_unused_bytes{" + in + "}", lineLength,
			func(r *reading, l map[string]string, v float64) { numa(r.unused, l, int64(v)) }},
	}
	ofContainers := func(in string, over time.Duration) {
		out = append(out, question{"rate(tenon_container_cpu_seconds_total{" + in + "}[2m])", over, (*reading).cpu},
			question{"sum by (namespace, pod, container, numa_node) (tenon_container_memory_numa_bytes{" + in + "})", over,
				(*reading).setMemory},
			question{"tenon_container_memory_remote_ratio{" + in + "}", over, (*reading).remote})
	}
	ofContainers(in, 0)
	if namespace, name, ok := strings.Cut(pod, "/"); ok {
		ofContainers(fmt.Sprintf("%s,namespace=%q,pod=%q", in, namespace, name), lineLength)
	}
	return out
}

// Node returns what a node uses. Only the last sample has all containers; the others have the containers of one pod
// ("namespace/name").
func (p *Prometheus) Node(ctx context.Context, node, pod string) document.NodeUse {
	out := document.NodeUse{Kind: "NodeUse", Node: node, Source: "prometheus", Seconds: int(step / time.Second)}
	end, all := p.now().Truncate(step), map[int64]*reading{}
	for _, q := range questions(node, pod) {
		if err := p.ask(ctx, q, end, all); err != nil {
			out.Problem = fmt.Sprintf("Prometheus does not answer: %.300s", err)
			return out
		}
	}
	for _, r := range all {
		out.Samples = append(out.Samples, r.sample())
	}
	slices.SortFunc(out.Samples, func(a, b document.UseSample) int { return a.Time.Compare(b.Time) })
	if len(out.Samples) == 0 {
		out.Problem = "Prometheus has no numbers of the node: see whether it scrapes the node's agent"
	}
	return out
}

// ask adds the answer to a question to the readings in all, by their time in Unix seconds.
func (p *Prometheus) ask(ctx context.Context, q question, end time.Time, all map[int64]*reading) error {
	got, _, err := p.api.QueryRange(ctx, q.query, prometheus.Range{Start: end.Add(-q.over), End: end, Step: step})
	if err != nil {
		return err
	}
	matrix, ok := got.(model.Matrix)
	if !ok {
		return fmt.Errorf("the answer is a %s", got.Type())
	}
	for _, series := range matrix {
		labels := map[string]string{}
		for name, value := range series.Metric {
			labels[string(name)] = string(value)
		}
		for _, at := range series.Values {
			v := float64(at.Value)
			if !(v >= 0 && v <= maxNumber) || at.Timestamp.Time().After(end) || len(all) > maxSamples {
				continue
			}
			key := at.Timestamp.Unix()
			if all[key] == nil {
				all[key] = newReading(at.Timestamp.Time())
			}
			q.add(all[key], labels, v)
		}
	}
	return nil
}
