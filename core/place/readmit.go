package place

import "slices"

// This file finds the pods that a restarted kubelet refuses because their statuses and their holdings disagree.

// Statuses is the part of an admitted pod's container statuses that decides whether a restarted kubelet admits the pod
// again. The lists have names of containers; ordinary init containers are in none of them. Most pods have empty lists.
type Statuses struct {
	// Stopped are containers that do not run: they wait, or have ended.
	Stopped []string
	// Unsized are the containers in Stopped whose status has no allocatedResources: they were never created, or the
	// kubelet does not write the field.
	Unsized []string
	// Resized are containers that hold another number of CPUs than the kubelet has allocated to them.
	Resized []string
}

// Empty reports whether no container is stopped or resized, so that the statuses endanger nothing.
func (s *Statuses) Empty() bool { return len(s.Stopped)+len(s.Resized) == 0 }

// Equal reports whether both have the same lists, in the same order.
func (s *Statuses) Equal(o *Statuses) bool {
	return slices.Equal(s.Stopped, o.Stopped) && slices.Equal(s.Unsized, o.Unsized) &&
		slices.Equal(s.Resized, o.Resized)
}

// Readmitted is a pod that a kubelet has to admit again when it restarts.
type Readmitted struct {
	Pod      string // "namespace/name"
	Holdings []Holding
	Statuses Statuses
}

// podHazards returns the hazards that follow from the statuses of pods. None is sure: a status may change before the
// restart.
func (r *Rules) podHazards(pods []Readmitted) (out []Hazard) {
	if len(pods) == 0 {
		return nil
	}
	aligned := r.Arbiter == ByKubelet && r.CPU.Static && policyTable[r.Topology.Policy].preferred
	for _, k := range []struct {
		code HazardCode
		on   bool
		ends func(*Readmitted) bool
	}{
		{StoppedDevices, true, (*Readmitted).waitsWithDevices},
		{StatusReadmission, aligned && r.Topology.Scope == PerPod && r.Release.readsStatuses(),
			(*Readmitted).partlySized},
		{ResizeReadmission, aligned && r.Release.resizesApart(), (*Readmitted).resized},
	} {
		var names []string
		for i := range pods {
			if k.on && k.ends(&pods[i]) {
				names = append(names, pods[i].Pod)
			}
		}
		if slices.Sort(names); len(names) > 0 {
			out = append(out, Hazard{Code: k.code, Pods: names})
		}
	}
	return out
}

// waitsWithDevices reports whether a container that does not run holds devices.
func (p *Readmitted) waitsWithDevices() bool {
	return slices.ContainsFunc(p.Holdings, func(h Holding) bool {
		return len(h.Devices) > 0 && slices.Contains(p.Statuses.Stopped, h.Container)
	})
}

// partlySized reports whether the status of one container with CPUs has no CPUs, and the status of another one has
// some.
func (p *Readmitted) partlySized() bool {
	with := func(unsized bool) bool {
		return slices.ContainsFunc(p.Holdings, func(h Holding) bool {
			return !h.CPUs.Empty() && slices.Contains(p.Statuses.Unsized, h.Container) == unsized
		})
	}
	return with(true) && with(false)
}

func (p *Readmitted) resized() bool { return len(p.Statuses.Resized) > 0 }
