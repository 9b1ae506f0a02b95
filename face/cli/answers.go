package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/ledger"
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

// Simulate runs the command. An error of the manifest is a [ManifestError].
func Simulate(ctx context.Context, from StageOf, r Request) (Simulation, error) {
	stage, problems, err := from(ctx)
	if err != nil {
		return Simulation{}, fmt.Errorf("read the cluster: %w", err)
	}
	args := []string{"simulate", "-o", "json", "-n", r.Namespace}
	if len(r.Manifest) > 0 {
		if _, _, err := stage.Workloads(r.Manifest, r.Namespace); err != nil {
			return Simulation{}, &ManifestError{err}
		}
		args = append(args, "-f", "-")
	}
	if r.Count < 0 {
		args = append(args, "--count", "max")
	} else if r.Count > 0 {
		args = append(args, "--count", strconv.Itoa(r.Count))
	}
	for _, node := range r.Without {
		args = append(args, "--without", node)
	}
	if r.Pending {
		args = append(args, "--pending")
	}
	var out bytes.Buffer
	root := newRoot(Setup{Stages: Stages{Cluster: func(context.Context, Kubeconfig) (Stage, []document.Problem, string,
		error) {
		return stage, problems, r.Namespace, nil
	}}})
	root.SetArgs(args)
	root.SetIn(bytes.NewReader(r.Manifest))
	root.SetOut(&out)
	root.SetErr(io.Discard) // what nobody judges is in the document
	if err := root.ExecuteContext(ctx); err != nil && !errors.Is(err, unfit{}) {
		return Simulation{}, err
	}
	var doc Simulation
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
		return Simulation{}, fmt.Errorf("read the simulation: %w", err)
	}
	return doc, nil
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
		barred := w.Want.Barred(stage.Nodes())
		for i, n := range stage.Nodes() {
			pod.Around[n.Name] = Around{Node: n, Barred: barred[i]}
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
