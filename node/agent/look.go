package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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
	own     *own
	order   *order
	claim   *claim

	// What a full look finds out, and others keep.
	machine *topo.Machine
	detail  v1alpha1.Detail
	rules   place.Rules
	from    string // who told the rules, as v1alpha1.Rules.From
	known   bool   // whether machine and rules are known
	stale   error  // why they could not be read again
	nodeUID types.UID
	// What the API server has.
	published []byte // content, nil where there is no layout
	owner     types.UID
	sequence  int64
	begun     bool   // sequence is of this agent
	doubt     bool   // a write failed, and may have been done nevertheless
	reread    bool   // the publisher has to read what it published
	vague     error  // why the machine could not be described in detail
	doubted   error  // why the files were read instead of asking the kubelet
	fault     string // what was last logged of observations
	unsettled int    // looks in a row that met the kubelet writing
	missed    int    // looks in a row that missed pods in the kubelet's list
	whole     bool   // the kubelet has listed all of them since it started
	borne     string // the contradiction of its files that is believed
}

func (k *look) do(ctx context.Context, full bool) (wrote bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	if full {
		k.service.Wake()
	}
	if full || k.doubt || k.stale != nil {
		if err := k.discover(ctx); err != nil {
			return false, err
		}
		k.doubt = false
	}
	seen, err := kubelet.Observe(ctx, k.service, k.root)
	if err != nil {
		return false, errors.Join(err, k.stale)
	}
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

// discover reads what seldom changes: the machine, the kubelet's configuration, the Node, and the
// layout as the API server has it. A machine or rules that cannot be read stay as they were.
func (k *look) discover(ctx context.Context) error {
	k.stale = nil
	m, err := k.cfg.Machine.Machine(ctx)
	if err == nil {
		k.machine = m
	} else {
		k.stale = fmt.Errorf("describe the machine: %w", err)
	}
	if k.cfg.Detail != nil {
		// What decides nothing keeps nothing from being published.
		d, err := k.cfg.Detail(ctx)
		if k.vague = err; err == nil {
			k.detail = d
		}
	}
	if k.machine == nil {
		return k.stale
	}
	k.discoverRules(ctx)
	if !k.known {
		return k.stale
	}
	k.reread = true
	return k.sync(ctx)
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
	k.rules, k.known, k.from, k.doubted = rules, true, v1alpha1.FromFiles, conf.Doubt
	if conf.Effective {
		k.from = v1alpha1.FromKubelet
	}
}

// sync reads the Node and the layout, so that one that was changed or deleted is written again.
func (k *look) sync(ctx context.Context) error {
	node, err := k.nodes.Get(ctx, k.cfg.NodeName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get node %s: %w", k.cfg.NodeName, err)
	}
	k.nodeUID = node.UID
	l, err := k.layouts.Get(ctx, k.cfg.NodeName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		k.begun, k.published, k.owner = true, nil, ""
		k.own.read(&v1alpha1.NodeLayout{})
		return nil
	}
	if err != nil {
		return fmt.Errorf("get layout %s: %w", k.cfg.NodeName, err)
	}
	// A new agent goes on with the order that the one before it saw.
	if k.published == nil {
		for _, p := range l.Holdings {
			k.order.seen(p.UID)
		}
	}
	k.sequence = max(k.sequence, l.Sequence)
	if !k.begun {
		k.begun, k.sequence = true, ahead(k.sequence)
	}
	k.owner = ""
	for _, o := range l.OwnerReferences {
		if o.Kind == "Node" {
			k.owner = o.UID
		}
	}
	if k.published, err = content(l); err != nil {
		return err
	}
	if k.claim.read(l.Agent, k.own.read(l)) {
		k.log.Info("another agent writes the layout; claiming it, because this one started later", "other", l.Agent.ID)
		k.owner = "" // so that the layout is written
	}
	return nil
}

// stride is how far apart the sequences of two agents begin: more than one of them ever writes while a write of its
// own is held up.
const stride = 1 << 20

// ahead returns where an agent begins to count that finds a sequence. A late write may have brought an old layout
// back; whoever read a newer one would take this agent's first reports for older than that.
func ahead(found int64) int64 {
	if found > math.MaxInt64-2*stride {
		return found // nobody but a forger comes so far
	}
	return (found/stride + 1) * stride
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
	entries = k.complete(m, entries)
	k.order.sort(entries, k.times)
	l := v1alpha1.FromCore(k.cfg.NodeName, m, k.rules, entries, seen.Groups(m, k.rules, entries, k.pods))
	l.Describe(k.detail)
	l.Rules.From = k.from
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
