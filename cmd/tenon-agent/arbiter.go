package main

import (
	"flag"
	"fmt"

	"github.com/tenon-numa/tenon/node/agent"
	"github.com/tenon-numa/tenon/node/arbiter"
	"github.com/tenon-numa/tenon/node/cgroup"
	"github.com/tenon-numa/tenon/node/kubelet"
	"github.com/tenon-numa/tenon/node/nri"
)

// pins are the flags of an agent that pins containers itself.
type pins struct{ config, socket, state, failure string }

func (p *pins) flags(fs *flag.FlagSet) {
	fs.StringVar(&p.config, "pin-config", "",
		"file of the rules by which the agent pins containers, in the form of a KubeletConfiguration, where the kubelet's "+
			"managers are off; the agent pins nothing when empty")
	fs.StringVar(&p.socket, "nri-socket", "/var/run/nri/nri.sock", "socket of the container runtime for NRI plugins")
	fs.StringVar(&p.state, "pin-state", "/var/lib/tenon/pins.json",
		"file that keeps what pods are pinned to; its directory has to outlive the node's restart")
	fs.StringVar(&p.failure, "pin-failure-policy", string(nri.Ignore),
		"what becomes of containers whose pod is not known yet: Ignore starts them on shared CPUs, Fail does not start them")
}

// open adds to cfg the arbiter, the component that pins containers. Without --pin-config it does nothing. cfg.Rules
// must already be the source of the kubelet's configuration. cgroups returns the host's cgroups, or nil if there are
// none. moves is the component that moves pods, or nil.
func (p *pins) open(cfg *agent.Config, cgroups func() (*cgroup.Tree, error), moves arbiter.Affinity) error {
	if p.config == "" {
		return nil
	}
	failure := nri.FailurePolicy(p.failure)
	if failure != nri.Ignore && failure != nri.Fail {
		return fmt.Errorf("--pin-failure-policy: unknown value %q, want %s or %s", p.failure, nri.Ignore, nri.Fail)
	}
	c := arbiter.Config{NodeName: cfg.NodeName, REST: cfg.REST, Socket: p.socket, State: p.state, Failure: failure,
		PodResourcesSocket: cfg.PodResourcesSocket, StateDir: cfg.StateDir, Translate: cfg.Translate,
		Affinity: moves, Logger: cfg.Logger}
	tree, err := cgroups()
	if err != nil {
		return err
	}
	if tree != nil {
		c.Kernel = tree
	}
	a, err := arbiter.New(c)
	if err != nil {
		return err
	}
	cfg.Arbiter, cfg.PinConfig = a, p.config
	cfg.Rules = arbiter.Source{Kubelet: cfg.Rules, Pins: kubelet.Files{File: p.config}}
	return nil
}
