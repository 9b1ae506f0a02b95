package view

import (
	"context"
	"slices"

	"github.com/tenon-numa/tenon/cluster/claims"
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
	// Related: some of the pods require something of other pods, or take what only one pod of a node may have. Whether
	// there is a place for them is then not a question of room alone.
	Related bool
	// NotJudged describes for people what of their devices is not judged. It does not count then.
	NotJudged []string
}

// Together places pods that wait at the same time: least of them, and as many others as the search finds, or the most
// that it finds. Pods that are not there any more have no place.
func (o *Once) Together(ctx context.Context, pods []state.PodID, least int) (Together, error) {
	v, err := o.read(ctx, true)
	if err == nil && v.Devices == nil && claiming(v, pods) {
		v.Devices, err = o.reader.Devices(ctx, v.Seen)
	}
	if err != nil {
		return Together{}, err
	}
	s, err := stage.OfAgain(v, &o.requests)
	if err != nil {
		return Together{}, err
	}
	return together(ctx, s, pods, least)
}

// claiming reports whether some of the pods that wait have claims of devices.
func claiming(v *kube.View, pods []state.PodID) bool {
	return slices.ContainsFunc(v.Pods, func(s kube.Stored) bool {
		p := s.Pod()
		return p.Spec.NodeName == "" && claims.Claims(p) &&
			slices.ContainsFunc(pods, func(id state.PodID) bool { return id.UID == string(p.UID) })
	})
}

// Together is Once.Together without the devices of claims.
func (c *Live) Together(ctx context.Context, pods []state.PodID, least int) (Together, error) {
	s, _, err := c.Stage(ctx)
	if err != nil {
		return Together{}, err
	}
	return together(ctx, s, pods, least)
}

func together(ctx context.Context, s *stage.Stage, pods []state.PodID, least int) (out Together, err error) {
	at := map[string]int{}
	for i, p := range pods {
		at[p.UID] = i
	}
	out.Nodes = make([]string, len(pods))
	members, kinds := make([]whatif.Member, len(pods)), wants{}
	for p := range kube.EachPod(s.Pods()) {
		i, asked := at[string(p.UID)]
		if !asked {
			continue
		}
		w, err := s.Existing(p)
		if err != nil {
			return out, err
		}
		members[i] = whatif.Member{ID: pods[i], Want: kinds.add(w.Want)}
		out.Related = out.Related || stage.Relates(w.Want)
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
	// Once enough of them have places, no search is made for the others. Equal pods need none, but no search proves that
	// devices are given so that the most pods get theirs.
	equal := len(kinds) == 1 && !kinds[0].Demand.Relates()
	out.More = placed.More || slices.Contains(out.Nodes, "") && (placed.Fits && !equal ||
		slices.ContainsFunc(kinds, func(w *whatif.Want) bool { return w.Devices != nil }))
	return out, nil
}

// wants are what pods want, each once. A plan counts the neighbours of each of them on all nodes, and does not search
// for nodes of equal pods.
type wants []*whatif.Want

// add returns a want that is the same as w: the one that is known, or w.
func (k *wants) add(w *whatif.Want) *whatif.Want {
	if i := slices.IndexFunc(*k, w.Same); i >= 0 {
		return (*k)[i]
	}
	*k = append(*k, w)
	return w
}
