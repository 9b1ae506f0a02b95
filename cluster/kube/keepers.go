package kube

import (
	"cmp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	apipod "github.com/tenon-numa/tenon/api/pod"
)

// KeptOwner is a controller whose pods use up the room of a request without naming it; see [apipod.Owner].
type KeptOwner struct {
	Owner string
	// Since is when the request was created, in seconds. Pods that are older use up none of its room.
	Since int64
}

// Keepers find the request whose room a pod uses up.
type Keepers struct {
	keeps map[string]bool
	owned map[string][]keeper // ascending by the name of the request
}

type keeper struct {
	request string
	since   int64
}

// KeepersOf returns the requests that keep room on nodes.
func KeepersOf(kept map[string]*Kept) *Keepers {
	out := &Keepers{map[string]bool{}, map[string][]keeper{}}
	for _, k := range kept {
		for request := range k.Amounts {
			out.keeps[request] = true
		}
		for _, d := range k.Devices {
			out.keeps[d.Request] = true
		}
		for request, o := range k.Owners {
			if x := (keeper{request, o.Since}); !slices.Contains(out.owned[o.Owner], x) {
				out.owned[o.Owner] = append(out.owned[o.Owner], x)
			}
		}
	}
	for _, list := range out.owned {
		slices.SortFunc(list, func(a, b keeper) int { return strings.Compare(a.request, b.request) })
	}
	return out
}

// Of returns the request whose room a pod uses up, as the scheduler does: the one that it names, or the first one of
// its controller if that keeps nothing. It returns "" if there is none.
func (k *Keepers) Of(p *v1.Pod) string {
	request := apipod.Request(p)
	if request != "" && k.keeps[request] {
		return request
	}
	owned := ""
	if owner := apipod.Owner(p); owner != "" {
		at := slices.IndexFunc(k.owned[owner], func(x keeper) bool { return p.CreationTimestamp.Unix() >= x.since })
		if at >= 0 {
			owned = k.owned[owner][at].request
		}
	}
	return cmp.Or(owned, request)
}
