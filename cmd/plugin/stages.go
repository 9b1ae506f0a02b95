package plugin

import (
	"context"
	"fmt"
	"slices"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/stage"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/core/whatif"
	"github.com/tenon-numa/tenon/face/cli"
	"github.com/tenon-numa/tenon/lab/machines"
	"github.com/tenon-numa/tenon/node/kubelet"
)

// stages returns the functions that prepare simulations.
func stages() cli.Stages {
	return cli.Stages{Cluster: readCluster, Export: readExport, Machines: readMachines, Vary: vary,
		Kubelet: readKubelet}
}

func vary(s cli.Stage, v whatif.Variation) (cli.Stage, []string, error) {
	out, altered, err := s.(*stage.Stage).Vary(v)
	if err != nil {
		return nil, nil, err
	}
	return out, altered, nil
}

// catalogue returns the machine with a name, and the KubeletConfiguration of its nodes.
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
	return s, nodeProblems(problems), r.namespace, nil
}

func readExport(data []byte) (cli.Stage, []document.Problem, error) {
	s, problems, err := stage.Export(data)
	if err != nil {
		return nil, nil, err
	}
	return s, nodeProblems(problems), nil
}

func readMachines(list []whatif.Machine) (cli.Stage, error) {
	s, err := stage.Machines(list)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func nodeProblems(in []kube.Problem) []document.Problem {
	out := make([]document.Problem, 0, len(in))
	for _, p := range in {
		out = append(out, document.Problem{Node: p.Node, Reason: p.Reason})
	}
	return out
}

// readKubelet reads a KubeletConfiguration for a machine.
func readKubelet(config []byte, m *topo.Machine) (place.Rules, whatif.Amounts, error) {
	c, err := kubelet.ParseConfiguration(config)
	if err != nil {
		return place.Rules{}, nil, err
	}
	rules, err := c.On(m, 0)
	if err != nil {
		return place.Rules{}, nil, err
	}
	all, err := kubelet.Allocatable(config, m)
	if err != nil {
		return place.Rules{}, nil, fmt.Errorf("what pods may have: %w", err)
	}
	return rules, all, nil
}
