package desired

import "github.com/tenon-numa/tenon/node/kubelet"

// maxUnsettled is how many observations in a row may find a new contradiction in the state files. The kubelet writes
// a file for every step of an admission, so most contradictions last for milliseconds. One that lasts longer is
// accepted: while it stays the same, observations are published at once.
const maxUnsettled = 20

// files counts for how many observations the state files have contradicted themselves.
type files struct {
	unsettled int    // observations in a row with a contradiction that is not accepted
	accepted  string // the contradiction that is published unchanged, or empty
}

// observe receives the contradiction of an observation, "" for none. wait is true if the contradiction may end soon, so
// that nothing should be published now.
func (f files) observe(contradiction string) (next files, wait bool) {
	if contradiction != "" && contradiction != f.accepted && f.unsettled < maxUnsettled {
		return files{f.unsettled + 1, f.accepted}, true
	}
	return files{0, contradiction}, false
}

// maxStarting is how many observations in a row may find pods missing. With an observation every 50 ms that is 15
// seconds. In this time a kubelet that starts asks the API server for its Node and then for its pods
// (pkg/kubelet/config, apiserver.go).
const maxStarting = 300

// startup detects a kubelet that has just started. Such a kubelet lists no pod before it has received its pods from
// the API server. Then it admits them one by one, while its managers hold the resources of all of them from the
// start. A layout without the missing pods would show their resources as free, although they are not. A pod that has
// ended also looks like a missing one until its status is written.
type startup struct {
	missed   int  // observations in a row in which pods were missing
	complete bool // the kubelet has listed all pods since it started
}

// observe receives how many pods the kubelet lists, and how many are missing from its list. wait reports that the
// kubelet may still list them. again reports that another observation has to follow soon, because the kubelet changes
// no file when it lists them.
func (s startup) observe(listed, missing int) (next startup, wait, again bool) {
	if missing == 0 {
		return startup{complete: true}, false, false
	}
	next = startup{missed: s.missed + 1, complete: s.complete && listed > 0}
	switch {
	case next.missed > maxStarting:
		return next, false, false
	case next.complete:
		// The missing pods have ended, or are being admitted.
		return next, false, true
	}
	return next, true, true
}

// listedPods looks at the pods that have started and not ended according to the API server. listed is how many of
// them the kubelet lists. missing is how many it does not list although its managers hold resources for them.
func listedPods(pods Pods, seen kubelet.Observation) (listed, missing int) {
	names := map[string]bool{}
	for _, p := range seen.Listed {
		names[p.Namespace+"/"+p.Name] = true
	}
	for _, p := range pods {
		known := p.known()
		switch {
		case known.Done || !started(p):
		case names[p.Namespace+"/"+p.Name]:
			listed++
		case holdsAny(seen, known.StateUID):
			missing++
		}
	}
	return listed, missing
}

// holdsAny reports whether a state file has resources for the pod with the UID.
func holdsAny(seen kubelet.Observation, uid string) bool {
	return (seen.CPU != nil && len(seen.CPU.Containers[uid]) > 0) ||
		(seen.Memory != nil && len(seen.Memory.Containers[uid]) > 0) ||
		(seen.Devices != nil && len(seen.Devices.Containers[uid]) > 0)
}
