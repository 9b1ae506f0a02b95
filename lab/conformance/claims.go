package conformance

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/lab/conformance/judge"
)

// The areas of cases that count for no level.
const (
	AreaClaims = "claims" // devices that pods get by claims (DRA)
	AreaGangs  = "gangs"  // pods that start together or not at all
)

// Areas returns the areas.
func Areas() []string { return []string{AreaClaims, AreaGangs} }

// maxClaimable bounds the devices of one class on one node.
const maxClaimable = 16

// Devices returns the devices that pods on the node get by claims, in ascending order of class, and in the order of the
// case within a class. A NUMA node of -1 is not published.
func (n Node) Devices(m *topo.Machine) (out []judge.Device, err error) {
	for _, class := range slices.Sorted(maps.Keys(n.Claimable)) {
		if len(n.Claimable[class]) > maxClaimable {
			return nil, fmt.Errorf("node %s: %d devices of class %s, at most %d", n.Name, len(n.Claimable[class]), class,
				maxClaimable)
		}
		for i, id := range n.Claimable[class] {
			d := judge.Device{Class: class, Name: fmt.Sprintf("%s-%d", class, i)}
			if id >= 0 {
				if d.NUMAs, err = m.MaskOf(idset.NUMA(id)); err != nil {
					return nil, fmt.Errorf("node %s: device %s: %w", n.Name, d.Name, err)
				}
			}
			out = append(out, d)
		}
	}
	return out, nil
}

// checkClaims checks what a set of pods wants by claims.
func (s *PodSet) checkClaims(c *Case) error {
	wanted, err := judge.WantedBy(&v1.Pod{Spec: s.Spec})
	if err != nil || len(wanted) == 0 {
		return err
	}
	if s.Node != "" {
		return errors.New("a foreign pod cannot have claims: no scheduler gives it devices")
	}
	if s.Gang != "" {
		return errors.New("claims of pods of a gang are not supported")
	}
	for _, w := range wanted {
		if w.Container != wanted[0].Container {
			return errors.New("claims of several containers of a pod are not supported")
		}
		if !slices.ContainsFunc(c.Nodes, func(n Node) bool { return len(n.Claimable[w.Class]) > 0 }) {
			return fmt.Errorf("no node has devices of class %q", w.Class)
		}
	}
	return nil
}

// Templates returns the names of the claim templates that the pods of a case use, CLASS-COUNT each, with their parts.
func (c *Case) Templates() map[string]judge.Wanted {
	out := map[string]judge.Wanted{}
	for _, s := range c.Steps {
		for _, set := range slices.Concat(s.Create, s.Burst) {
			wanted, _ := judge.WantedBy(&v1.Pod{Spec: set.Spec}) // Parse has checked it
			for _, w := range wanted {
				out[fmt.Sprintf("%s-%d", w.Class, w.Count)] = w
			}
		}
	}
	return out
}
