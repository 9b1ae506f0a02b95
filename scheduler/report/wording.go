package report

import (
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/api/config"
	"github.com/tenon-numa/tenon/core/place"
)

// Words is the plugin's name in a profile, which determines the texts of refusals. Under the name
// NodeResourceTopologyMatch, the texts are those that scheduler-plugins v0.34.7 has
// (pkg/noderesourcetopology/filter.go), because people search events for these.
type Words string

// NotHelpful returns a text that is added to the status of a pod that waits instead of evicting others:
// kube-scheduler's text for nodes where evictions do not help. It returns "" under the plugin's own name.
func (w Words) NotHelpful() string {
	if w == config.Match {
		return "Preemption is not helpful for scheduling"
	}
	return ""
}

// NoVictims returns the text for a node on which no pod has a lower priority.
func (w Words) NoVictims() string {
	if w == config.Match {
		return "No preemption victims found for incoming pod"
	}
	return "no pods of lower priority to evict"
}

// Reason renders a reason why a node refuses a pod.
func (w Words) Reason(pod *place.Pod, r place.Reason) string {
	text := r.Text()
	if w != config.Match || r.Container == "" {
		return text
	}
	at := slices.IndexFunc(pod.Containers, func(c place.Container) bool { return c.Name == r.Container })
	if at < 0 {
		return text
	}
	const begins = "cannot align container "
	rest, aligns := strings.CutPrefix(text, begins)
	switch kind := pod.Containers[at].Kind; {
	case aligns && kind == place.Init:
		return "cannot align init container " + rest
	case aligns && kind == place.Sidecar:
		return "cannot align sidecar container " + rest
	}
	return text
}
