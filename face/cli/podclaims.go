package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/view"
	"github.com/tenon-numa/tenon/core/state"
)

// This file adds the devices of claims (DRA) to the list of pods.

// addClaims adds what pods hold by claims, also pods that hold nothing else.
func (a *alignments) addClaims(nodes []*state.Node, pods []view.Pod, claims *document.Claims) {
	if claims == nil {
		return
	}
	listed := map[string]bool{}
	for i := range a.pods {
		uid := a.pods[i].entry.Pod.UID
		a.pods[i].claims, listed[uid] = claims.Pod(uid), true
	}
	on := map[string]*state.Node{}
	for _, n := range nodes {
		on[n.Name] = n
	}
	for _, p := range pods {
		c, n := claims.Pod(p.ID.UID), on[p.Node]
		if listed[p.ID.UID] || c == nil || n == nil || len(c.Devices) == 0 {
			continue
		}
		e, ok := n.Entry(p.ID.UID)
		if !ok {
			e = state.Entry{Pod: p.ID, Source: state.Observed}
		}
		a.pods = append(a.pods, podAlignment{node: n, entry: e, claims: c})
	}
	a.sort()
}

// claimRow returns the row of a pod's devices of claims, with the column HOLDS, or nil if it has none.
func (a podAlignment) claimRow() []string {
	if a.claims == nil || len(a.claims.Devices) == 0 {
		return nil
	}
	return []string{a.entry.Pod.String(), "(claims)", a.node.Name, podNUMAs(a.claims), "-",
		besideText(a.claims, a.node, &a.entry), "-", "-", strings.Join(deviceItems(a.claims), joint)}
}

// writeApart writes how many pods have devices of claims on other NUMA nodes than their CPUs, and what was not read.
func (a *alignments) writeApart(w io.Writer) {
	apart, unread := 0, ""
	for _, p := range a.pods {
		if p.claims.Apart() > 0 {
			apart++
		}
		if p.claims != nil && p.claims.Unread != "" {
			unread = p.claims.Unread
		}
	}
	if apart > 0 {
		fmt.Fprintf(w, "\n%s devices of claims on other NUMA nodes than what the kubelet gave.\n",
			choose(apart, "1 pod has", fmt.Sprintf("%d pods have", apart)))
	}
	if unread != "" {
		fmt.Fprintf(w, "\nDevices of claims may be missing here: %s.\n", unread)
	}
}
