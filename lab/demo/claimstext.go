package demo

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/sim"
)

// claimMeans has the results of a scheduler in the act about claims, as means over its rounds.
type claimMeans struct {
	rounds, asked                     int
	aligned, apart, waiting, refusals float64
}

func meanClaims(x *document.DemoClaims, scheduler string) (m claimMeans) {
	for _, r := range x.Rounds {
		if r.Scheduler != scheduler {
			continue
		}
		m.rounds++
		m.asked = r.Asked
		m.aligned += float64(r.Aligned)
		m.apart += float64(r.Apart)
		m.waiting += float64(r.Waiting)
		m.refusals += float64(r.Refusals)
	}
	average(m.rounds, &m.aligned, &m.apart, &m.waiting, &m.refusals)
	return m
}

// claimsText renders the act about claims.
func claimsText(x *document.DemoClaims) string {
	t := meanClaims(x, sim.Tenon)
	var b strings.Builder
	fmt.Fprintf(&b, "dra. GPUs from claims: %d pods at once on %d nodes, policy single-numa-node. Means of %s.\n\n",
		t.asked, x.Nodes, seeds(t.rounds))
	of := rowOf(func(scheduler string) claimMeans { return meanClaims(x, scheduler) })
	b.WriteString(table(schedulerNames(), []row{
		of("pods running", func(m claimMeans) float64 { return m.aligned + m.apart }),
		of("  all devices beside their CPUs (six have none)", func(m claimMeans) float64 { return m.aligned }),
		of("  devices on another NUMA node", func(m claimMeans) float64 { return m.apart }),
		of("pods waiting or given up", func(m claimMeans) float64 { return m.waiting }),
		of("refusals by kubelets", func(m claimMeans) float64 { return m.refusals }),
	}))
	if at := slices.IndexFunc(x.Rounds, func(r document.DemoClaimsRound) bool { return r.Example != "" }); at >= 0 {
		r := x.Rounds[at]
		b.WriteString("\n" + wrap("For example under "+r.Scheduler+": "+r.Example+".", 0))
	}
	b.WriteString("\n" + wrap("The kubelet's Topology Manager knows nothing of devices from claims, so it admits pods "+
		"whose devices are elsewhere, also under single-numa-node. Tenon knows which CPUs the kubelet will take, and lets "+
		"kube-scheduler's own plugin allocate devices beside them.", 0))
	return b.String()
}
