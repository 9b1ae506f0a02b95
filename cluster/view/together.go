package view

import (
	"context"
	"slices"

	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/stage"
	"github.com/tenon-numa/tenon/core/assign"
	"github.com/tenon-numa/tenon/core/guard"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
)

// Together is where pods that wait fit at the same time, with the devices of their claims.
type Together struct {
	// Nodes has the node of each pod; "" for a pod that has no place beside the others.
	Nodes []string
	// More: more of the pods may fit at the same time, since no search has proved the number.
	More bool
	// NotJudged describes for people what of their devices is not judged.
	NotJudged []string
}

// Together places pods that wait at the same time: least of them, and as many others as the search finds, or the most
// that it finds. Pods that are not there any more have no place.
func (o *Once) Together(ctx context.Context, pods []state.PodID, least int) (Together, error) {
	v, err := o.read(ctx, true)
	if err == nil && v.Devices == nil {
		v.Devices, err = o.reader.Devices(ctx, v.Seen)
	}
	if err != nil {
		return Together{}, err
	}
	return together(ctx, v, pods, least)
}

// Together is Once.Together without the devices of claims.
func (c *Live) Together(ctx context.Context, pods []state.PodID, least int) (Together, error) {
	v, err := c.served(ctx)
	if err != nil {
		return Together{}, err
	}
	return together(ctx, v, pods, least)
}

func together(ctx context.Context, v *kube.View, pods []state.PodID, least int) (out Together, err error) {
	s, err := stage.Of(v)
	if err != nil {
		return out, err
	}
	at := map[string]int{}
	for i, p := range pods {
		at[p.UID] = i
	}
	out.Nodes = make([]string, len(pods))
	members := make([]whatif.Member, len(pods))
	for p := range kube.EachPod(v.Pods) {
		i, asked := at[string(p.UID)]
		if !asked {
			continue
		}
		w, err := s.Existing(p)
		if err != nil {
			return out, err
		}
		members[i] = whatif.Member{ID: pods[i], Want: w.Want}
		for _, what := range w.UnjudgedDevices {
			if !slices.Contains(out.NotJudged, what) {
				out.NotJudged = append(out.NotJudged, what)
			}
		}
	}
	members = slices.DeleteFunc(members, func(m whatif.Member) bool { return m.Want == nil })
	// Whether a kubelet takes a pod is not known where nothing is reported.
	plan := whatif.New(s.Nodes(), whatif.Rules{Guard: guard.Guard{Unknown: guard.Nobody}})
	placed, err := plan.Together(whatif.Gang{Pods: members, Least: least}, ctx.Err)
	if err != nil {
		return out, err
	}
	for _, p := range placed.Placed {
		if p.Node != assign.Left {
			out.Nodes[at[p.Pod.UID]] = s.Nodes()[p.Node].Name
		}
	}
	// Once enough of them have places, no search is made for the others.
	out.More = placed.More || slices.Contains(out.Nodes, "") && (placed.Fits ||
		slices.ContainsFunc(members, func(m whatif.Member) bool { return m.Want.Devices != nil && m.Want.Devices.Unsure() }))
	return out, nil
}
