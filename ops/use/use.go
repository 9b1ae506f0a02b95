// Package use returns what nodes use, by NUMA node and container, from the metrics of their agents, with a time line
// of the last minutes.
//
// Invariant: a node is scraped at most every few seconds, however many clients ask, and only while some client asks.
// The kept data is bounded by nodes, samples and containers. A node's metrics are checked: numbers are finite and
// within bounds, and a counter that fell counts as unknown. The package does not decide who may read an answer, and
// does not guess: an unknown value is absent, or named as the problem.
package use

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/tenon-numa/tenon/api/document"
)

// Scrape returns the metrics of the agent on a node, in Prometheus' text format. The caller closes them.
type Scrape func(ctx context.Context, node string) (io.ReadCloser, error)

// Bounds of the kept data.
const (
	scrapePeriod  = 5 * time.Second  // between two scrapes of a node, less a tenth
	lineLength    = 10 * time.Minute // the length of a time line
	maxSamples    = int(lineLength / scrapePeriod)
	maxNodes      = 16
	maxContainers = 12_000           // in all samples of a node
	maxScrape     = 10 * time.Second // bounds one scrape, even if the client would wait longer
)

// Timelines are the time lines of nodes. Their methods may be called from any goroutine.
type Timelines struct {
	scrape Scrape
	now    func() time.Time

	// decoding is held while metrics are decoded, for one node at a time.
	decoding sync.Mutex

	mu  sync.Mutex
	all map[string]*line
}

// line is the time line of one node.
type line struct {
	asked time.Time // when a client last asked for the node; under the lock of Timelines

	// turn admits one client at a time. Only that client reads and changes the fields that follow.
	turn    chan struct{}
	tried   time.Time
	last    *reading
	samples []document.UseSample
	problem string
}

// NewTimelines returns time lines without samples.
func NewTimelines(scrape Scrape, now func() time.Time) *Timelines {
	return &Timelines{scrape: scrape, now: now, all: map[string]*line{}}
}

// Node returns what a node uses. It first scrapes the agent, unless the last attempt was less than scrapePeriod
// (minus a tenth) ago. The last argument, the name of a pod, is ignored, because every sample has all containers.
// The caller must not change the samples.
func (t *Timelines) Node(ctx context.Context, node, _ string) document.NodeUse {
	out := document.NodeUse{Kind: "NodeUse", Node: node, Source: "agent", Seconds: int(scrapePeriod / time.Second)}
	l := t.line(node)
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		out.Problem = "there was no answer in time: try again"
		return out
	}
	// The tenth is a tolerance: a client that asks at this interval gets a new sample each time.
	if now := t.now(); now.Sub(l.tried) >= scrapePeriod-scrapePeriod/10 {
		l.tried = now
		t.read(ctx, node, l)
	}
	out.Problem, out.Samples = l.problem, slices.Clone(l.samples)
	return out
}

// line returns the time line of a node, and adds it if it is new. Beyond maxNodes it drops the time line that was
// asked for the longest time ago.
func (t *Timelines) line(node string) *line {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.all[node]
	if l == nil {
		l = &line{turn: make(chan struct{}, 1)}
		if len(t.all) >= maxNodes {
			oldest := ""
			for name, other := range t.all {
				if oldest == "" || other.asked.Before(t.all[oldest].asked) {
					oldest = name
				}
			}
			delete(t.all, oldest)
		}
		t.all[node] = l
	}
	l.asked = t.now()
	return l
}

// read scrapes the agent, and adds a sample to the time line. It drops samples that are too old, and records in
// l.problem why there is no sample or what the sample lacks.
func (t *Timelines) read(ctx context.Context, node string, l *line) {
	ctx, cancel := context.WithTimeout(ctx, maxScrape)
	defer cancel()
	r, err := t.scraped(ctx, node)
	l.forget(t.now().Add(-lineLength))
	if err != nil {
		l.problem = err.Error()
		return
	}
	l.problem = r.problem()
	l.samples = append(l.samples, r.since(l.last).sample())
	l.last = r
	l.bound()
}

// scraped returns a new reading of the agent on a node.
func (t *Timelines) scraped(ctx context.Context, node string) (*reading, error) {
	text, err := t.scrape(ctx, node)
	if err != nil {
		return nil, err
	}
	defer text.Close()
	return parse(text, t.now(), &t.decoding)
}

// forget drops the samples and the reading from before a time.
func (l *line) forget(before time.Time) {
	l.samples = slices.DeleteFunc(l.samples, func(s document.UseSample) bool { return s.Time.Before(before) })
	if l.last != nil && l.last.at.Before(before) {
		l.last = nil
	}
}

// bound drops the oldest samples beyond maxSamples. It also drops the containers of older samples, so that at most
// maxContainers remain in all samples; only the newest sample always keeps its containers.
func (l *line) bound() {
	l.samples = l.samples[max(0, len(l.samples)-maxSamples):]
	count := 0
	for i := len(l.samples) - 1; i >= 0; i-- {
		if count += len(l.samples[i].Containers); count > maxContainers && i < len(l.samples)-1 {
			l.samples[i].Containers = nil
		}
	}
}
