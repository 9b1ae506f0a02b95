package agent

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/node/desired"
	"github.com/tenon-numa/tenon/node/kubelet"
)

// observer reads everything that a reconcile needs, each source at most once. It does not keep the machine and the
// configuration: a partial reconcile gets them as the facts of the previous one.
type observer struct {
	machine   MachineReader
	rules     kubelet.Source
	service   *kubelet.PodResources
	root      fs.FS // the kubelet's root directory
	node      *nodeWatch
	pods      *podWatch
	published *published
	arbiter   Arbiter
	// checkCapacity: see Config.CheckCapacity.
	checkCapacity bool
}

// observe reads the node and its published objects. facts are the result of the previous reconcile. If full is true,
// observe reads everything. Otherwise it reads the machine and the configuration only if one of them could not be read
// before, and the configuration alone if the kubelet's state files have another policy than the rules. The order of the
// readings matters:
//
//   - before the machine and the rules are known, it asks neither the API server nor the kubelet;
//   - if the API server does not answer, it does not ask the kubelet, because nothing could be published.
func (o *observer) observe(ctx context.Context, facts desired.Facts, full bool) (out desired.Observation, err error) {
	out.Time, out.Facts = time.Now(), facts
	if full {
		o.service.Wake()
	}
	readFacts := full || facts.Stale != nil
	if readFacts {
		out.Facts = o.readFacts(ctx, facts)
	}
	if !out.Facts.Known() {
		return out, out.Facts.Stale
	}
	due := full && o.published.due(out.Time)
	if out.Node, err = o.node.get(ctx, due || full && !o.node.open()); err != nil {
		return out, err
	}
	if o.checkCapacity {
		if err := compareCapacity(out.Facts.Machine, out.Node); err != nil {
			return out, err
		}
	}
	if err := o.published.refresh(ctx, out.Time, full, due); err != nil {
		return out, err
	}
	if out.Kubelet, err = kubelet.Observe(ctx, o.service, o.root); err != nil {
		return out, errors.Join(err, out.Facts.Stale)
	}
	byKubelet := out.Facts.Rules.Arbiter == place.ByKubelet
	if !readFacts && byKubelet && out.Kubelet.Contradicts(out.Facts.Rules) != nil {
		out.Facts = out.Facts.WithConfiguration(o.rules.Configuration(ctx))
	}
	if out.Unpinned, err = o.arbiter.Observe(ctx, out.Facts, &out.Kubelet); err != nil {
		return out, err
	}
	out.Pods = desired.PodsOf(o.pods.list())
	out.Earlier = o.published.layout.takeEarlier()
	return out, nil
}

// readFacts reads the machine and, if a machine is known, the configuration.
func (o *observer) readFacts(ctx context.Context, facts desired.Facts) desired.Facts {
	facts = facts.WithMachine(o.machine.ReadMachine(ctx))
	if facts.Machine == nil {
		return facts
	}
	return facts.WithConfiguration(o.rules.Configuration(ctx))
}
