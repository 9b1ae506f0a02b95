package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/tenon-numa/tenon/api/document"
)

// This file offers the answers of some commands as functions for servers. Simulate and Check run the command itself
// and decode its JSON, so a server judges as the command does.

type (
	// Explanation is what "explain pod -o json" writes.
	Explanation = explanationDocument
	// Simulation is what "simulate -o json" writes.
	Simulation = simulationDocument
	// Defragmentation is what "defrag -o json" writes.
	Defragmentation = defragDocument
	// PodCheck is what "check -o json" writes.
	PodCheck = checkDocument
	// Capacity is what "top -o json" writes.
	Capacity = capacity
)

// Explain explains a pod. If the pod does not exist, it returns the API server's NotFound error.
func Explain(ctx context.Context, c Cluster, namespace, name string) (Explanation, error) {
	a := &app{setup: Setup{Connect: func(Kubeconfig) (Cluster, string, error) { return c, namespace, nil }}}
	e, err := a.explain(ctx, namespace+"/"+name)
	if err != nil {
		return Explanation{}, err
	}
	return e.document(), nil
}

// Request selects what a simulation or a check judges.
type Request struct {
	// Manifest is a workload file. Objects without a namespace get Namespace.
	Manifest  []byte
	Namespace string
	// Count is the number of pods of each workload: 0 for the workload's own number, -1 for as many as fit.
	Count int
	// Without are nodes to take away. Pending also places the pods that wait for a node.
	Without []string
	Pending bool
	// Add are nodes that join, as NODE, NODE=COUNT or NODE=min. Each new node is a copy of NODE.
	Add []string
	// Policy and Options are set on the nodes that Selector selects; the flags of the command work the same way.
	Policy   string
	Options  []string
	Selector string
}

// args returns the request as flags of simulate.
func (r Request) args() (out []string) {
	if len(r.Manifest) > 0 {
		out = append(out, "-f", "-")
	}
	if r.Count < 0 {
		out = append(out, "--count=max")
	} else if r.Count > 0 {
		out = append(out, "--count="+strconv.Itoa(r.Count))
	}
	if r.Pending {
		out = append(out, "--pending")
	}
	for _, flag := range []struct {
		name   string
		values []string
	}{{"without", r.Without}, {"add", nodesLike(r.Add)}, {"option", r.Options}, {"policy", nonEmpty(r.Policy)},
		{"selector", nonEmpty(r.Selector)}} {
		for _, v := range flag.values {
			out = append(out, "--"+flag.name+"="+v)
		}
	}
	return out
}

func nonEmpty(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

// nodesLike returns names of nodes in the form in which --add takes existing nodes. Other values of --add are names
// of files.
func nodesLike(names []string) (out []string) {
	for _, n := range names {
		out = append(out, "node/"+n)
	}
	return out
}

// ManifestError wraps an error whose cause is the user's manifest, and not the cluster.
type ManifestError struct{ Err error }

func (e *ManifestError) Error() string { return e.Err.Error() }

// Unwrap returns the error of the reader of manifests.
func (e *ManifestError) Unwrap() error { return e.Err }

// maxChecked bounds the workloads of one check, because each is judged on every node.
const maxChecked = 32

// Simulate runs the command simulate on the cluster of the given stages. An error of the manifest is a
// [ManifestError]. Pods without a place are no error.
func Simulate(ctx context.Context, from Stages, r Request) (out Simulation, err error) {
	err = from.run(ctx, r, maxSimulated, append([]string{"simulate"}, r.args()...), &out)
	return out, err
}

// Moves selects for which pods others move, and which may move; the flags of defrag work the same way.
type Moves struct {
	// Manifest, Namespace, Count and Pending of the request are pods that get room; the other fields have no meaning.
	Request

	For, Empty, Align, From []string
	Any, Usual              bool
	// Most is how many pods may move; 0 is as many as without the flag.
	Most int
}

// Defrag runs the command defrag on the cluster of the given stages. An error of the manifest is a [ManifestError].
// That there is no plan is no error.
func Defrag(ctx context.Context, from Stages, m Moves) (out Defragmentation, err error) {
	args := append([]string{"defrag"}, Request{Manifest: m.Manifest, Count: max(0, m.Count), Pending: m.Pending}.args()...)
	for flag, values := range map[string][]string{"for": m.For, "empty": m.Empty, "align": m.Align,
		"from-namespace": m.From} {
		for _, v := range values {
			args = append(args, "--"+flag+"="+v)
		}
	}
	if m.Any {
		args = append(args, "--any")
	}
	if m.Usual {
		args = append(args, "--usual")
	}
	if m.Most > 0 {
		args = append(args, "--most="+strconv.Itoa(m.Most))
	}
	err = from.run(ctx, m.Request, maxSimulated, args, &out)
	return out, err
}

// Check runs the command check on the cluster of the given stages. An error of the manifest is a [ManifestError].
// Pods that cannot run are no error.
func Check(ctx context.Context, from Stages, r Request) (out PodCheck, err error) {
	err = from.run(ctx, r, maxChecked, []string{"check", "-f", "-"}, &out)
	return out, err
}

// run reads the cluster once, runs a command on it, and decodes the command's JSON into a document. It returns an
// error if the manifest has more than maxWorkloads workloads. Pods without a place, pods that cannot run and objects
// that cannot be judged are no error.
func (s Stages) run(ctx context.Context, r Request, maxWorkloads int, args []string, into any) error {
	stage, problems, _, err := s.Cluster(ctx, Kubeconfig{})
	if err != nil {
		return fmt.Errorf("read the cluster: %w", err)
	}
	if len(r.Manifest) > 0 || args[0] == "check" {
		all, _, err := stage.Workloads(r.Manifest, r.Namespace)
		if err == nil && len(all) > maxWorkloads {
			err = fmt.Errorf("%d workloads, at most %d", len(all), maxWorkloads)
		}
		if err != nil {
			return &ManifestError{err}
		}
	}
	var out bytes.Buffer
	root := newApp(Setup{Stages: Stages{Vary: s.Vary, Moving: s.Moving, Cluster: func(context.Context, Kubeconfig) (Stage,
		[]document.Problem, string, error) {
		return stage, problems, r.Namespace, nil
	}}}).root()
	root.SetArgs(append(args, "-o", "json", "-n", r.Namespace))
	root.SetIn(bytes.NewReader(r.Manifest))
	root.SetOut(&out)
	root.SetErr(io.Discard) // the document has these notes, too
	err = root.ExecuteContext(ctx)
	if _, written := exitCode(err); !written {
		return err
	}
	if err := json.Unmarshal(out.Bytes(), into); err != nil {
		return fmt.Errorf("read the answer of %s: %w", args[0], err)
	}
	return nil
}

// Fitting counts how many more pods of the given shapes fit, or of the cluster's usual shapes if none is given.
// Shapes are written as for "top --shape".
func Fitting(ctx context.Context, from Stages, shapes []string) (*Capacity, error) {
	a := &app{setup: Setup{Stages: from}}
	return a.top(ctx, topFlags{shapes: shapes}, nil)
}
