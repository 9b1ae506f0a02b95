package agent

import "github.com/tenon-numa/tenon/node/kubelet"

// mostStarting is how many looks in a row may find pods missing. At a look every 50 ms it is 15 seconds: a
// kubelet that starts asks the API server for its Node and then for its pods (pkg/kubelet/config, apiserver.go).
const mostStarting = 300

// starting reports whether the kubelet has just started: it lists no pod before it has heard of its pods
// from the API server, then takes up one after the other, and its managers keep all the while what the pods
// hold. Nothing must be published before it has taken up all, or the node would seem to have room. A pod
// that has ended looks alike until its status is written.
func (k *look) starting(seen kubelet.Observation) bool {
	there, missing := k.takenUp(seen)
	if missing == 0 {
		k.missed, k.whole = 0, true
		return false
	}
	k.whole = k.whole && there > 0
	if k.missed++; k.missed > mostStarting {
		return false
	}
	if k.whole {
		// Some pod has ended, or is being admitted: no file changes by what comes of it.
		k.pods.changed()
		return false
	}
	return true // it takes up one after the other
}

// takenUp counts the pods that the API server says to run: those that the kubelet lists, and those that it
// does not list although its managers hold something for them.
func (k *look) takenUp(seen kubelet.Observation) (there, missing int) {
	listed := map[string]bool{}
	for _, p := range seen.Listed {
		listed[p.Namespace+"/"+p.Name] = true
	}
	for _, p := range k.pods.list() {
		known, ok := k.pods.Pod(p.Namespace, p.Name)
		switch {
		case !ok || known.Done || p.Status.StartTime == nil:
		case listed[p.Namespace+"/"+p.Name]:
			there++
		case holdsAny(seen, known.StateUID):
			missing++
		}
	}
	return there, missing
}

func holdsAny(seen kubelet.Observation, uid string) bool {
	return (seen.CPU != nil && len(seen.CPU.Containers[uid]) > 0) ||
		(seen.Memory != nil && len(seen.Memory.Containers[uid]) > 0) ||
		(seen.Devices != nil && len(seen.Devices.Containers[uid]) > 0)
}
