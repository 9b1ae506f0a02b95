package sched

import (
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/api/config"
	"github.com/tenon-numa/tenon/cluster/preempt"
	"github.com/tenon-numa/tenon/core/place"
)

// This file words refusals as scheduler-plugins does, for profiles that enable the plugin by its name there:
// people search events for these texts. The texts are those of v0.34.7 (pkg/noderesourcetopology/filter.go).

// notHelpful is what kube-scheduler says of nodes where evicting pods does not help.
const notHelpful = "Preemption is not helpful for scheduling"

// preemptionTexts are the phrases of statuses after preemption.
func (p *Plugin) preemptionTexts() preempt.Texts {
	if p.name == config.Match {
		return preempt.Texts{NoVictims: "No preemption victims found for incoming pod", Waits: notHelpful}
	}
	return preempt.Texts{NoVictims: "no pods of lower priority to evict"}
}

// text renders a reason why a node refuses a pod.
func (p *Plugin) text(pod *place.Pod, r place.Reason) string {
	text := r.Text()
	if p.name != config.Match || r.Container == "" {
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
