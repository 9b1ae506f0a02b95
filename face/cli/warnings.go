package cli

import (
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
)

// This file is what to know of a node before relying on a prediction for it, or restarting its kubelet.

type inexactDocument struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type hazardDocument struct {
	Code  string `json:"code"`
	Stops bool   `json:"stops"` // the kubelet does not start again; else it starts and ends pods
	Sure  bool   `json:"sure"`
	Text  string `json:"text"`
}

// hazards are those of a restart of the node's kubelet. What a coarse node tells says nothing about them.
func hazards(n *ledger.Node) []place.Hazard {
	if n.Quality == ledger.Coarse || n.Usage == nil {
		return nil
	}
	return n.Usage.RestartHazards()
}

func inexactOf(n *ledger.Node) []inexactDocument {
	return each(n.Inexact, func(r ledger.Inexact) inexactDocument { return inexactDocument{string(r.Code), r.Message} })
}

func hazardsOf(n *ledger.Node) []hazardDocument {
	return each(hazards(n), func(h place.Hazard) hazardDocument {
		return hazardDocument{string(h.Code), h.Stops, h.Sure, h.Text()}
	})
}

// warnings are the rows that a map shows of nodes, in the order of the nodes.
func warnings(nodes []*ledger.Node) (out []NodeProblem) {
	for _, n := range nodes {
		for _, r := range n.Inexact {
			text := strings.TrimSuffix("predictions may be inexact: "+string(r.Code)+": "+r.Message, ": ")
			out = append(out, NodeProblem{n.Name, text})
		}
		for _, h := range hazards(n) {
			out = append(out, NodeProblem{n.Name, h.Text()})
		}
	}
	return out
}

// inexactMark stands behind the name of a node for which predictions may be inexact.
const inexactMark = " (inexact)"

// inexactCodes are the codes of a node, each once.
func inexactCodes(n *ledger.Node) string {
	var out []string
	for _, r := range n.Inexact {
		out = append(out, string(r.Code))
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), ", ")
}
