package kube

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"

	"github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/pod/podtest"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// BenchmarkStart fills a ledger with a large cluster, as a starting scheduler does: 5,000 nodes of 128 CPUs, every
// other one with amounts and a fingerprint only, and ten pods on each.
func BenchmarkStart(b *testing.B) {
	b.Run("fingerprints that match", func(b *testing.B) { benchmarkStart(b, true) })
	b.Run("fingerprints of others", func(b *testing.B) { benchmarkStart(b, false) })
}

func benchmarkStart(b *testing.B, match bool) {
	const nodes, each = 5000, 10
	var layouts []*v1alpha1.NodeLayout
	var topologies []*v1alpha2.NodeResourceTopology
	var pods []*v1.Pod
	for i := range nodes {
		node := fmt.Sprintf("node-%04d", i)
		var names []string
		var entries []state.Entry
		for k := range each {
			p := podtest.Pod(fmt.Sprintf("p-%d-%d", i, k), podtest.Exact("c", "cpu=4 memory=4Gi"))
			p = start(bind(p, node, noon.Add(time.Duration(k)*time.Second)))
			pods, names = append(pods, p), append(names, p.Name)
			entries = append(entries, state.Entry{Pod: ID(p)})
		}
		if !match {
			names = []string{"nobody"}
		}
		if i%2 == 0 {
			layouts = append(layouts, largeLayout(b, node, entries))
		} else {
			topologies = append(topologies, signed(largeTopology(node), names...))
		}
	}
	for b.Loop() {
		book := ledger.New()
		f := NewFeed(book, nil, nil)
		f.later = func(time.Duration, func()) {}
		for _, l := range layouts {
			f.Layout(l)
		}
		for _, p := range pods {
			f.Pod(p)
		}
		for _, o := range topologies {
			f.Topology(o)
		}
		f.Begin()
		if n := book.Snapshot().Len(); n != nodes {
			b.Fatalf("%d nodes", n)
		}
		if n := book.Snapshot().Node("node-0001"); n.Unsettled || n.Usage.FreeCPUs().Len() != 88 {
			b.Fatalf("node-0001: %s", amounts(book, "node-0001"))
		}
	}
}

func largeLayout(b *testing.B, node string, entries []state.Entry) *v1alpha1.NodeLayout {
	b.Helper()
	m := machineOf(b, "numa 0 cpus 0-63 memory 256Gi\nnuma 1 socket 1 cpus 64-127 memory 256Gi")
	r := place.Rules{
		Topology: place.TopologyRules{Policy: place.SingleNUMA},
		CPU:      place.CPURules{Static: true},
		Memory:   place.MemoryRules{Static: true},
	}
	u := place.NewUsage(m, r)
	for i := range entries {
		p, err := pod.ToPlace(podtest.Pod("p", podtest.Exact("c", "cpu=4 memory=4Gi")))
		if err != nil {
			b.Fatal(err)
		}
		entries[i].Holdings = place.Place(u, p).Holdings
		u = u.Hold(entries[i].Holdings...)
	}
	l := v1alpha1.FromCore(node, m, r, entries, nil)
	l.ResourceVersion = "1"
	return l
}

func largeTopology(node string) *v1alpha2.NodeResourceTopology {
	o := topologyOf(node, 1, 0, 0)
	for i, free := range []int64{24, 64} {
		r := &o.Zones[i].Resources[0]
		r.Capacity.Set(64)
		r.Allocatable.Set(64)
		r.Available.Set(free)
	}
	return o
}
