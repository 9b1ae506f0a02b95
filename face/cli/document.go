package cli

import (
	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
)

// explanationDocument is what explain writes with "-o json" and "-o yaml"; see package document for the rules of such
// documents.
type explanationDocument struct {
	Kind string       `json:"kind"` // "PodExplanation"
	Pod  document.Pod `json:"pod"`
	QoS  string       `json:"qos"`
	// Phase, Reason and Message are the pod's status, and Node is the node to which the pod is bound.
	Phase      string             `json:"phase"`
	Node       string             `json:"node,omitempty"`
	Reason     string             `json:"reason,omitempty"`
	Message    string             `json:"message,omitempty"`
	Containers []document.Request `json:"containers"`
	Holds      *document.Holder   `json:"holds,omitempty"` // what it holds on Node
	// Claims is what it holds by ResourceClaims (DRA); absent if it has none.
	Claims *document.PodClaims `json:"claims,omitempty"`
	// Summary is the one sentence about a pod that has no node, or that a kubelet has refused.
	Summary *document.Sentence `json:"summary,omitempty"`
	// Scheduling is how far the scheduler has come with a pod that has no node; nil where this is not known.
	Scheduling *document.Scheduling `json:"scheduling,omitempty"`
	// Warnings describe annotations, labels and a schedulerName of the pod that no program reads and that are
	// probably misspelt.
	Warnings []string `json:"warnings,omitempty"`
	// Unjudged describes the pod's demands on nodes that Tenon does not judge.
	Unjudged []string           `json:"unjudged"`
	Verdicts []document.Verdict `json:"verdicts"` // of the nodes where the pod holds nothing
	// Groups are the nodes that refuse the pod, with the same reasons together. Groups with nodes that can be freed come
	// first.
	Groups    []groupDocument    `json:"groups"`
	NotJudged []document.Problem `json:"notJudged"`
	// Partial is what of the cluster you may not read, and how the verdicts suffer from it; absent if that is nothing.
	Partial string `json:"partial,omitempty"`
}

// mapDocument is what map writes with "-o json" and "-o yaml".
type mapDocument struct {
	Kind     string             `json:"kind"` // "MachineMap"
	Nodes    []document.Node    `json:"nodes"`
	NotDrawn []document.Problem `json:"notDrawn"`
}

func (e *explanation) document() explanationDocument {
	p := e.pod
	d := explanationDocument{
		Kind: "PodExplanation", Pod: document.PodOf(p.ID), QoS: document.QoSName(p.Pod.QoS), Phase: p.Phase,
		Node: p.Node, Reason: p.Reason, Message: p.Message,
		Containers: document.Each(p.Pod.Containers, document.RequestOf),
		Claims:     e.claims, Scheduling: p.Scheduling, Warnings: p.Misspelt, Unjudged: append([]string{}, p.Unjudged...),
		Verdicts:  document.Each(e.verdicts, verdictOn.document),
		Groups:    document.Each(groupsOf(e.refusing()), nodeGroup.document),
		NotJudged: append([]document.Problem{}, e.problems...), Partial: e.partial,
	}
	if p.Node == "" || e.refused() {
		s := document.SentenceOf(e.summary())
		d.Summary = &s
	}
	if e.holds != nil {
		holds := document.HolderOf(e.home.Machine, *e.holds)
		holds.Misaligned = e.home.Quality != state.Estimated &&
			place.Misaligned(place.Alignments(e.home.Usage.Ideal(), p.Pod, e.holds.Holdings))
		d.Holds = &holds
	}
	return d
}

func (v verdictOn) document() document.Verdict {
	n := v.node
	if n == nil {
		n = &state.Node{Name: v.name}
	}
	d := document.VerdictOf(n, v.judged.Verdict)
	d.Fits, d.Reasons = v.judged.Fits(), document.Each(v.judged.Reasons, document.ReasonOf)
	if v.node == nil {
		d.Quality = document.None
	}
	if !d.Fits {
		d.NUMAs, d.Containers = "", nil
	}
	if v.way != nil {
		d.Way = &document.Way{Pods: document.Each(v.way.Pods, document.PodOf), Missing: v.missing()}
	}
	return d
}

// missing returns the amounts that the pods in the way have to release.
func (v verdictOn) missing() []document.Missing {
	return document.Each(v.way.Missing, func(m whatif.Missing) document.Missing {
		out := document.Missing{Resource: m.Resource, More: m.More}
		if m.NUMAs != 0 {
			out.NUMAs = document.NUMAs(v.node.Machine, m.NUMAs)
		}
		return out
	})
}

// document returns the JSON form of a scene. file is set if the scene was read from a machine file, and not from a
// cluster.
func (s scene) document(file bool) mapDocument {
	d := mapDocument{Kind: "MachineMap", NotDrawn: append([]document.Problem{}, s.problems...),
		Nodes: document.Each(s.nodes, func(n *state.Node) document.Node { return document.NodeOf(n.Name, n) })}
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if file {
			n.From, n.Unaligned = "file", nil // a machine file has no kubelet
		}
		n.Claims = s.claims.Shown(n.Name)
		for k := range n.Holdings {
			n.Holdings[k].Misaligned = s.misaligned[n.Holdings[k].UID]
		}
		for _, x := range s.notes {
			if x.Node == n.Name {
				n.Warnings = append(n.Warnings, x.Reason)
			}
		}
	}
	return d
}

// spread returns the NUMA nodes of holdings on a node; "-" if the holdings are on none.
func spread(n *state.Node, hs ...place.Holding) string {
	if ids := document.Spread(n.Machine, hs); ids != "" {
		return string(ids)
	}
	return "-"
}
