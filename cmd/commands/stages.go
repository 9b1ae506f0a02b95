package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/stage"
	"github.com/tenon-numa/tenon/core/defrag"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/core/whatif"
	"github.com/tenon-numa/tenon/face/cli"
	"github.com/tenon-numa/tenon/lab/machines"
	"github.com/tenon-numa/tenon/node/kubelet"
	"github.com/tenon-numa/tenon/node/kubelet/fields"
	"github.com/tenon-numa/tenon/ops/room"
)

// stages returns the functions that prepare simulations.
func stages() cli.Stages {
	return cli.Stages{Cluster: readCluster, Export: readExport, Machines: readMachines, Vary: vary, Ask: ask,
		Claims:  findClaims,
		Kubelet: readKubelet, Ignored: ignored,
		Moving: moving(readBudgets)}
}

// moving returns the functions for the command defrag. budgets is the first one of them.
func moving(budgets func(context.Context, cli.Kubeconfig, cli.Stage) (cli.Stage, error)) *cli.Moving {
	return &cli.Moving{Budgets: budgets, Movers: movers, Booked: booked, Released: released, Ending: ending,
		Leaving: leaving, Unrelated: unrelated}
}

// errNoStage is about a stage of another kind than those that this package makes.
var errNoStage = errors.New("pods of this source cannot be moved")

// readBudgets returns a stage that knows the disruption budgets of its cluster, if the user may read them.
func readBudgets(ctx context.Context, k cli.Kubeconfig, s cli.Stage) (cli.Stage, error) {
	r, err := reach(k)
	if err != nil {
		return nil, err
	}
	reader, err := r.reader()
	if err != nil {
		return nil, err
	}
	return budgetsBy(reader)(ctx, k, s)
}

func movers(ctx context.Context, s cli.Stage, b defrag.Bounds, at time.Time) (defrag.Field, error) {
	known, ok := s.(*stage.Stage)
	if !ok {
		return defrag.Field{}, errNoStage
	}
	return known.Movers(ctx, b, at)
}

// bookings returns the requests that keep places for the successors of pods, by UID of the pod.
func bookings(s *stage.Stage, uids []string) map[string]string {
	of := map[string]bool{}
	for _, uid := range uids {
		of[uid] = true
	}
	out := map[string]string{}
	for _, p := range s.Pods() {
		if m := p.Pod(); of[string(m.UID)] {
			out[string(m.UID)] = m.Namespace + "/" + room.BookingName(m.UID)
		}
	}
	return out
}

// booked returns the nodes where places are kept for the successors of pods.
func booked(s cli.Stage, uids []string) map[string]string {
	out := map[string]string{}
	known, ok := s.(*stage.Stage)
	if !ok {
		return out
	}
	for uid, request := range bookings(known, uids) {
		for _, n := range known.Nodes() {
			if n.Kept[request] != nil {
				out[uid] = n.Name
			}
		}
	}
	return out
}

// released returns a stage as if nothing were kept for the successors of pods.
func released(s cli.Stage, uids []string) cli.Stage {
	known, ok := s.(*stage.Stage)
	if !ok {
		return s
	}
	requests := map[string]bool{}
	for _, request := range bookings(known, uids) {
		requests[request] = true
	}
	return known.Releasing(requests)
}

func ending(s cli.Stage) (cli.Stage, int) {
	known, ok := s.(*stage.Stage)
	if !ok {
		return s, 0
	}
	after, pods := known.Ending()
	return after, pods
}

func unrelated(s cli.Stage, wants []*whatif.Want) bool {
	known, ok := s.(*stage.Stage)
	return ok && known.Unrelated(wants)
}

// leaving returns a stage without some pods, and what their successors want there.
func leaving(s cli.Stage, uids []string) (cli.Stage, []*whatif.Want, error) {
	known, ok := s.(*stage.Stage)
	if !ok {
		return nil, nil, errNoStage
	}
	gone := map[string]bool{}
	for _, uid := range uids {
		gone[uid] = true
	}
	after, wants := known.Leaving(gone), map[string]*whatif.Want{}
	for p := range kube.EachPod(known.Pods()) {
		if !gone[string(p.UID)] {
			continue
		}
		w, err := after.Successor(p)
		if err != nil {
			return nil, nil, err
		}
		wants[string(p.UID)] = w.Want
	}
	out := make([]*whatif.Want, 0, len(uids))
	for _, uid := range uids {
		if wants[uid] == nil {
			return nil, nil, fmt.Errorf("pod %s is not there", uid)
		}
		out = append(out, wants[uid])
	}
	return after, out, nil
}

// vary returns a stage with the changes of a variation, and the names of the nodes whose rules have changed. It
// returns an error if a kubelet would not start with its changed rules.
func vary(s cli.Stage, v whatif.Variation) (cli.Stage, []string, error) {
	out, altered, err := s.(*stage.Stage).Vary(v)
	if err != nil {
		return nil, nil, err
	}
	if v.Alter == nil {
		return out, altered, nil
	}
	before := map[string]*state.Node{}
	for _, n := range s.Nodes() {
		before[n.Name] = n.State
	}
	for _, n := range out.Nodes() {
		if !slices.Contains(altered, n.Name) || n.State.Machine == nil {
			continue
		}
		if why := newFault(before[n.Name], n.State); why != "" {
			return nil, nil, fmt.Errorf("node %s: no kubelet works with this configuration: %s", n.Name, why)
		}
	}
	return out, altered, nil
}

// newFault returns why a kubelet would not start with changed rules; "" if it would. It ignores faults that the
// present rules have, too: the kubelet runs with these rules, so some setting is not known here, such as a
// reservation by a flag. before may be nil.
func newFault(before, after *state.Node) string {
	var known []place.StartFault
	if before != nil && before.Machine != nil {
		known = before.Rules.StartFaults(before.Machine, place.Startup{})
	}
	for _, f := range after.Rules.StartFaults(after.Machine, place.Startup{}) {
		if !f.Gate && !slices.Contains(known, f) { // the enabled gates are not known here
			return f.Text
		}
	}
	return ""
}

// catalogue returns the text of the machine with this name in the catalogue, and the KubeletConfiguration of its
// nodes; false if there is no such machine.
func catalogue(name string) (machine, config []byte, ok bool) {
	if !slices.Contains(machines.List(), name) {
		return nil, nil, false
	}
	m, err := machines.Load(name)
	if err != nil {
		return nil, nil, false
	}
	return []byte(m.Text), []byte(m.YAML), true
}

// readCluster returns the stage of the cluster of a kubeconfig, the nodes that could not be read, and the namespace.
func readCluster(ctx context.Context, k cli.Kubeconfig) (cli.Stage, []document.Problem, string, error) {
	r, err := reach(k)
	if err != nil {
		return nil, nil, "", err
	}
	reader, err := r.reader()
	if err != nil {
		return nil, nil, "", err
	}
	s, problems, err := stage.Read(ctx, reader)
	if err != nil {
		return nil, nil, "", err
	}
	return s, problems, r.namespace, nil
}

// ask returns a stage that sends its pods to the API server as dry runs, so that admission completes them. A stage of
// a bundle is returned unchanged.
func ask(ctx context.Context, k cli.Kubeconfig, s cli.Stage) (cli.Stage, error) {
	known, ok := s.(*stage.Stage)
	if !ok || k.Bundle() != "" {
		return s, nil
	}
	r, err := reach(k)
	if err != nil {
		return nil, err
	}
	trial, err := kube.NewTrial(r.cfg)
	if err != nil {
		return nil, err
	}
	return known.Asking(ctx, trial), nil
}

// findClaims returns a stage that finds the claims of pods of files, in the files and in the cluster of a kubeconfig.
func findClaims(ctx context.Context, k cli.Kubeconfig, s cli.Stage, f cli.ClaimFiles) (cli.Stage, error) {
	known, ok := s.(*stage.Stage)
	if !ok {
		return s, nil
	}
	if f.Alone {
		return known.Finding(ctx, nil, f.Namespace, f.Files), nil
	}
	r, err := reach(k)
	if err != nil {
		return nil, err
	}
	reader, err := r.reader()
	if err != nil {
		return nil, err
	}
	return known.Finding(ctx, reader, f.Namespace, f.Files), nil
}

func readExport(data []byte) (cli.Stage, []document.Problem, error) {
	s, problems, err := stage.Export(data)
	if err != nil {
		return nil, nil, err
	}
	return s, problems, nil
}

func readMachines(list []whatif.Machine) (cli.Stage, error) {
	s, err := stage.Machines(list)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// readKubelet returns the rules of a KubeletConfiguration on a machine, and the amounts that the node then has for
// pods. It returns an error if no kubelet starts with the configuration.
func readKubelet(config []byte, m *topo.Machine) (place.Rules, whatif.Amounts, error) {
	s, err := kubelet.SetUp(config, m, place.DefaultRelease)
	if err != nil {
		return place.Rules{}, nil, fmt.Errorf("no kubelet of %s works with it: %w", place.DefaultRelease, err)
	}
	return s.Rules, s.Allocatable, nil
}

// ignored returns the fields in a KubeletConfiguration that a kubelet would ignore.
func ignored(config []byte) (out []string) {
	for _, f := range fields.Of(config) {
		out = append(out, f.String())
	}
	return out
}
