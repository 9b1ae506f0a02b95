package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/objects"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/guests/affinity/mover"
	"github.com/tenon-numa/tenon/guests/affinity/traffic"
	"github.com/tenon-numa/tenon/node/agent"
	"github.com/tenon-numa/tenon/node/arbiter"
	"github.com/tenon-numa/tenon/node/cgroup"
)

// affinities are the flags for placing pods that share CPUs on NUMA nodes.
type affinities struct {
	on, migrate      bool
	namespaces, host string
	period           time.Duration
}

func (a *affinities) flags(fs *flag.FlagSet) {
	fs.BoolVar(&a.on, "affinity", false, "with --pin-config, measure what pods that share CPUs send each other, and put "+
		"those that opted in on the NUMA node of their peers; needs CAP_SYS_ADMIN and the runtime's network namespaces")
	fs.StringVar(&a.namespaces, "affinity-namespaces", "",
		"namespaces whose pods are measured unless they are annotated otherwise, with commas between them; * is all")
	fs.DurationVar(&a.period, "affinity-period", mover.DefaultPeriod, "time between readings of sockets")
	fs.BoolVar(&a.migrate, "affinity-migrate-memory", false,
		"bind the memory of pods to their NUMA node too, which moves what is elsewhere")
	fs.StringVar(&a.host, "affinity-host-namespace", "",
		"file of the node's own network namespace, to measure pods with hostNetwork, such as /proc/1/ns/net; none when empty")
}

// open returns the component that moves pods between NUMA nodes; nil if --affinity is off. It returns an error if
// --affinity is on and the agent pins no containers.
func (a *affinities) open(cfg *agent.Config, pin *pins, out *outlets) (arbiter.Affinity, error) {
	if !a.on {
		return nil, nil
	}
	if pin.config == "" {
		return nil, errors.New("--affinity needs --pin-config: pods are moved only where the agent pins containers")
	}
	store, err := client.NewAffinities(cfg.REST)
	if err != nil {
		return nil, err
	}
	core, err := objects.NewCore(cfg.REST)
	if err != nil {
		return nil, err
	}
	run := mover.Config{NodeName: cfg.NodeName, Store: store, Period: a.period, Migrate: a.migrate,
		HostNamespace: a.host, Read: traffic.Sockets, Clock: traffic.ProcessTime, Record: out.affinity.Record,
		Logger: cfg.Logger,
		Owners: func(ctx context.Context) ([]metav1.OwnerReference, error) {
			n, err := core.Nodes.Get(ctx, cfg.NodeName, metav1.GetOptions{})
			if err != nil {
				return nil, fmt.Errorf("read node %s: %w", cfg.NodeName, err)
			}
			return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID}}, nil
		}}
	for name := range strings.SplitSeq(a.namespaces, ",") {
		if name = strings.TrimSpace(name); name != "" {
			run.Namespaces = append(run.Namespaces, name)
		}
	}
	if out.cgroups != "" {
		tree, err := cgroup.Open(os.DirFS(out.cgroups), out.kubeletRoot)
		switch {
		case errors.Is(err, cgroup.ErrVersion):
			cfg.Logger.Info("pods count as what they request: only cgroup v2 says what they use", "root", out.cgroups)
		case err != nil:
			return nil, err
		default:
			run.Usage = tree
		}
	}
	return mover.New(run)
}
