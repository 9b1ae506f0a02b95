package kubelet_test

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/place/scenario"
	lab "github.com/tenon-numa/tenon/lab/kubelet"
)

// Restarts: managers are created again on the files of earlier ones, and admit their pods before any device plugin has
// registered. The result is compared with RestartHazards.

// errStopped ends a trial: the managers do not start again, as predicted.
var errStopped = fmt.Errorf("%w: they do not start again", errOver)

func (t *trial) restart() error {
	t.real.Collect() // predictions are about the present pods
	t.unnoticed, t.mingled = false, false
	u, err := t.usage()
	if err != nil {
		return err
	}
	hazards := u.RestartHazards()
	// A container had a reserved CPU on a machine with unequal cores, and has ended. Holdings do not show it.
	returned := u.Rules.CPU.StrictReservation && t.freeCPUs().AndLen(u.Rules.CPU.Reserved) > 0
	if err := t.real.Stop(); err != nil {
		return err
	}
	ctx := context.Background()
	real, settle, err := t.by.reopen(ctx, t.dir, t.node.Machine, t.config, t.active, t.found())
	if err != nil && returned {
		t.count.restarts = counted(t.count.restarts, "did not start, as reserved CPUs were given out and came back", 1)
		return errStopped
	}
	if err != nil && foretell(hazards, place.PodLevelReadmission) { // the files may not be as the managers want them
		t.count.restarts = counted(t.count.restarts, "pods as a whole: did not start", 1)
		return errStopped
	}
	if err != nil {
		if !slices.ContainsFunc(hazards, func(h place.Hazard) bool { return h.Stops }) {
			return differs(aboutRestart, "the managers do not start: %v; the hazards are %v", err, hazards)
		}
		t.count.restarts = counted(t.count.restarts, "did not start, as foretold", 1)
		return errStopped
	}
	if slices.ContainsFunc(hazards, func(h place.Hazard) bool { return h.Stops && h.Sure }) {
		return differs(aboutRestart, "the managers start; the hazards are %v", hazards)
	}
	t.real = real
	if foretell(hazards, place.PodLevelReadmission) {
		return t.readmitWholes(u)
	}
	gone, err := t.readmit(hazards)
	if err != nil {
		return err
	}
	if err := errors.Join(settle(), t.connect(ctx)); err != nil {
		return err
	}
	t.real.Announce(t.node.Machine)
	clear(t.stranded)
	t.settle(gone)
	return nil
}

// errWholes ends a trial: what managers have given twice does not show in what pods hold.
var errWholes = fmt.Errorf("%w: they were restarted with pods that hold something as a whole", errOver)

// readmitWholes has the managers admit their former pods, among them some that hold something as a whole. What then
// happens is counted only.
func (t *trial) readmitWholes(before *place.Usage) error {
	outcome := "pods as a whole: kept"
	for _, pod := range t.pods {
		got, ok := t.decide(pod, patience)
		if !ok {
			return fmt.Errorf("pod %s: the managers do not answer within %v", pod.Name, patience)
		}
		if !got.Admit {
			outcome = "pods as a whole: some pod ended"
		}
	}
	if free := t.freeCPUs(); free.Minus(before.Rules.CPU.Reserved).Len() < before.FreeCPUs().Len() {
		outcome = "pods as a whole: CPUs are given once more"
	}
	t.count.restarts = counted(t.count.restarts, outcome, 1)
	return errWholes
}

// found lists the containers that a restarted kubelet finds: init containers of started pods have ended.
func (t *trial) found() (out []lab.Container) {
	for _, pod := range t.pods {
		p := t.specs[pod.Name]
		if hasInits(p) && !t.started[pod.Name] {
			continue // it has not started
		}
		for _, c := range p.Containers {
			out = append(out, lab.Container{Pod: string(pod.UID), Name: c.Name, Running: c.Kind != place.Init})
		}
	}
	return out
}

// readmit has the managers admit their former pods, and returns the names of those that they refuse.
func (t *trial) readmit(hazards []place.Hazard) (gone []string, err error) {
	smt := 0
	for _, pod := range t.pods {
		got, ok := t.decide(pod, patience)
		if !ok {
			return nil, fmt.Errorf("pod %s: the managers do not answer within %v", pod.Name, patience)
		}
		outcome := "kept"
		if !got.Admit {
			gone = append(gone, pod.Name)
			outcome = "ended with " + got.Reason
			inits := hasInits(t.specs[pod.Name])
			apart := got.Reason == string(place.TopologyAffinityError) && foretell(hazards, place.TopologyReadmission)
			if got.Reason == string(place.SMTAlignmentError) {
				smt++
			} else if !inits && !apart {
				return nil, differs(aboutRestart, "pod %s, which has no init containers, ends with %s (%s)",
					pod.Name, got.Reason, got.Message)
			}
		}
		t.count.restarts = counted(t.count.restarts, "pods "+outcome, 1)
	}
	// A pod that would end because of its CPUs may end because of its devices first.
	if foretold := foretell(hazards, place.SMTReadmission); foretold && len(gone) == 0 || !foretold && smt > 0 {
		return nil, differs(aboutRestart, "%d pods end with SMTAlignmentError; the hazards are %v", smt, hazards)
	}
	t.count.restarts = counted(t.count.restarts, "restarts", 1)
	return gone, nil
}

func hasInits(p *place.Pod) bool {
	return slices.ContainsFunc(p.Containers, func(c place.Container) bool { return c.Kind == place.Init })
}

func foretell(hs []place.Hazard, code place.HazardCode) bool {
	return slices.ContainsFunc(hs, func(h place.Hazard) bool { return h.Code == code })
}

// settle ends the refused pods, and reads the holdings of the others.
func (t *trial) settle(gone []string) {
	t.node.Pods = slices.Clone(t.node.Pods)
	for _, name := range gone {
		t.drop(name)
		t.node.Pods = slices.DeleteFunc(t.node.Pods, func(p scenario.Held) bool { return p.Name == name })
	}
	for i := range t.node.Pods {
		name := t.node.Pods[i].Name
		t.node.Pods[i].Holdings = t.seen(t.pod(name), t.specs[name])
	}
}
