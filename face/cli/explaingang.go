package cli

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tenon-numa/tenon/cluster/view"
)

// This file finds out whether a gang waits for pods that have not been created.

// gangReader is a [Cluster] that also reads groups of pods.
type gangReader interface {
	// GangNeeds returns how many pods a group needs to start. If the group does not exist, the error is NotFound.
	GangNeeds(ctx context.Context, namespace, name string) (int, error)
}

// gangNeeds is what a group of pods needs.
type gangNeeds struct {
	// Needs is how many pods the group needs to start, and Pods how many it has that have not ended. Needs is 0 if pods
	// may start one by one.
	Needs int `json:"needs"`
	Pods  int `json:"pods"`
	// Missing is set if the group does not exist, and Unread has why it could not be read.
	Missing bool   `json:"missing,omitempty"`
	Unread  string `json:"unread,omitempty"`
	waits   bool   // a pod of the group has no node
}

// readGang reads what a group needs, or returns nil if the cluster cannot read groups.
func readGang(ctx context.Context, c Cluster, namespace, name string, pods []view.Pod) *gangNeeds {
	reader, ok := c.(gangReader)
	if !ok {
		return nil
	}
	out := &gangNeeds{}
	for _, p := range pods {
		if p.Phase != "Failed" && p.Phase != "Succeeded" {
			out.Pods++
			out.waits = out.waits || p.Node == ""
		}
	}
	needs, err := reader.GangNeeds(ctx, namespace, name)
	switch {
	case apierrors.IsNotFound(err):
		out.Missing = true
	case err != nil:
		out.Unread = err.Error()
	}
	out.Needs = needs
	return out
}

// text returns why the group waits whether there is room or not, or "".
func (g *gangNeeds) text() string {
	switch {
	case g == nil || !g.waits:
	case g.Missing:
		return "The PodGroup does not exist: its pods wait until it is created."
	case g.Unread != "":
		return fmt.Sprintf("How many pods the group needs is not known: %s.", g.Unread)
	case g.Pods < g.Needs:
		return fmt.Sprintf("The group needs %d pods, and has %d. Until the others are created it waits, also where there "+
			"is room.", g.Needs, g.Pods)
	}
	return ""
}
