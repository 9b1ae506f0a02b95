package main

import (
	"encoding/json"
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/deploy/crd"
)

// weight has the sizes of what one machine with a number of pods writes to the API server, and the time to encode it.
type weight struct {
	kind
	pods             int
	layout, topology wire
	holdings, single int     // stored bytes if all holdings, or one pod's, were a separate object
	encode, decode   float64 // ns of a layout: the agent's JSON; JSON to core values
}

// weigh measures the objects of all machines and pod counts and, if rounds is not 0, the time to encode and decode
// them.
func weigh(rounds int) (out []weight, err error) {
	layouts, err := define(crd.NodeLayout())
	if err != nil {
		return nil, err
	}
	topologies, err := define(crd.NodeResourceTopology())
	if err != nil {
		return nil, err
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
			var u *unstructured.Unstructured
			if w.layout, u, err = layouts.measure(l); err != nil {
				return nil, err
			}
			if w.holdings, w.single, err = parts(layouts, l); err != nil {
				return nil, err
			}
			if w.topology, _, err = topologies.measure(topology(n)); err != nil {
				return nil, err
			}
			if rounds > 0 {
				if w.encode, w.decode, err = coding(rounds, l, u); err != nil {
					return nil, err
				}
			}
			out = append(out, w)
		}
	}
	return out, nil
}

// parts measures what would be stored if a layout's holdings were a separate object, and if the holdings of its first
// pod were.
func parts(d *definition, l *v1alpha1.NodeLayout) (all, single int, err error) {
	alone := *l
	alone.Machine, alone.Rules, alone.Summary, alone.MemoryGroups = v1alpha1.Machine{}, v1alpha1.Rules{},
		v1alpha1.Summary{}, nil
	w, _, err := d.measure(&alone)
	if err != nil || len(l.Holdings) == 0 {
		return w.stored, 0, err
	}
	alone.Holdings = l.Holdings[:1]
	one, _, err := d.measure(&alone)
	return w.stored, one.stored, err
}

// coding measures how long an agent takes to write a layout as JSON, and a scheduler to read it.
func coding(rounds int, l *v1alpha1.NodeLayout, u *unstructured.Unstructured) (encode, decode float64, err error) {
	text, err := json.Marshal(u)
	if err != nil {
		return 0, 0, err
	}
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
		core, err := typed.Core()
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
	leastInterval = 0.2 // between two writes of one agent
	reread        = 600 // between two readings of a layout without a watch event
	history       = 600 // longest history in etcd: every 300 s it drops what was old at the compaction before
)

// demand is the load of a cluster on its API server.
type demand struct {
	nodes int
	churn float64 // pods that start each second; as many end
}

// writesPerNode returns how often one agent writes an object, per second. Changes come at random. After a write the
// next waits for the least interval, and changes in between are combined into one write.
func writesPerNode(changes float64) float64 {
	if changes == 0 {
		return 0
	}
	return 1 / (leastInterval + math.Exp(-changes*leastInterval)/changes)
}

// load is the result of a demand on nodes of one weight: bytes and counts per second, except for the objects.
type load struct {
	writes        float64 // of layouts, and as many of topologies
	sent, stored  float64 // bytes that agents send, and that etcd stores
	watcher       float64 // bytes to one scheduler
	own           float64 // bytes to all agents, each about its own objects
	reads, read   float64 // requests and bytes of agents that read their layout again without a watch event
	objects, most float64 // bytes in etcd: the present objects, and these with the longest history
	decoding      float64 // CPUs that one scheduler takes to read layouts
	layouts       float64 // stored if topologies were not published
	holdings      float64 // the same if the holdings were separate objects
	single        float64 // the same if each pod's holdings were one; deletions are not counted
}

func (d demand) load(w weight) load {
	n := float64(d.nodes)
	writes := n * writesPerNode(2*d.churn/n)
	stored := float64(w.layout.stored + w.topology.stored)
	out := load{
		writes:   writes,
		sent:     writes * float64(w.layout.apply+w.topology.apply),
		stored:   writes * stored,
		watcher:  writes * float64(w.layout.event+w.topology.event),
		own:      writes * float64(w.layout.meta+w.topology.meta),
		reads:    n / reread,
		read:     n / reread * float64(w.layout.stored),
		objects:  n * stored,
		decoding: writes * w.decode / 1e9,
		layouts:  writes * float64(w.layout.stored),
		holdings: writes * float64(w.holdings),
		single:   d.churn * float64(w.single),
	}
	out.most = out.objects + history*out.stored
	return out
}
