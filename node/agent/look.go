package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/objects"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/node/kubelet"
)

// lookTimeout bounds one look, so that a kubelet or a server that hangs is met as an error.
const lookTimeout = 10 * time.Second

// look reads everything once and publishes what changed. Only the loop uses it.
type look struct {
	cfg     Config
	log     logr.Logger
	root    fs.FS // the kubelet's root directory
	service *kubelet.PodResources
	pods    *podSet
	nodes   *objects.Client[*v1.Node, *v1.NodeList]
	layouts *client.Client
	home    *home
	own     *own
	also    *own // what the publisher writes; nil where there is none
	order   *order
	claim   *claim

	// What a full look finds out, and others keep.
	machine *topo.Machine
	detail  v1alpha1.Detail
	rules   place.Rules
	conf    kubelet.Configuration // what the rules were made of
	devices *devices
	from    string // who told the rules, as v1alpha1.Rules.From
	known   bool   // whether machine and rules are known
	stale   error  // why they could not be read again
	// What the API server has.
	node      identity // as of this look
	published []byte   // content, nil where there is no layout
	mark      string
	sequence  int64              // the last that was sent, or was read
	begun     bool               // sequence is of this agent
	astray    bool               // a write of this agent may still be on its way
	doubt     bool               // the layout has to be read, because a write or a read of it failed
	reread    *metav1.GetOptions // how the publisher has to read what it published; nil where it need not
	slow      time.Time          // when all is to be read whatever the watches tell
	vague     error              // why the machine could not be described in detail
	doubted   error              // why the files were read instead of asking the kubelet
	fault     string             // what was last logged of observations
	reasons   string             // what was last logged of inexact predictions
	unsettled int                // looks in a row that met the kubelet writing
	missed    int                // looks in a row that missed pods in the kubelet's list
	whole     bool               // the kubelet has listed all of them since it started
	borne     string             // the contradiction of its files that is believed
}

func (k *look) do(ctx context.Context, full bool) (wrote bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	if full {
		k.service.Wake()
	}
	if full || k.stale != nil {
		k.discover(ctx)
	}
	if !k.known {
		return false, k.stale
	}
	if err := k.sync(ctx, full); err != nil {
		return false, err
	}
	seen, err := kubelet.Observe(ctx, k.service, k.root)
	if err != nil {
		return false, errors.Join(err, k.stale)
	}
	seen.Capacity, seen.Known = k.node.capacity, k.devices.learn(seen.Allocatable, k.node.capacity)
	if k.contradicts(seen) != nil && !full {
		k.discoverRules(ctx)
	}
	if !k.settled(seen) || k.starting(seen) {
		k.pods.changed() // look again soon
		return false, k.stale
	}
	layout, node, err := k.layout(seen)
	if err != nil {
		return false, errors.Join(err, k.stale)
	}
	wrote, err = k.publish(ctx, layout, node)
	return wrote, errors.Join(err, k.stale)
}

// contradicts says where the kubelet's files are of another policy than the rules. A kubelet that was
// restarted with another one makes its files before it can be asked.
func (k *look) contradicts(seen kubelet.Observation) error {
	if s := seen.CPU; s != nil && s.Policy != "" && (s.Policy == "static") != k.rules.CPU.Static {
		return fmt.Errorf("%s is of policy %q, which the configuration does not say", kubelet.CPUStateFile, s.Policy)
	}
	if s := seen.Memory; s != nil && s.Policy != "" && (s.Policy == "Static") != k.rules.Memory.Static {
		return fmt.Errorf("%s is of policy %q, which the configuration does not say", kubelet.MemoryStateFile, s.Policy)
	}
	return nil
}

// patience is how many looks in a row may find state files that do not agree with themselves; a kubelet
// that leaves them so is believed in the end, and from then on.
const patience = 20

func (k *look) settled(seen kubelet.Observation) bool {
	why := seen.Unsettled(k.machine, k.rules.CPU.Reserved)
	if why != "" && why != k.borne && k.unsettled < patience {
		k.unsettled++
		return false
	}
	k.unsettled, k.borne = 0, why
	return true
}

// complete drops pods that the kubelet is still admitting: what they hold so far is not what they will
// hold. A pod that the kubelet has reported as started is believed as it is.
func (k *look) complete(m *topo.Machine, entries []ledger.Entry) []ledger.Entry {
	if k.cfg.Translate == nil {
		return entries
	}
	return slices.DeleteFunc(entries, func(e ledger.Entry) bool {
		p, ok := k.pods.get(e.Pod.Namespace, e.Pod.Name)
		if !ok || p.Status.StartTime != nil {
			return false
		}
		spec, err := k.cfg.Translate(p)
		return err == nil && !spec.Complete(m, k.rules, e.Holdings)
	})
}

// discover reads what seldom changes: the machine and the kubelet's configuration. What cannot be read stays
// as it was.
func (k *look) discover(ctx context.Context) {
	k.stale = nil
	m, detail, err := k.cfg.Machine.ReadMachine(ctx)
	// A detail that cannot be read stays as it was, and prevents no publication.
	k.vague = err
	switch {
	case m == nil:
		k.stale = fmt.Errorf("describe the machine: %w", err)
	case err != nil:
		k.machine = m
	default:
		k.machine, k.detail = m, detail
	}
	if k.machine != nil {
		k.discoverRules(ctx)
	}
}

func (k *look) discoverRules(ctx context.Context) {
	conf, err := k.cfg.Rules.Configuration(ctx)
	var rules place.Rules
	if err == nil {
		if rules, err = conf.On(k.machine, place.ReserveCPUs); err != nil {
			err = fmt.Errorf("kubelet configuration: %w", err)
		}
	}
	if err != nil {
		k.stale = errors.Join(k.stale, err)
		return
	}
	k.rules, k.conf, k.known, k.from, k.doubted = rules, conf, true, v1alpha1.FromFiles, conf.Doubt
	if conf.Effective {
		k.from = v1alpha1.FromKubelet
	}
}

// layout makes the object of what was observed, and the state that whoever reads the object will see.
// Faults of single pods and devices are logged once.
func (k *look) layout(seen kubelet.Observation) (*v1alpha1.NodeLayout, *ledger.Node, error) {
	m, err := seen.Machine(k.machine)
	if m == nil {
		return nil, nil, err
	}
	entries, podErr := seen.Entries(m, k.pods)
	k.note(err, podErr, k.contradicts(seen), k.doubted, k.vague)
	all := entries
	entries = k.complete(m, slices.Clone(entries))
	k.order.sort(entries, k.times)
	l := v1alpha1.FromCore(k.cfg.NodeName, m, k.rules, entries, seen.Groups(m, k.rules, entries, k.pods))
	l.Describe(k.detail)
	l.Rules.From = k.from
	l.Kubelet = k.kubelet()
	l.Inexact = v1alpha1.FromInexact(k.inexact(m, seen, all, err, podErr))
	k.explain(l.Inexact)
	core, err := l.Core()
	if err != nil {
		return nil, nil, fmt.Errorf("observation makes no valid layout: %w", err)
	}
	return l, state(k.cfg.NodeName, core), nil
}

func (k *look) note(faults ...error) {
	text := ""
	for _, err := range faults {
		if err != nil {
			text += err.Error() + "\n"
		}
	}
	if text != "" && text != k.fault {
		k.log.Info("part of what is known of the node is doubtful", "faults", text)
	}
	k.fault = text
}

func (k *look) times(id ledger.PodID) (started, created time.Time) {
	p, ok := k.pods.get(id.Namespace, id.Name)
	if !ok {
		return
	}
	if p.Status.StartTime != nil {
		started = p.Status.StartTime.Time
	}
	return started, p.CreationTimestamp.Time
}
