package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/printable"
	"github.com/tenon-numa/tenon/core/whatif"
)

// This file changes the cluster of a simulation: it adds nodes, sets other policies, and finds the least number of
// nodes.

// policies are the topology manager policies.
var policies = []string{"none", "best-effort", "restricted", "single-numa-node"}

// leastText is the value of COPIES that asks for the least number of nodes. Until that number is found, Copies is 0.
const leastText = "min"

// maxNeeded is the number of nodes at which the search for the least number ends.
const maxNeeded = 4096

// inputs are the data that a simulation reads. They are read once, even if the pods are placed several times.
type inputs struct {
	stage    Stage // nil if there are only described machines
	problems []document.Problem
	source   string
	machines []whatif.Machine // of --machines, or of --add
	twins    []whatif.Twin
	files    []workloadFile
}

type workloadFile struct {
	name string
	data []byte
	// found is set if the user gave the directory of the file. Such a file need not have pods.
	found bool
}

// workloads reads a file for a stage. A file that was found in a directory may have no pods.
func (f workloadFile) workloads(s Stage, namespace string) ([]*whatif.Workload, whatif.Left, error) {
	all, left, err := s.Workloads(f.data, namespace)
	switch {
	case (f.found || len(left.Groups) > 0) && errors.Is(err, whatif.ErrNoPods):
		return nil, left, nil
	case err != nil:
		return nil, left, fmt.Errorf("workload file %s: %w", f.name, err)
	}
	return all, left, nil
}

// errNoWorkloads is the error about directories whose files have no pods that can be judged.
var errNoWorkloads = fmt.Errorf("the files of -f have %w", whatif.ErrNoPods)

// need is the number of nodes of a machine that the pods need.
type need struct {
	Machine string `json:"machine"`
	// Nodes is the smallest number of nodes on which all pods have a place. If Enough is false, it is a number beyond
	// which more nodes do not help, or at least maxNeeded.
	Nodes int `json:"nodes"`
	// Enough is set if all pods have a place on these nodes.
	Enough bool `json:"enough"`
}

func (n need) text() string {
	switch {
	case !n.Enough && n.Nodes >= maxNeeded:
		return fmt.Sprintf("%s of machine %s are not enough.", nodesText(n.Nodes), n.Machine)
	case !n.Enough:
		return fmt.Sprintf("More nodes of machine %s give no more of them a place.", n.Machine)
	}
	return fmt.Sprintf("It takes %s of machine %s.", nodesText(n.Nodes), n.Machine)
}

// counts returns the name of the machine or copied node whose number of nodes can be varied, and a pointer to this
// number. The pointer is nil if there is not exactly one machine or copied node.
func (s *inputs) counts() (name string, count *int) {
	if len(s.machines)+len(s.twins) != 1 {
		return "", nil
	}
	if len(s.machines) == 1 {
		return s.machines[0].Name, &s.machines[0].Copies
	}
	return s.twins[0].Node, &s.twins[0].Copies
}

// set returns a copy of the inputs, with n as the number that counts points to.
func (s *inputs) set(n int) *inputs {
	out := *s
	out.machines, out.twins = slices.Clone(s.machines), slices.Clone(s.twins)
	if _, count := out.counts(); count != nil {
		*count = n
	}
	return &out
}

// least returns the least number of nodes of the one machine with which all pods have a place. It doubles the number
// until all pods have a place, and then bisects. It gives up when twice as many nodes leave as many pods without a
// place, or at maxNeeded.
func (a *app) least(c *cobra.Command, f simulateFlags, s *inputs) (need, error) {
	name, _ := s.counts()
	unplaced := func(n int) (int, error) {
		sim, err := a.attempt(c, f, s.set(n), io.Discard)
		if err != nil {
			return 0, err
		}
		return sim.lacking(), nil
	}
	// low nodes are not enough. before is the number of pods without a place on low nodes; -1 if that is not known.
	low, high, before := 0, 1, -1
	if s.stage != nil {
		now, err := unplaced(0)
		if err != nil || now == 0 {
			return need{name, 0, true}, err
		}
		before = now
	}
	for ; ; high *= 2 {
		now, err := unplaced(high)
		if err != nil {
			return need{}, err
		}
		if now == 0 {
			break
		}
		switch {
		case now == before: // more than low nodes do not help
			return need{name, low, false}, nil
		case high >= maxNeeded:
			return need{name, high, false}, nil
		}
		low, before = high, now
	}
	for low+1 < high {
		mid := (low + high) / 2
		now, err := unplaced(mid)
		if err != nil {
			return need{}, err
		}
		if now == 0 {
			high = mid
		} else {
			low = mid
		}
	}
	return need{name, high, true}, nil
}

// vary returns the stage that the inputs and the flags describe: described machines alone, or a cluster with changes.
// It also returns the names of the nodes whose rules have changed. It leaves out machines with 0 copies.
func (a *app) vary(f simulateFlags, s *inputs) (Stage, []string, error) {
	from := a.setup.Stages
	present := slices.DeleteFunc(slices.Clone(s.machines), func(m whatif.Machine) bool { return m.Copies == 0 })
	if s.stage == nil {
		out, err := from.Machines(present)
		return out, nil, err
	}
	alter, err := f.alter()
	if err != nil {
		return nil, nil, err
	}
	twins := slices.DeleteFunc(slices.Clone(s.twins), func(t whatif.Twin) bool { return t.Copies == 0 })
	if len(present)+len(twins) == 0 && alter == nil {
		return s.stage, nil, nil
	}
	if from.Vary == nil {
		return nil, nil, errors.New("the cluster cannot be varied here")
	}
	out, altered, err := from.Vary(s.stage,
		whatif.Variation{Add: present, Twins: twins, Selector: f.selector, Alter: alter})
	if err != nil {
		return nil, nil, fmt.Errorf("change the cluster: %w", err)
	}
	return out, altered, nil
}

// alter returns the function that applies --policy and --option to the rules of a node; nil if neither is given.
func (f simulateFlags) alter() (func(place.Rules) (place.Rules, error), error) {
	if f.newPolicy == "" && len(f.options) == 0 {
		if f.selector != "" {
			return nil, errors.New("--selector needs --policy or --option")
		}
		return nil, nil
	}
	var changes []func(*place.Rules) error
	if f.newPolicy != "" {
		p, ok := place.ParsePolicy(f.newPolicy)
		if !ok {
			return nil, fmt.Errorf("--policy %q is not known: want one of none, best-effort, restricted, single-numa-node",
				f.newPolicy)
		}
		changes = append(changes, func(r *place.Rules) error { r.Topology.Policy = p; return nil })
	}
	for _, o := range f.options {
		change, err := optionChange(o)
		if err != nil {
			return nil, err
		}
		changes = append(changes, change)
	}
	return func(r place.Rules) (place.Rules, error) {
		for _, change := range changes {
			if err := change(&r); err != nil {
				return r, err
			}
		}
		return r, nil
	}, nil
}

// optionChange parses NAME[=VALUE], where NAME is an option of the topology or CPU manager, or scope. It returns the
// function that sets the option. For an option of the CPU manager, that function returns an error under policy none.
func optionChange(text string) (func(*place.Rules) error, error) {
	name, value, given := strings.Cut(text, "=")
	switch name {
	case "scope":
		scope, ok := place.ParseScope(value)
		if !ok {
			return nil, fmt.Errorf("--option %q: want scope=container or scope=pod", text)
		}
		return func(r *place.Rules) error { r.Topology.Scope = scope; return nil }, nil
	case "max-allowable-numa-nodes":
		n, err := strconv.Atoi(value)
		if err != nil || n < 8 || n > 64 {
			return nil, fmt.Errorf("--option %q: want %s=8..64", text, name)
		}
		return func(r *place.Rules) error { r.Topology.MaxNUMAs = n; return nil }, nil
	}
	on := true
	if given {
		var err error
		if on, err = strconv.ParseBool(value); err != nil {
			return nil, fmt.Errorf("--option %q: want %s, %s=true or %s=false", text, name, name, name)
		}
	}
	if name == "prefer-closest-numa-nodes" {
		return func(r *place.Rules) error { r.Topology.PreferClosest = on; return nil }, nil
	}
	field := cpuOptions[name]
	if field == nil {
		if near := printable.Nearest(name, optionNames()); near != "" {
			return nil, fmt.Errorf("--option %q is not known; %s may be meant", text, near)
		}
		return nil, fmt.Errorf("--option %q is not known: want one of %s", text, strings.Join(optionNames(), ", "))
	}
	return func(r *place.Rules) error {
		if !r.CPU.Static {
			return fmt.Errorf("option %s needs the CPU manager policy static", name)
		}
		*field(&r.CPU) = on
		return nil
	}, nil
}

// cpuOptions are the options of the static CPU manager: by name, a function that returns the field of the rules.
var cpuOptions = map[string]func(*place.CPURules) *bool{
	"full-pcpus-only":                  func(r *place.CPURules) *bool { return &r.FullPCPUsOnly },
	"distribute-cpus-across-numa":      func(r *place.CPURules) *bool { return &r.DistributeAcrossNUMA },
	"align-by-socket":                  func(r *place.CPURules) *bool { return &r.AlignBySocket },
	"distribute-cpus-across-cores":     func(r *place.CPURules) *bool { return &r.DistributeAcrossCores },
	"strict-cpu-reservation":           func(r *place.CPURules) *bool { return &r.StrictReservation },
	"prefer-align-cpus-by-uncorecache": func(r *place.CPURules) *bool { return &r.PreferAlignByUncoreCaches },
}

func optionNames() []string {
	out := []string{"max-allowable-numa-nodes", "prefer-closest-numa-nodes", "scope"}
	for name := range cpuOptions {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// twin parses node/NAME[=COUNT]; ok is false for any other text.
func twin(arg string) (out whatif.Twin, ok bool, err error) {
	name, ok := strings.CutPrefix(arg, "node/")
	if !ok {
		return out, false, nil
	}
	out.Node, out.Copies, err = machineCopies(name)
	return out, true, err
}
