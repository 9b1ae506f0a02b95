package score

import "slices"

// ScoresTogether returns the score of several ways to place the same number of pods, of 0 to [Max]. costs has for each
// way the costs of the pods, each at the moment when those before it had their places. A way with fewer NUMA nodes over
// all pods scores higher, and of several such ways the one with the lower mean of the less important terms. An
// estimated node counts as NUMA nodes, as it does for one pod. The costs of other types than [Tenon] have no terms:
// their mean counts.
func (s Strategy) ScoresTogether(costs [][]int64) []int64 {
	numas, out := make([]int64, len(costs)), make([]int64, len(costs))
	for i, pods := range costs {
		for _, c := range pods {
			if s.Type == Tenon {
				numas[i], c = numas[i]+c/costNUMA, c%costNUMA
			}
			out[i] += c
		}
		out[i] /= max(1, int64(len(pods)))
	}
	for i := range out {
		// Beyond the best way, so that the sum stays below the cost of a node without a report.
		out[i] += min(numas[i]-slices.Min(numas), costUnknown/costNUMA-1) * costNUMA
	}
	s.Scores(out)
	return out
}
