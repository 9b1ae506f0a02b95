package mover

import (
	"cmp"
	"slices"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/idset"
	core "github.com/tenon-numa/tenon/guests/affinity"
)

// object returns what is published about a round. The caller adds the time, the length and the sockets of the round.
func (r *Runner) object(all []nodePod, in core.Input, result core.Result) *v1alpha1.NodeAffinity {
	out := &v1alpha1.NodeAffinity{LastMove: r.move}
	out.Name = r.cfg.NodeName
	verdicts := map[string]core.Verdict{}
	for _, v := range result.Verdicts {
		verdicts[v.Pod] = v
	}
	names := map[string]string{}
	at := map[string]idset.NUMA{}
	for _, k := range all {
		v := verdicts[k.core.ID]
		names[k.core.ID], at[k.core.ID] = k.pod.Namespace+"/"+k.pod.Name, v.NUMA
		opted := !k.core.Exclusive && (k.core.Measured || k.core.Group != "")
		if !opted && v.Bytes == 0 && v.Outcome != core.Released || len(out.Pods) == v1alpha1.MaxAffinityPods {
			continue
		}
		out.Pods = append(out.Pods, podOf(k, v))
		if opted {
			out.Summary.Pods++
			if v.NUMA != core.Nowhere {
				out.Summary.Placed++
			}
		}
	}
	slices.SortFunc(out.Pods, func(a, b v1alpha1.AffinityPod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	for _, w := range in.Weights {
		t := v1alpha1.AffinityTraffic{A: names[w.A], B: names[w.B], BytesPerSecond: w.Bytes,
			Remote: at[w.A] == core.Nowhere || at[w.A] != at[w.B]}
		if t.A == "" || t.B == "" || t.BytesPerSecond < core.Defaults().MinBytes {
			continue
		}
		if t.Remote {
			out.Summary.RemoteBytesPerSecond += t.BytesPerSecond
		} else {
			out.Summary.LocalBytesPerSecond += t.BytesPerSecond
		}
		if t.A > t.B {
			t.A, t.B = t.B, t.A
		}
		out.Traffic = append(out.Traffic, t)
	}
	slices.SortFunc(out.Traffic, func(a, b v1alpha1.AffinityTraffic) int {
		return cmp.Or(cmp.Compare(b.BytesPerSecond, a.BytesPerSecond), cmp.Compare(a.A, b.A), cmp.Compare(a.B, b.B))
	})
	out.Traffic = out.Traffic[:min(len(out.Traffic), v1alpha1.MaxAffinityTraffic)]
	return out
}

// podOf returns the wire form of a verdict.
func podOf(k nodePod, v core.Verdict) v1alpha1.AffinityPod {
	numa := func(n idset.NUMA) *int64 {
		if n == core.Nowhere {
			return nil
		}
		id := int64(n)
		return &id
	}
	p := v1alpha1.AffinityPod{Namespace: k.pod.Namespace, Name: k.pod.Name, UID: k.core.ID, Group: k.core.Group,
		Outcome: string(v.Outcome), NUMA: numa(v.NUMA), Wanted: numa(v.Wanted), Periods: int64(v.Periods),
		BytesPerSecond: v.Bytes, RemoteBytesPerSecond: v.Remote}
	if v.Lacks != nil {
		p.Lacks = &v1alpha1.AffinityLack{Resource: v.Lacks.Resource, Want: v.Lacks.Want, Have: v.Lacks.Have}
	}
	return p
}
