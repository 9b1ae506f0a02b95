package main

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/deploy/crd"
)

// This file computes the load of a cluster on its API server: from the measured sizes of the objects of one node
// (weight), and from how often pods start and end (demand).

// weight has the sizes of the objects that the agent of one machine with some pods writes, and the time to encode
// them.
type weight struct {
	kind
	pods int
	// base is the size of a LayoutBase, and topology of a NodeResourceTopology. After a base, the agent writes
	// NodeLayouts that refer to it until it writes the next base: changes is their number, and change their mean size.
	base, change, topology wire
	changes                int
	encode, decode         float64 // ns of a change: the agent's JSON; JSON to core values
}

// weigh measures the objects of all machines and pod counts and, if rounds is not 0, the time to encode and decode
// them.
func weigh(rounds int) (out []weight, err error) {
	var kindsOf [3]*definition
	for i, text := range [][]byte{crd.LayoutBase(), crd.NodeLayout(), crd.NodeResourceTopology()} {
		if kindsOf[i], err = define(text); err != nil {
			return nil, err
		}
	}
	for _, k := range kinds {
		for _, pods := range crowds {
			n, err := k.node(pods)
			if err != nil {
				return nil, err
			}
			l, err := k.layout(n)
			if err != nil {
				return nil, err
			}
			w := weight{kind: k, pods: pods}
			base := v1alpha1.BaseOf(l)
			body, err := client.BaseBody(base)
			if err != nil {
				return nil, err
			}
			if w.base, _, err = kindsOf[0].measure(body); err != nil {
				return nil, err
			}
			if w.topology, _, err = kindsOf[2].measure(topology(n)); err != nil {
				return nil, err
			}
			if err := w.measureChanges(kindsOf[1], base, l, rounds); err != nil {
				return nil, err
			}
			out = append(out, w)
		}
	}
	return out, nil
}

// measureChanges sets the mean size of the layouts that an agent writes after a base, while pods end and others start
// in turn. It measures the time to encode and decode one of them, from the middle, if rounds is not 0.
func (w *weight) measureChanges(d *definition, base *v1alpha1.LayoutBase, l *v1alpha1.NodeLayout, rounds int) error {
	all, err := successors(base, l)
	if err != nil {
		return err
	}
	var sum wire
	for i, next := range all {
		body, err := client.Body(next)
		if err != nil {
			return err
		}
		size, u, err := d.measure(body)
		if err != nil {
			return err
		}
		sum = sum.plus(size)
		if rounds > 0 && i == len(all)/2 {
			if w.encode, w.decode, err = coding(rounds, base, next, u); err != nil {
				return err
			}
		}
	}
	w.changes, w.change = len(all), sum.dividedBy(len(all))
	return nil
}

// maxChanges bounds the layouts that follow a base. A node without pods needs the bound, because its layouts never
// grow so much that the agent writes the next base.
const maxChanges = 100

// successors returns the layouts that an agent writes after a base until it writes the next one: the oldest pod ends,
// and another one of its size starts, in turn.
func successors(base *v1alpha1.LayoutBase, l *v1alpha1.NodeLayout) (out []*v1alpha1.NodeLayout, err error) {
	var d v1alpha1.Differences
	if err := d.Begin(base); err != nil {
		return nil, err
	}
	now := *l
	var ended v1alpha1.PodHoldings
	for i := range maxChanges {
		now.Sequence++
		switch {
		case len(base.Holdings) == 0:
		case i%2 == 0:
			ended, now.Holdings = now.Holdings[0], now.Holdings[1:]
		default:
			ended.UID = fmt.Sprintf("7a1f9b63-4c2e-4d80-ae3f-%012d", i)
			ended.Name = fmt.Sprintf("inference-7c9f8d5b4a-%05d", i)
			now.Holdings = append(slices.Clone(now.Holdings), ended)
		}
		next, err := d.Next(&now)
		if err != nil || next == nil {
			return out, err
		}
		out = append(out, next)
	}
	return out, nil
}

// coding measures, in nanoseconds, how long an agent takes to encode a layout as JSON, and how long a scheduler that
// already has the base takes to convert that JSON to core values.
func coding(rounds int, base *v1alpha1.LayoutBase, l *v1alpha1.NodeLayout, u *unstructured.Unstructured) (encode,
	decode float64, err error) {
	text, err := json.Marshal(u)
	if err != nil {
		return 0, 0, err
	}
	known := v1alpha1.NewBase(base)
	read := func() (int, error) {
		in := &unstructured.Unstructured{}
		if err := in.UnmarshalJSON(text); err != nil {
			return 0, err
		}
		o, err := v1alpha1.Typed(in)
		if err != nil {
			return 0, err
		}
		typed, ok := o.(*v1alpha1.NodeLayout)
		if !ok {
			return 0, fmt.Errorf("a layout became a %T", o)
		}
		core, err := typed.CoreFrom(known, v1alpha1.Sharing{Machine: topo.New})
		return len(core.Entries), err
	}
	if _, err := read(); err != nil {
		return 0, 0, fmt.Errorf("read layout: %w", err)
	}
	ns := compare(rounds, []subject{
		{name: "encode", batch: 1, run: func(times int) (sum int) {
			for range times {
				data, _ := json.Marshal(l) // was encoded above
				sum += len(data)
			}
			return sum
		}},
		{name: "decode", batch: 1, run: func(times int) (sum int) {
			for range times {
				n, _ := read() // was read above
				sum += n
			}
			return sum
		}},
	})
	return ns[0], ns[1], nil
}

// Defaults of the agent and of kube-apiserver that the calculation uses, in seconds.
const (
	minInterval = 0.2 // between two writes of one agent
	reread      = 600 // after so long without a watch event, an agent reads its objects again
	history     = 600 // longest history in etcd: a compaction, every 300 s, keeps what is newer than the one before
)

// demand is the size of a cluster, and how often its pods change.
type demand struct {
	nodes int
	churn float64 // pods that start each second; as many end
}

// writesPerNode returns how often one agent writes a layout, per second, if its node changes this often per second.
// Changes come at random. After a write, the next write waits for the least interval, and combines all changes until
// then.
func writesPerNode(changes float64) float64 {
	if changes == 0 {
		return 0
	}
	return 1 / (minInterval + math.Exp(-changes*minInterval)/changes)
}

// load is the load that a demand causes if all nodes have one weight. Bytes and counts are per second, except for
// objects and withHistory.
type load struct {
	writes               float64 // of layouts, and as many of topologies
	bases                float64 // writes of bases
	sent                 float64 // bytes that agents send
	layouts              float64 // bytes of layouts and bases that etcd stores
	topologies           float64 // bytes of topologies that etcd stores
	watcher              float64 // bytes to one scheduler
	own                  float64 // bytes of metadata that all agents receive by watching their own objects
	reads, read          float64 // requests and bytes of agents that read their objects again, without an event
	objects, withHistory float64 // bytes in etcd: the present objects, and these with the longest history
	decoding             float64 // CPUs that one scheduler takes to read layouts
}

// load returns the load on nodes of weight w. A pod changes its node's layout twice: when it starts and when it ends.
func (d demand) load(w weight) load {
	n := float64(d.nodes)
	writes := n * writesPerNode(2*d.churn/n)
	bases := writes / float64(w.changes)
	sum := func(size func(wire) int) float64 {
		return writes*float64(size(w.change)) + bases*float64(size(w.base))
	}
	out := load{
		writes:     writes,
		bases:      bases,
		sent:       sum(func(w wire) int { return w.apply }) + writes*float64(w.topology.apply),
		layouts:    sum(func(w wire) int { return w.stored }),
		topologies: writes * float64(w.topology.stored),
		watcher:    sum(func(w wire) int { return w.event }) + writes*float64(w.topology.event),
		own:        sum(func(w wire) int { return w.meta }) + writes*float64(w.topology.meta),
		reads:      2 * n / reread,
		read:       n / reread * float64(w.base.stored+w.change.stored),
		objects:    n * float64(w.base.stored+w.change.stored+w.topology.stored),
		decoding:   writes * w.decode / 1e9,
	}
	out.withHistory = out.objects + history*(out.layouts+out.topologies)
	return out
}
