package held

import (
	"cmp"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/claims"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/printable"
)

// This file finds the devices that are kept for pods of requests which have not come. A device that a claim holds is
// not kept any more, also if the status of a request still has it.

// maxKept bounds the kept devices of one pod: each entry is for one node, driver and request.
const maxKept = 32

// keep reads the devices that are kept. If several requests name a device, the first one by name counts.
func (x *join) keep(v *kube.View) {
	x.kept, x.served, x.keepers = map[on]kube.KeptDevice{}, v.Served, kube.KeepersOf(v.Kept)
	taken := map[claims.ID]bool{}
	for _, h := range x.held {
		for _, id := range h.Devices {
			taken[id] = true
		}
	}
	for node, k := range v.Kept {
		for _, d := range k.Devices {
			at := on{node, claims.ID{Driver: d.Driver, Pool: d.Pool, Name: d.Name}}
			if old, known := x.kept[at]; !taken[at.ID] && (!known || d.Request < old.Request) {
				x.kept[at] = d
			}
		}
	}
	x.group()
}

// rank returns 2 for a device that claims hold, 1 for one that is kept, and 0 for others.
func (x *join) rank(node string, id claims.ID) int {
	if len(x.holders[node][id]) > 0 {
		return 2
	}
	if _, is := x.kept[on{node, id}]; is {
		return 1
	}
	return 0
}

// keptFor returns the request for which a device is kept, for people.
func keptFor(d kube.KeptDevice) document.KeptFor {
	return document.KeptFor{Request: printable.Text(printable.Clip(d.Request, 2*maxName)),
		Until: d.Until.UTC().Format(time.RFC3339)}
}

// keptGroup are devices that are kept for one request, which is as in the API.
type keptGroup struct {
	document.KeptDevices
	request string
}

// group groups the devices that are kept, and counts them by request.
func (x *join) group() {
	all := map[keptGroup]int{}
	x.keptOf = map[string]int{}
	for at, d := range x.kept {
		if _, published := x.where[at]; !published && !x.unpublished {
			continue
		}
		all[keptGroup{document.KeptDevices{Node: printable.Text(printable.Clip(at.node, maxName)),
			Driver: printable.Text(printable.Clip(at.Driver, maxName)), KeptFor: keptFor(d)}, d.Request}]++
		x.keptOf["all"]++
		x.keptOf["request "+d.Request]++
	}
	for g, n := range all {
		g.Devices = n
		x.groups = append(x.groups, g)
	}
	slices.SortFunc(x.groups, func(a, b keptGroup) int {
		return cmp.Or(strings.Compare(a.Node, b.Node), strings.Compare(a.Driver, b.Driver),
			strings.Compare(a.request, b.request), strings.Compare(a.Until, b.Until))
	})
}

// keptFrom adds to a pod that waits for devices which ones are kept for others.
func (x *join) keptFrom(p *v1.Pod) {
	out := x.pods[string(p.UID)]
	if len(x.groups) == 0 || p.Spec.NodeName != "" || kube.Ended(p) || out != nil && len(out.Without) == 0 ||
		out == nil && !x.asksServed(p) {
		return
	}
	own := x.keepers.Of(p)
	left := x.keptOf["all"] - x.keptOf["request "+own]
	var kept []document.KeptDevices
	for i := range x.groups {
		if len(kept) == maxKept {
			break
		}
		if g := &x.groups[i]; g.request != own {
			kept, left = append(kept, g.KeptDevices), left-g.Devices
		}
	}
	if len(kept) == 0 {
		return
	}
	if out == nil {
		out = &document.PodClaims{Devices: []document.PodDevice{}}
		x.pods[string(p.UID)] = out
	}
	out.Kept, out.MoreKept = kept, left
}

// asksServed reports whether a pod requests an extended resource that DRA serves.
func (x *join) asksServed(p *v1.Pod) bool {
	for name := range kube.Requests(p) {
		if x.served[string(name)] {
			return true
		}
	}
	return false
}
