package document

import (
	"fmt"
	"time"

	"github.com/tenon-numa/tenon/api/v1alpha1"
)

// Affinity is what agents measured between pods that share CPUs, and on which NUMA nodes the agents have put these
// pods.
type Affinity struct {
	Kind  string         `json:"kind"`  // "Affinity"
	Nodes []NodeAffinity `json:"nodes"` // in ascending order of name
}

// NodeAffinity is the Affinity of one node.
type NodeAffinity struct {
	Node          string    `json:"node"`
	Measured      time.Time `json:"measured"`
	PeriodSeconds int64     `json:"periodSeconds"`
	Sockets       int64     `json:"sockets"`
	// Incomplete is set if the node has more sockets than an agent reads.
	Incomplete bool                       `json:"incomplete,omitempty"`
	Summary    v1alpha1.AffinitySummary   `json:"summary"`
	LastMove   *v1alpha1.AffinityMove     `json:"lastMove,omitempty"`
	Pods       []AffinityPod              `json:"pods"`
	Traffic    []v1alpha1.AffinityTraffic `json:"traffic"`
}

// AffinityPod is a pod with a text that explains why it runs where it does.
type AffinityPod struct {
	v1alpha1.AffinityPod
	Why string `json:"why"`
}

// AffinityOf returns the document of NodeAffinity objects, which the caller has ordered by name.
func AffinityOf(objects []v1alpha1.NodeAffinity) Affinity {
	out := Affinity{Kind: "Affinity", Nodes: []NodeAffinity{}}
	for _, o := range objects {
		n := NodeAffinity{Node: o.Name, Measured: o.Measured.Time, PeriodSeconds: o.PeriodSeconds, Sockets: o.Sockets,
			Incomplete: o.Incomplete, Summary: o.Summary, LastMove: o.LastMove, Pods: []AffinityPod{}, Traffic: o.Traffic}
		if n.Traffic == nil {
			n.Traffic = []v1alpha1.AffinityTraffic{}
		}
		for _, p := range o.Pods {
			n.Pods = append(n.Pods, AffinityPod{p, whyThere(p)})
		}
		out.Nodes = append(out.Nodes, n)
	}
	return out
}

// whyThere explains a pod's place: its outcome, and what the pod waits for.
func whyThere(p v1alpha1.AffinityPod) string {
	if p.Wanted == nil {
		return p.Outcome
	}
	to := fmt.Sprintf("%s: NUMA node %d", p.Outcome, *p.Wanted)
	switch {
	case p.Lacks != nil && p.Lacks.Resource == "cpu":
		return fmt.Sprintf("%s has %g of %g CPUs", to, float64(p.Lacks.Have)/1000, float64(p.Lacks.Want)/1000)
	case p.Lacks != nil:
		return fmt.Sprintf("%s has %.1f of %.1f GiB", to, float64(p.Lacks.Have)/(1<<30), float64(p.Lacks.Want)/(1<<30))
	case p.Periods > 0:
		return fmt.Sprintf("%s, period %d", to, p.Periods)
	}
	return to
}
