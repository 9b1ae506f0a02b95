// Package chaos runs random events on a lab cluster: everything that may happen to a real one. After each round it
// checks that Tenon's ledger equals the state of the kubelets' managers, that no pod waits although it fits on a
// node, and that no kubelet refused a pod for a reason that the scheduler could have predicted.
//
// Two schedulers bind pods to the same nodes; one of them is Tenon's. Pods end or are deleted, some by force. Agents
// stop, and reports arrive late and out of order. Kubelets are killed and return with other policies. The scheduler
// and the API server are restarted. A node publishes false layouts, and users bind pods by hand. For several rounds,
// agents are silent, rights are withdrawn, and machines change.
//
// Invariant: the same seed gives the same actions in the same order. Their effects depend on timing, as for users.
// The package excuses nothing without proof. A refusal counts as unpredictable in four cases only. First, the pod
// would fit without an event that the scheduler had not received when it bound the pod. Second, the pod's node
// counted as silent. Third, the node's layout reported another machine than the kubelet's. Fourth, the kubelet had
// admitted the pod before, and refused it after a restart.
package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/scheduler"
)

// Options of a run.
type Options struct {
	Seed uint64
	// For is how long new rounds may begin; at least one round runs.
	For time.Duration
	// Gangs has pods come in gangs, too, after [lab.EnableGangs].
	Gangs bool
	// Say receives one line per event.
	Say func(line string)
}

// Result has the counts of a run.
type Result struct {
	Rounds, Actions, Pods int
	Outcomes              map[state.Result]int
	Refusals              map[string]int // of pods of Tenon's scheduler, by cause
	Gangs                 int            // that started with as many pods as they need
	// Half has the gangs that started with fewer pods for a reason outside the scheduler's reach, by that reason.
	Half map[string]int
	// Breakdowns are failures of the lab itself, not of Tenon, by the operation that failed. The run continues after
	// them.
	Breakdowns map[string]int
	Faults     []string // violations of what the package checks, as text
}

// Table returns the counts as text, in a stable order.
func (r Result) Table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d rounds, %d actions, %d pods\n", r.Rounds, r.Actions, r.Pods)
	section := func(title string, counts map[string]int) {
		fmt.Fprintf(&b, "%s\n", title)
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			fmt.Fprintf(&b, "  %6d  %s\n", counts[name], name)
		}
		if len(counts) == 0 {
			fmt.Fprintf(&b, "  %6d\n", 0)
		}
	}
	outcomes := map[string]int{}
	for result, n := range r.Outcomes {
		outcomes[string(result)] = n
	}
	section("predictions", outcomes)
	section("refused pods, by cause", r.Refusals)
	section("gangs that started whole", map[string]int{"": r.Gangs})
	section("gangs that started in part, by cause", r.Half)
	section("breakdowns of the lab", r.Breakdowns)
	section("faults", map[string]int{"": len(r.Faults)})
	return b.String()
}

// nodes are the nodes of every run. The kubelet of the first aligns each container on one NUMA node, the kubelet of
// the second each pod on one NUMA node, and the kubelet of the third each container on as few NUMA nodes as possible.
var nodes = []lab.Node{{Name: "single", Machine: "xeon-2s"}, {Name: "whole", Machine: "gpu-8"},
	{Name: "few", Machine: "xeon-snc2"}}

// roundTimeout bounds a round, and actionTimeout one action. A pod may wait half a minute for its turn on each of the
// nodes, one after the other, before its scheduler reports that it fits nowhere.
const (
	roundTimeout  = 8 * time.Minute
	actionTimeout = 2*time.Minute + 30*time.Second
)

// run is the state of a run.
type run struct {
	Options
	rand    *rand.Rand
	cluster *lab.Cluster
	client  kubernetes.Interface
	reader  *kube.Reader
	layouts *client.Client
	record  *record
	tenon   *scheduler.Running // Tenon's scheduler
	plain   *scheduler.Running // the default scheduler

	created   int             // pods, for their names
	alive     []string        // names of pods that no action has deleted, oldest first
	stopped   map[string]bool // nodes whose agents stopAgent ended
	policy    map[string]int  // index into policies, by node
	servers   int             // restarts of the API server
	earlier   int             // restarts of the API server before this round
	regained  bool            // a right of schedulers came back in this round
	received  []*deliveries   // what each of Tenon's schedulers received, oldest scheduler first
	attackers attackers
	ailing    []*ailment               // faults that still last
	hardware  map[string]*topo.Machine // of the kubelets, by node
	gangs     map[string]*gang         // that have pods, by name

	// mu guards result and evidence, which callbacks write too, and tenon, which a callback of the record reads.
	mu     sync.Mutex
	result Result
	judged map[string]bool // UIDs of refused pods that judgeRefusals has judged
	// evidence has, by UID, what gather recorded when it saw that a kubelet refused a pod of Tenon's scheduler.
	evidence map[string]evidence
	begun    []moment // starts of Tenon's schedulers
	restarts []moment // of the API server
}

// Run runs rounds until the time is over, and returns the counts. An error means that the run could not continue; the
// counts are then incomplete. Violations are no errors: they are in Result.Faults.
func Run(ctx context.Context, o Options) (_ Result, err error) {
	r := &run{Options: o, rand: rand.New(rand.NewPCG(o.Seed, 3)), stopped: map[string]bool{}, policy: map[string]int{},
		judged: map[string]bool{}, evidence: map[string]evidence{}, gangs: map[string]*gang{},
		result: Result{Half: map[string]int{}, Outcomes: map[state.Result]int{}, Refusals: map[string]int{},
			Breakdowns: map[string]int{}}}
	config := lab.Config{Apart: true, Nodes: nodes, Progress: o.Say}
	if o.Gangs {
		config.APIs = lab.GangAPIs
	}
	if r.cluster, err = lab.Start(ctx, config); err != nil {
		return r.result, err
	}
	defer func() { err = errors.Join(err, r.cluster.Stop()) }()
	if r.client, err = kubernetes.NewForConfig(r.cluster.RESTConfig()); err != nil {
		return r.result, fmt.Errorf("make client: %w", err)
	}
	if r.reader, err = kube.NewReader(r.cluster.RESTConfig()); err != nil {
		return r.result, err
	}
	if r.layouts, err = client.New(r.cluster.RESTConfig()); err != nil {
		return r.result, err
	}
	if r.record, err = follow(r.cluster); err != nil {
		return r.result, err
	}
	defer r.record.stop()
	if r.hardware, err = kubeletMachines(); err != nil {
		return r.result, err
	}
	if err := r.admitAttackers(ctx); err != nil {
		return r.result, err
	}
	if err := r.startSchedulers(); err != nil {
		return r.result, err
	}
	r.record.onRefused(r.gather)
	defer func() { err = errors.Join(err, r.tenon.Stop(), r.plain.Stop()) }()
	for began := time.Now(); r.result.Rounds == 0 || time.Since(began) < o.For; {
		if err := r.round(ctx); err != nil {
			return r.counted(), fmt.Errorf("round %d: %w", r.result.Rounds, err)
		}
	}
	return r.counted(), nil
}

// counted returns the counts so far.
func (r *run) counted() Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.result
}

func (r *run) say(format string, args ...any) { r.Say(fmt.Sprintf(format, args...)) }

// fault records a violation of what the package checks.
func (r *run) fault(format string, args ...any) {
	line := fmt.Sprintf("round %d: ", r.result.Rounds) + fmt.Sprintf(format, args...)
	r.say("FAULT: %s", line)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Faults = append(r.result.Faults, line)
}

// startSchedulers starts the default scheduler, and Tenon's beside it.
func (r *run) startSchedulers() error {
	dir := filepath.Join(r.cluster.Dir, "default-scheduler")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	var err error
	if r.plain, err = scheduler.Start(dir, r.cluster.SchedulerKubeconfig, scheduler.Plain, nil); err != nil {
		return err
	}
	return r.startTenon()
}

// startTenon starts Tenon's scheduler, counts the outcomes of its predictions, and records what it receives.
func (r *run) startTenon() error {
	now := r.record.now()
	d := newDeliveries(now)
	outcome := func(o state.Outcome) {
		if o.Result != state.Confirmed {
			r.say("prediction: foreign %t: %s", o.Foreign, kube.Describe(nil, o))
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.result.Outcomes[o.Result]++
	}
	tenon, err := scheduler.StartObserved(r.cluster.Dir, r.cluster.SchedulerKubeconfig, scheduler.Second,
		scheduler.Observer{Outcome: outcome, Delivered: d.receive})
	if err != nil {
		return err
	}
	r.received = append(r.received, d)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tenon = tenon
	r.begun = append(r.begun, now)
	return nil
}

// round runs some actions, waits until the cluster has settled, checks it, and deletes most pods. It returns an error
// if the run cannot continue; violations are recorded by fault.
func (r *run) round(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, roundTimeout, fmt.Errorf("not done after %s", roundTimeout))
	defer cancel()
	r.result.Rounds++
	r.earlier, r.regained = r.servers, false
	began := time.Now()
	const minActions, moreActions = 12, 14
	for range minActions + r.rand.IntN(moreActions) {
		if err := r.act(ctx); err != nil {
			return err
		}
	}
	if err := r.settle(ctx); err != nil {
		return err
	}
	if r.check(ctx) {
		if err := r.lieAgain(ctx); err != nil {
			r.breakdown("node lies", err)
		}
	}
	if err := r.probeNodes(ctx); err != nil {
		return err
	}
	r.judgeRefusals()
	if err := r.clean(ctx); err != nil {
		return err
	}
	now := r.counted()
	r.say("round %d done after %s: %d actions, %d pods, predictions %v, refusals %v, %d faults (seed %d)", now.Rounds,
		time.Since(began).Round(time.Millisecond), now.Actions, now.Pods, now.Outcomes, now.Refusals, len(now.Faults), r.Seed)
	if err := r.record.err(); err != nil {
		return err
	}
	return r.restartDead(ctx)
}

// breakdown counts a failure of the lab itself, by the operation that failed.
func (r *run) breakdown(what string, err error) {
	r.say("BREAKDOWN: round %d: %s: %v", r.result.Rounds, what, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Breakdowns[what]++
}

// restartDead restarts nodes whose process ended by itself, and counts each as a breakdown. If a state file that was
// half written keeps the kubelet from starting, it removes the file first.
func (r *run) restartDead(ctx context.Context) error {
	for _, n := range r.cluster.Nodes {
		err := r.cluster.NodeErr(n.Name)
		if err == nil {
			continue
		}
		if file := tornFile(err); file != "" {
			r.breakdown("a kubelet was killed between two writes of "+file, fmt.Errorf("node %s: %w", n.Name, err))
			if err := r.removeTorn(n.Name, file); err != nil {
				return fmt.Errorf("start node %s again: %w", n.Name, err)
			}
		} else {
			r.breakdown("the process of a node ended by itself", fmt.Errorf("node %s: %w", n.Name, err))
		}
		if err := r.restartKubelet(ctx, n.Name, false); err != nil {
			return fmt.Errorf("start node %s again: %w", n.Name, err)
		}
	}
	return nil
}
