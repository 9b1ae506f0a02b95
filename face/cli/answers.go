package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/score"
)

// This file has the answers of the commands as functions, for servers: the same documents by the same judgement.

type (
	// Explanation is what "explain pod -o json" writes.
	Explanation = explanationDocument
	// Simulation is what "simulate -o json" writes.
	Simulation = simulationDocument
	// Capacity is what "top -o json" writes.
	Capacity = capacity
)

// StageOf is the nodes and pods of a cluster, and the nodes of which nothing is known.
type StageOf func(ctx context.Context) (Stage, []document.Problem, error)

// Explain explains a pod. Where there is none, the error is the API server's NotFound.
func Explain(ctx context.Context, c Cluster, namespace, name string) (Explanation, error) {
	a := &app{setup: Setup{Connect: func(Kubeconfig) (Cluster, string, error) { return c, namespace, nil }}}
	e, err := a.explain(ctx, namespace+"/"+name)
	if err != nil {
		return Explanation{}, err
	}
	return e.document(), nil
}

// Request is what a simulation or a check is asked.
type Request struct {
	// Manifest is a workload file. Objects without a namespace get Namespace.
	Manifest  []byte
	Namespace string
	// Count is the number of pods of each workload: 0 for what the workload says, -1 for as many as fit.
	Count int
	// Without are nodes to take away; with Pending the pods that wait are placed, too.
	Without []string
	Pending bool
}

// ManifestError says what is wrong with a manifest.
type ManifestError struct{ Err error }

func (e *ManifestError) Error() string { return e.Err.Error() }

// Unwrap returns the error of the reader of manifests.
func (e *ManifestError) Unwrap() error { return e.Err }

// Simulate places pods as the command does. An error of the manifest is a [ManifestError].
func Simulate(ctx context.Context, from StageOf, r Request) (Simulation, error) {
	stage, problems, err := from(ctx)
	if err != nil {
		return Simulation{}, fmt.Errorf("read the cluster: %w", err)
	}
	a, c := &app{}, &cobra.Command{}
	a.kube.chosen.Context.Namespace = r.Namespace
	c.SetContext(ctx)
	c.SetIn(bytes.NewReader(r.Manifest))
	c.SetErr(io.Discard) // what nobody judges is in the document
	f := simulateFlags{without: r.Without, pending: r.Pending, strategy: score.Tenon.String(), unknown: "Allow",
		coarse: "Allow", drawing: mapFlags{color: "auto"}}
	if len(r.Manifest) > 0 {
		if _, _, err := stage.Workloads(r.Manifest, r.Namespace); err != nil {
			return Simulation{}, &ManifestError{err}
		}
		f.files = []string{"-"}
	}
	if f.count = strconv.Itoa(r.Count); r.Count < 0 {
		f.count = "max"
	} else if r.Count == 0 {
		f.count = ""
	}
	rules, count, err := f.check()
	if err != nil {
		return Simulation{}, err
	}
	s := &simulation{stage: stage, problems: sortedProblems(problems), source: "the cluster", rules: rules,
		most: count < 0}
	tasks, err := a.tasks(c, f, s, count)
	if err != nil {
		return Simulation{}, err
	}
	if err := s.run(tasks, progressOn(ctx, io.Discard)); err != nil {
		return Simulation{}, err
	}
	return s.document(), nil
}

// ManifestCheck says of each workload of a manifest where its next pod fits, and why not elsewhere.
type ManifestCheck struct {
	Kind string        `json:"kind"` // "ManifestCheck"
	Pods []Explanation `json:"pods"`
	// NoPods names the objects that have no pods as far as is known.
	NoPods []string `json:"noPods"`
}

// maxChecked bounds the workloads of one check; each is judged on every node.
const maxChecked = 32

// Check judges the pods of a manifest on every node, each by itself. An error of the manifest is a [ManifestError].
func Check(ctx context.Context, from StageOf, r Request) (ManifestCheck, error) {
	stage, problems, err := from(ctx)
	if err != nil {
		return ManifestCheck{}, fmt.Errorf("read the cluster: %w", err)
	}
	all, left, err := stage.Workloads(r.Manifest, r.Namespace)
	if err == nil && len(all) > maxChecked {
		err = fmt.Errorf("%d workloads, at most %d", len(all), maxChecked)
	}
	if err != nil {
		return ManifestCheck{}, &ManifestError{err}
	}
	var states []*ledger.Node
	for _, n := range stage.Nodes() {
		states = append(states, n.State)
	}
	out := ManifestCheck{Kind: "ManifestCheck", Pods: []Explanation{}, NoPods: append([]string{}, left...)}
	for turn, w := range all {
		if err := ctx.Err(); err != nil {
			return ManifestCheck{}, err
		}
		pod := PodView{ID: w.ID(turn, 0), Pod: w.Want.Pod, Demand: w.Want.Demand, Needs: w.Want.Needs,
			Unjudged: w.Unjudged, Around: map[string]Around{}}
		for i, n := range stage.Nodes() {
			pod.Around[n.Name] = Around{Node: n, Barred: w.Want.Barred(i)}
		}
		out.Pods = append(out.Pods, newExplanation(pod, states, problems).document())
	}
	return out, nil
}

// Fitting counts how many more pods of the given or of the usual shapes fit. Shapes are as for "top --shape".
func Fitting(ctx context.Context, from StageOf, shapes []string) (*Capacity, error) {
	a := &app{setup: Setup{Stages: Stages{Cluster: func(ctx context.Context, _ Kubeconfig) (Stage, []document.Problem,
		string, error) {
		s, problems, err := from(ctx)
		return s, problems, "", err
	}}}}
	return a.top(ctx, topFlags{shapes: shapes}, nil)
}
