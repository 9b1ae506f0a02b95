package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/node/desired"
)

// reconcileTimeout bounds one reconcile: a hanging kubelet or server becomes an error.
const reconcileTimeout = 10 * time.Second

// reconciler observes the node, computes what to publish, and publishes what differs. It is for one goroutine. A
// reconcile that fails to observe does not change state.
type reconciler struct {
	observer *observer
	options  desired.Options
	state    desired.State
	recorder Recorder
	again    func() // triggers another reconcile
	log      logr.Logger
	logged   struct{ faults, reasons, rules string } // what was logged last
}

// reconcile observes the node once, and publishes what differs. If full is true, it reads everything again. It
// returns whether it wrote anything. err is not nil if something could not be read or written; the rest may have been
// published all the same.
func (r *reconciler) reconcile(ctx context.Context, full bool) (wrote bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, reconcileTimeout)
	defer cancel()
	o, err := r.observer.observe(ctx, r.state.Facts, full)
	if err != nil {
		return false, err
	}
	d := desired.Compute(r.options, r.state, o)
	r.state = d.State
	if d.Again {
		r.again()
	}
	r.logFaults(d.Faults)
	if d.Layout == nil {
		return false, d.Err
	}
	r.logReasons(d.Layout.Inexact)
	r.logRules(d.Node)
	wrote, err = r.apply(ctx, d)
	return wrote, errors.Join(err, d.Err)
}

// apply writes the layout and the publisher's object, if they differ from the published ones. If one write fails, the
// other is still made. While the agent stands by for another one, it does not write the publisher's object.
func (r *reconciler) apply(ctx context.Context, d desired.Result) (wrote bool, err error) {
	p := r.observer.published
	meta := d.Layout.ObjectMeta
	wrote, err = p.layout.write(ctx, d.Layout, time.Now())
	r.recordWrite(v1alpha1.Kind, wrote, err)
	r.recorder.RecordNode(d.Node, p.layout.sequence)
	if p.topology == nil || p.layout.claim.rival != nil {
		return wrote, err
	}
	second, secondErr := p.topology.write(ctx, d.Node, meta)
	r.recordWrite(p.topology.publisher.Object(), second, secondErr)
	return wrote || second, errors.Join(err, secondErr)
}

func (r *reconciler) recordWrite(object string, wrote bool, err error) {
	if wrote || err != nil {
		r.recorder.RecordWrite(object, err)
	}
}

// logFaults logs the inconsistencies of an observation when they change.
func (r *reconciler) logFaults(faults []error) {
	text := ""
	for _, err := range faults {
		text += err.Error() + "\n"
	}
	if text != "" && text != r.logged.faults {
		r.log.Info("node observation is inconsistent", "faults", text)
	}
	r.logged.faults = text
}

// logReasons logs the reasons why predictions may be inexact, when these reasons change.
func (r *reconciler) logReasons(reasons []v1alpha1.Inexact) {
	text := ""
	for _, x := range reasons {
		text += x.Code + ": " + x.Message + "\n"
	}
	if text != r.logged.reasons {
		r.log.Info("predictions for this node may differ from what its kubelet does", "reasons", text)
		r.logged.reasons = text
	}
}

// logRules logs what the arbiter (the kubelet or the agent) aligns, at the start and when that changes. One line has
// the policies. Each resource that is not aligned gets a line with the setting that would align it. Each reason why
// the kubelet panics on some pods gets a line, too.
func (r *reconciler) logRules(n *state.Node) {
	unaligned, panics := n.Rules.Unaligned(n.Machine), n.Rules.MissingPages(n.Machine)
	policies := []any{"topologyManagerPolicy", n.Rules.Topology.Policy, "topologyManagerScope", n.Rules.Topology.Scope,
		"cpuManagerPolicy", policy(n.Rules.CPU.Static, "static", "none"),
		"memoryManagerPolicy", policy(n.Rules.Memory.Static, "Static", "None")}
	text := fmt.Sprint(n.Rules.Arbiter, policies, unaligned, panics)
	if text == r.logged.rules {
		return
	}
	r.logged.rules = text
	by := n.Rules.Arbiter.String()
	r.log.Info("read the "+by+"'s policies", policies...)
	for _, u := range unaligned {
		r.log.Info("the "+by+" does not align everything", "notAligned", u.What, "remedy", u.Remedy)
	}
	for _, why := range panics {
		r.log.Info("the kubelet panics on every Guaranteed pod that asks for some hugepages; the scheduler sends none",
			"reason", why.Text(), "remedy", why.Remedy())
	}
}

func policy(static bool, set, unset string) string {
	if static {
		return set
	}
	return unset
}
