package main

import (
	"context"
	"fmt"
	"time"

	"github.com/tenon-numa/tenon/test/bench/console"
	"github.com/tenon-numa/tenon/test/bench/section"
)

// supported is how many nodes Kubernetes supports.
const supported = 5000

// consoleLayer measures the console in a browser.
func consoleLayer(ctx context.Context, o options) (found, error) {
	p, err := console.Measure(ctx, min(o.nodes, supported))
	if err != nil {
		return found{}, err
	}
	ms := func(d time.Duration) string { return d.Round(time.Millisecond).String() }
	longest := "below 50ms" // browsers report no shorter ones
	if p.Longest > 0 {
		longest = ms(p.Longest)
	}
	text := section.Where() + fmt.Sprintf(`

| %d nodes, %d pods | |
|---|---:|
| the first page can be used after | %s |
| transferred until then, compressed | %s |
| changes a second | %d |
| the page's longest task meanwhile | %s |
| a created pod appears meanwhile after | %s |
| how many more pods fit (`+"`/fitting`"+`) | %s |
| where a pod fits (`+"`/pods/NAMESPACE/POD`"+`) | %s |
| what is wrong, and what mends it (`+"`/doctor`"+`) | %s |
| the server's resident memory with the cluster read | %s |
| at most, in the whole run | %s |
`, p.Nodes, p.Pods, ms(p.Usable), size(p.Transferred), p.Changes, longest, ms(p.Appears), ms(p.Fitting),
		ms(p.Explaining), ms(p.Examining), size(p.Loaded), size(p.Most))
	return found{page: performancePage, tables: []table{{"console", text}}}, nil
}
