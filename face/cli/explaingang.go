package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tenon-numa/tenon/cluster/view"
)

// This file finds out whether a gang waits for pods that have not been created.

// gangReader is a [Cluster] that also reads groups of pods.
type gangReader interface {
	// Gang returns how many pods a group needs to start, and the label whose value their nodes have to share, or "". If
	// the group does not exist, the error is NotFound.
	Gang(ctx context.Context, namespace, name string) (needs int, label string, err error)
}

// gangNeeds is what a group of pods needs.
type gangNeeds struct {
	// Needs is how many pods the group needs to start, and Pods how many it has that have not ended, without pods that are
	// deleted before they have got a node. Needs is 0 if pods may start one by one.
	Needs int `json:"needs"`
	Pods  int `json:"pods"`
	Ended int `json:"ended"`
	// Gated are the names of pods with scheduling gates. kube-scheduler lets the whole group wait for them.
	Gated []string `json:"gated,omitempty"`
	// Refused are the names of pods without a node that Tenon's scheduler refuses, and Why is the first one's reason.
	Refused []string `json:"refused,omitempty"`
	Why     string   `json:"why,omitempty"`
	// Label is the label whose value the nodes of all pods have to share. It is not judged.
	Label string `json:"label,omitempty"`
	// Missing is set if the group does not exist, and Unread has why it could not be read.
	Missing bool   `json:"missing,omitempty"`
	Unread  string `json:"unread,omitempty"`
	waiting int    // pods of the group without a node
}

// readGang reads what a group needs, or returns nil if the cluster cannot read groups.
func readGang(ctx context.Context, c Cluster, namespace, name string, pods []view.Pod) *gangNeeds {
	reader, ok := c.(gangReader)
	if !ok {
		return nil
	}
	out := &gangNeeds{}
	for _, p := range pods {
		switch {
		case ended(p):
			out.Ended++
			continue
		case p.Node == "" && p.Deleted:
			continue
		}
		if out.Pods++; p.Node == "" {
			out.waiting++
		}
		if p.Node == "" && p.Gated {
			out.Gated = append(out.Gated, p.ID.Name)
		}
		if p.Node == "" && p.Refused != "" {
			out.Refused, out.Why = append(out.Refused, p.ID.Name), cmp.Or(out.Why, p.Refused)
		}
	}
	var err error
	out.Needs, out.Label, err = reader.Gang(ctx, namespace, name)
	switch {
	case apierrors.IsNotFound(err):
		out.Missing = true
	case err != nil:
		out.Unread = err.Error()
	}
	return out
}

// lacks returns how many of the waiting pods that are not refused the group needs, or 0 if that is not known.
func (g *gangNeeds) lacks() int {
	if g == nil || g.Needs == 0 {
		return 0
	}
	return min(g.waiting-len(g.Refused), max(1, g.Needs-(g.Pods-g.waiting)))
}

// tooFew returns the sentence about a group that has fewer pods than it needs.
func tooFew(needs, has int) string {
	return fmt.Sprintf("The group needs %d pods, and has %d. With fewer, kube-scheduler lets them wait, also where there "+
		"is room.", needs, has)
}

// text returns sentences for people: whether pods or the group itself are missing, and which label is not judged. It
// returns "" if there is nothing to write, or if no pod waits.
func (g *gangNeeds) text() string {
	switch {
	case g == nil || g.waiting == 0:
		return ""
	case g.Missing:
		return "The PodGroup does not exist: its pods wait until it is created."
	case g.Unread != "":
		return fmt.Sprintf("How many pods the group needs is not known: %s.", g.Unread)
	}
	var out []string
	if g.Pods < g.Needs {
		out = append(out, tooFew(g.Needs, g.Pods))
		if g.Ended > 0 {
			out = append(out, fmt.Sprintf("Pods that have ended (%d) do not count.", g.Ended))
		}
	}
	if len(g.Gated) > 0 {
		out = append(out, "The group waits for pods with scheduling gates: "+firstOf(g.Gated, maxListed, "")+".")
	}
	if len(g.Refused) > 0 {
		out = append(out, fmt.Sprintf("No node takes %s without a change: %s.", firstOf(g.Refused, maxListed, ""), g.Why))
		if g.waiting > len(g.Refused) {
			out = append(out, "What follows leaves these pods out.")
		}
	}
	if g.Label != "" {
		out = append(out, "The nodes of all its pods need the same value of the label "+g.Label+
			", which is not looked at here.")
	}
	return strings.Join(out, " ")
}

// groupExplanation is what explain finds out about a PodGroup as a whole.
type groupExplanation struct {
	Kind      string `json:"kind"` // "PodGroupExplanation"
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Gang is what the group needs, and Together whether its waiting pods fit at the same time, as in
	// WorkloadExplanation.
	Gang     *gangNeeds `json:"gang,omitempty"`
	Together *together  `json:"together,omitempty"`
	// Text has the sentences about both; it is empty if nothing about the group as a whole keeps its pods waiting.
	Text string `json:"text"`
}

// PodGroup is what "explain podgroup" writes about the group as a whole.
type PodGroup = groupExplanation

// ExplainGroup explains a PodGroup. If no pod names it, the error is NotFound.
func ExplainGroup(ctx context.Context, c Cluster, namespace, name string) (out PodGroup, err error) {
	lister, ok := c.(workloadLister)
	if !ok {
		return out, errors.New("the pods of a PodGroup cannot be read")
	}
	x := workloadExplanation{kind: podGroupKind, namespace: namespace, name: name}
	if x.pods, err = lister.PodsOf(ctx, x.kind, namespace, name); err != nil {
		return out, err
	}
	nodes, _, err := c.Nodes(ctx)
	if err != nil {
		return out, fmt.Errorf("read the nodes: %w", err)
	}
	slices.SortFunc(x.pods, func(a, b view.Pod) int { return strings.Compare(a.ID.Name, b.ID.Name) })
	if err := x.asOne(ctx, c, nodes); err != nil {
		return out, err
	}
	texts := slices.DeleteFunc([]string{x.gang.text(), x.together.text()}, func(s string) bool { return s == "" })
	return PodGroup{Kind: "PodGroupExplanation", Namespace: namespace, Name: name, Gang: x.gang, Together: x.together,
		Text: strings.Join(texts, " ")}, nil
}
