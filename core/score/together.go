package score

import "slices"

// ScoresTogether returns the score of several ways to place the same pods, of 0 to [Max]. costs has for each way the
// costs of the pods by this strategy, each at the moment when those before it had their places; all ways have equally
// many. A way with fewer NUMA nodes over all pods scores higher, and of several such ways the one with the lower mean
// of the less important terms. An estimated node counts as NUMA nodes, as it does for one pod. The costs of other types
// than [Tenon] have no terms: their mean counts.
func (s Strategy) ScoresTogether(costs [][]int64) []int64 {
	numas, out := make([]int64, len(costs)), make([]int64, len(costs))
	for i, pods := range costs {
		n := max(1, int64(len(pods)))
		var rests int64 // of the divisions, so that a sum over thousands of pods stays within 64 bits
		for _, c := range pods {
			if s.Type == Tenon {
				numas[i], c = numas[i]+c/costNUMA, c%costNUMA
			}
			out[i], rests = out[i]+c/n, rests+c%n
		}
		out[i] += rests / n
	}
	sums := slices.Compact(slices.Sorted(slices.Values(numas)))
	for i := range out {
		// Only the order counts. The worst of many sums share a rank, below the cost of a node without a report.
		rank, _ := slices.BinarySearch(sums, numas[i])
		out[i] += min(int64(rank), costUnknown/costNUMA-1) * costNUMA
	}
	s.Scores(out)
	return out
}
