package main

import (
	"errors"
	"os"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/node/agent"
	"github.com/tenon-numa/tenon/node/cgroup"
	"github.com/tenon-numa/tenon/node/metrics"
)

// containers lists the running containers, which the agent knows, and reads their memory from the host's cgroups.
type containers struct {
	*cgroup.Tree
	pods atomic.Pointer[func() []*v1.Pod] // nil until the agent runs
}

// Running returns the running containers; none before the agent runs.
func (c *containers) Running() []cgroup.Container {
	list := c.pods.Load()
	if list == nil {
		return nil
	}
	return cgroup.Running((*list)())
}

// memory returns the source of metrics about the memory of containers. It returns nil if the flags disable these
// metrics, or if the host has no cgroup v2; the latter it logs.
func (o *outlets) memory(cfg *agent.Config) (metrics.Memory, error) {
	if o.containers == 0 {
		return nil, nil
	}
	tree, err := o.tree()
	if tree == nil || err != nil {
		if err == nil && o.cgroups != "" {
			cfg.Logger.Info("no metrics of the memory of containers: only cgroup v2 is supported", "root", o.cgroups)
		}
		return nil, err
	}
	c := &containers{Tree: tree}
	cfg.Pods = func(list func() []*v1.Pod) { c.pods.Store(&list) }
	return c, nil
}

// tree returns the host's cgroups; nil if the flags name none, or if the host has no cgroup v2.
func (o *outlets) tree() (*cgroup.Tree, error) {
	if o.cgroups == "" {
		return nil, nil
	}
	tree, err := cgroup.Open(os.DirFS(o.cgroups), o.kubeletRoot)
	if errors.Is(err, cgroup.ErrVersion) {
		return nil, nil
	}
	return tree, err
}
