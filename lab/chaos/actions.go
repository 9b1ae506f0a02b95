package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"github.com/tenon-numa/tenon/lab/workload"
)

// action is one kind of event in a run.
type action struct {
	name  string
	share int // how often it is drawn, relative to the other actions
	do    func(*run, context.Context) error
}

// actions has all kinds of events, with their shares. If the order changes, a seed draws other actions.
var actions = []action{
	{"pods", 18, func(r *run, ctx context.Context) error { return r.create(ctx, 3+r.rand.IntN(9), 0) }},
	{"foreign pods", 8, func(r *run, ctx context.Context) error { return r.create(ctx, 1+r.rand.IntN(4), 100) }},
	{"pods of both", 12, func(r *run, ctx context.Context) error { return r.create(ctx, 4+r.rand.IntN(8), 30) }},
	{"pods finish", 10, func(r *run, ctx context.Context) error {
		return r.finish(ctx, r.drawAlive(1+r.rand.IntN(5)))
	}},
	{"pods deleted", 10, func(r *run, ctx context.Context) error {
		return r.remove(ctx, r.drawDoomed(1+r.rand.IntN(5)),
			nil)
	}},
	{"pods deleted by force", 8, func(r *run, ctx context.Context) error {
		return r.remove(ctx, r.drawDoomed(1+r.rand.IntN(4)), ptr.To[int64](0))
	}},
	{"pods have a fate", 12, func(r *run, ctx context.Context) error { return r.awaitFates(ctx) }},
	{"agent stops", 4, func(r *run, ctx context.Context) error { return r.stopAgent(ctx, r.node()) }},
	{"agents start", 4, func(r *run, ctx context.Context) error { return r.startAgents(ctx) }},
	{"report held", 5, func(r *run, ctx context.Context) error { return r.cluster.HoldReport(ctx, r.node()) }},
	{"report delivered", 4, func(r *run, ctx context.Context) error { return r.cluster.DeliverReport(ctx, r.node()) }},
	{"kubelet restarts", 2, func(r *run, ctx context.Context) error { return r.restartKubelet(ctx, r.node(), false) }},
	{"kubelet changes", 2, func(r *run, ctx context.Context) error { return r.restartKubelet(ctx, r.node(), true) }},
	{"scheduler killed", 4, func(r *run, ctx context.Context) error { return r.killScheduler(ctx) }},
	{"node lies", 4, func(r *run, ctx context.Context) error { return r.lie(ctx) }},
	{"users bind by hand", 3, func(r *run, ctx context.Context) error { return r.bindByHand(ctx) }},
	{"users forge identities", 5, func(r *run, ctx context.Context) error { return r.forge(ctx) }},
	{"API server restarts", 1, func(r *run, ctx context.Context) error { return r.restartServer(ctx) }},
	// Forged mirror pods last until the end of the round, and the effects of the other actions below for several
	// rounds.
	{"users forge mirror pods", 4, func(r *run, ctx context.Context) error { return r.forgeMirrors(ctx) }},
	{"agent is silent", 2, func(r *run, ctx context.Context) error { return r.silenceAgent(ctx) }},
	{"right withdrawn", 2, func(r *run, ctx context.Context) error { return r.withdraw(ctx) }},
	{"machine changes", 2, func(r *run, ctx context.Context) error { return r.changeMachine(ctx) }},
}

// gangActions are drawn, too, if pods come in gangs.
var gangActions = []action{
	{"gangs", 16, func(r *run, ctx context.Context) error { return r.createGangs(ctx, 1+r.rand.IntN(3)) }},
	{"gang deleted", 4, func(r *run, ctx context.Context) error { return r.deleteGang(ctx) }},
}

// act draws the next action and runs it. If the action fails, act counts a breakdown of the lab and restarts nodes
// whose processes have ended, so that the run can continue. It returns an error only if the round has timed out or
// such a restart fails.
func (r *run) act(round context.Context) error {
	ctx, cancel := context.WithTimeoutCause(round, actionTimeout, fmt.Errorf("not done after %s", actionTimeout))
	defer cancel()
	drawn := actions
	if r.Gangs {
		drawn = slices.Concat(actions, gangActions)
	}
	total := 0
	for _, a := range drawn {
		total += a.share
	}
	at, i := r.rand.IntN(total), 0
	for ; at >= drawn[i].share; i++ {
		at -= drawn[i].share
	}
	r.mu.Lock()
	r.result.Actions++
	r.mu.Unlock()
	r.say("%s", drawn[i].name)
	err := drawn[i].do(r, ctx)
	if err == nil {
		return nil
	}
	if round.Err() != nil {
		return fmt.Errorf("%s: %w", drawn[i].name, err)
	}
	r.breakdown(drawn[i].name, err)
	return r.restartDead(round)
}

// node draws a node, and returns its name.
func (r *run) node() string { return nodes[r.rand.IntN(len(nodes))].Name }

// drawAlive draws n of the pods that no action has deleted yet, or all if there are fewer, and returns their names.
// The result depends only on the seed and not on timing.
func (r *run) drawAlive(n int) []string {
	out := slices.Clone(r.alive)
	r.rand.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out[:min(n, len(out))]
}

// drawDoomed draws n pods, as drawAlive does. From then on they are not drawn again, because the caller deletes
// them.
func (r *run) drawDoomed(n int) []string {
	out := r.drawAlive(n)
	r.alive = slices.DeleteFunc(r.alive, func(name string) bool { return slices.Contains(out, name) })
	return out
}

// create creates n pods; foreign percent of them are for the default scheduler.
func (r *run) create(ctx context.Context, n, foreign int) error {
	for _, p := range r.drawPods(n, foreign) {
		if err := r.add(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// drawPods returns n random pods with new names, which the caller creates; foreign percent of them are for the
// default scheduler. It counts them as alive.
func (r *run) drawPods(n, foreign int) []*v1.Pod {
	var out []*v1.Pod
	for range n {
		r.created++
		name, scheduler := fmt.Sprintf("p%05d", r.created), tenonScheduler
		if r.rand.IntN(100) < foreign {
			name, scheduler = "f"+name, foreignScheduler
		}
		out = append(out, drawPod(r.rand, name, scheduler))
		r.alive = append(r.alive, name)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Pods += n
	return out
}

func (r *run) add(ctx context.Context, p *v1.Pod) error {
	return r.try(ctx, func() error {
		err := workload.Create(ctx, r.client, p.DeepCopy())
		if apierrors.IsAlreadyExists(err) {
			return nil // an earlier try, whose answer was lost, created it
		}
		return err
	})
}

// try repeats an operation until it succeeds, because the API server may be restarting. It returns an error only if
// ctx ends first.
func (r *run) try(ctx context.Context, do func() error) (err error) {
	pollErr := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(context.Context) (bool, error) {
		err = do()
		return err == nil, nil
	})
	if pollErr != nil {
		return fmt.Errorf("%w (last: %w)", pollErr, err)
	}
	return nil
}

// remove deletes the pods that exist among names. grace is the grace period in seconds: 0 deletes by force, nil leaves
// the pods' own.
func (r *run) remove(ctx context.Context, names []string, grace *int64) error {
	for _, name := range names {
		err := r.try(ctx, func() error {
			err := r.client.CoreV1().Pods(metav1.NamespaceDefault).Delete(ctx, name,
				metav1.DeleteOptions{GracePeriodSeconds: grace})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("delete pod %s: %w", name, err)
		}
	}
	return nil
}

// finish ends the containers of the named pods with success. It skips pods that do not run.
func (r *run) finish(ctx context.Context, names []string) error {
	for _, name := range names {
		l, ok := r.record.podNamed(name)
		if !ok || l.pod.Status.Phase != v1.PodRunning {
			continue
		}
		if err := r.cluster.FinishPod(ctx, l.pod.Spec.NodeName, string(l.pod.UID)); err != nil {
			r.say("pod %s ended otherwise: %v", name, err)
		}
	}
	return nil
}

// awaitFates waits until every pod is bound, or has a condition that it fits nowhere. It returns an error if the
// action's time ends first. It does not wait while schedulers lack what they need; see blind.
func (r *run) awaitFates(ctx context.Context) error {
	if r.blind() {
		return nil
	}
	var incomplete map[string]bool
	waits := func(l life) bool {
		fate, _ := workload.FateOf(l.pod)
		return !l.over() && !incomplete[string(l.pod.UID)] && fate == workload.Waiting && l.pod.Spec.NodeName == ""
	}
	err := r.record.wait(ctx, "all pods have a fate", func(lives []life) bool {
		incomplete = r.incomplete(lives)
		return !slices.ContainsFunc(lives, waits)
	})
	if err == nil {
		return nil
	}
	lives, _ := r.record.all()
	for _, l := range lives {
		if waits(l) {
			r.say("pod %s of %s has no fate, conditions %v:\n%s", l.pod.Name, l.pod.Spec.SchedulerName, l.pod.Status.Conditions,
				r.inspect("pods/"+l.pod.Namespace+"/"+l.pod.Name))
		}
	}
	for _, n := range nodes {
		r.say("node %s:\n%s", n.Name, r.knowledge(ctx, n.Name))
	}
	return err
}

// stopAgent ends a node's agent until startAgents or a restart of the kubelet. It does nothing if the agent already
// has an ailment.
func (r *run) stopAgent(ctx context.Context, node string) error {
	if r.hasAilment(node, silent) {
		return nil
	}
	r.stopped[node] = true
	return r.cluster.StopAgent(ctx, node)
}

// startAgents starts the agents that stopAgent ended.
func (r *run) startAgents(ctx context.Context) error {
	for _, n := range nodes {
		if r.stopped[n.Name] {
			delete(r.stopped, n.Name)
			if err := r.cluster.StartAgent(ctx, n.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxServerRestarts bounds the restarts of the API server: each leaves some 100 MB in this process.
const maxServerRestarts = 12

// restartServer restarts the API server, unless it was restarted maxServerRestarts times.
func (r *run) restartServer(ctx context.Context) error {
	if r.servers++; r.servers > maxServerRestarts {
		r.say("not again: it was restarted %d times", maxServerRestarts)
		return nil
	}
	err := r.cluster.RestartAPIServer(ctx)
	r.restarts = append(r.restarts, r.record.now())
	for tries := 2; err != nil && ctx.Err() == nil && tries > 0; tries-- {
		r.breakdown("the API server did not restart", err)
		err = r.cluster.RestartAPIServer(ctx)
	}
	return err
}

// policies are the topology policies and scopes that kubelets are restarted with, in turn. A change of other
// managers' policies would need an empty node.
var policies = [][2]string{{"restricted", "container"}, {"best-effort", "container"}, {"single-numa-node", "pod"},
	{"restricted", "pod"},
	{"single-numa-node", "container"}}

var (
	policyLine = regexp.MustCompile(`(?m)^topologyManagerPolicy: .*$`)
	scopeLine  = regexp.MustCompile(`(?m)^topologyManagerScope: .*$`)
)

// restartKubelet kills a node's kubelet and agent, and starts both again. If other is true, the kubelet starts with the
// next of policies, otherwise with the policy that it had.
func (r *run) restartKubelet(ctx context.Context, node string, other bool) error {
	yaml := r.cluster.KubeletYAML(node)
	if other {
		r.policy[node]++
		p := policies[r.policy[node]%len(policies)]
		yaml = policyLine.ReplaceAllString(yaml, "topologyManagerPolicy: "+p[0])
		yaml = scopeLine.ReplaceAllString(yaml, "topologyManagerScope: "+p[1])
	}
	r.say("kubelet of node %s: %s", node, rules{value(policyLine, yaml), value(scopeLine, yaml)})
	delete(r.stopped, node)
	r.forgetAilments(node)
	err := r.startKubelet(ctx, node, yaml)
	if file := tornFile(err); file != "" {
		if err = r.removeTorn(node, file); err == nil {
			err = r.startKubelet(ctx, node, yaml)
		}
	}
	return err
}

// removeTorn removes a state file that a killed kubelet left half written, so that it can start again.
func (r *run) removeTorn(node, file string) error {
	r.say("the kubelet of node %s was killed between two writes of its state; %s is removed, as its log asks for",
		node, file)
	return os.Remove(filepath.Join(r.cluster.NodeDir(node), file))
}

// torn has, by name, the state files that a kill between two writes can leave contradictory, and a part of the error
// with which the next kubelet then fails until the file is removed (Start of memorymanager/policy_static.go,
// validateState of cpumanager/policy_static.go). The kubelet fails some time after its start, so its process may
// carry out orders before that (see restartDead).
var torn = map[string]string{
	"memory_manager_state": "expected machine state is different from the real one",
	"cpu_manager_state":    "doesn't match with CPUs in state",
}

// tornFile returns the state file that keeps a kubelet from starting, or "".
func tornFile(err error) string {
	for _, file := range slices.Sorted(maps.Keys(torn)) {
		if err != nil && strings.Contains(err.Error(), torn[file]) {
			return file
		}
	}
	return ""
}

// startKubelet kills a node's kubelet and agent and starts both again. It returns nil as soon as the new process has
// started the agent. It returns an error if the process has ended, if a state file keeps the kubelet from starting,
// or if ctx ends.
func (r *run) startKubelet(ctx context.Context, node, yaml string) (err error) {
	if err := r.cluster.RestartKubelet(ctx, node, yaml); err != nil {
		return err
	}
	pollErr := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(context.Context) (bool, error) {
		if err = r.cluster.StartAgent(ctx, node); err == nil {
			return true, nil
		}
		ended := r.cluster.NodeErr(node)
		err = cmp.Or(ended, err)
		return ended != nil || tornFile(err) != "", nil
	})
	return errors.Join(pollErr, err)
}

// value returns the value that a line of YAML sets.
func value(line *regexp.Regexp, yaml string) string {
	_, v, _ := strings.Cut(line.FindString(yaml), ": ")
	return v
}

// killScheduler creates a burst of pods. Before one of them it stops Tenon's scheduler, and it starts the scheduler
// again after the last one.
func (r *run) killScheduler(ctx context.Context) error {
	pods := r.drawPods(4+r.rand.IntN(8), 20)
	if r.Gangs {
		name, g, members := r.drawGang()
		if err := r.addGroup(ctx, name, g.need); err != nil {
			return err
		}
		pods = slices.Concat(pods[:2], members, pods[2:])
	}
	at := r.rand.IntN(len(pods))
	for i, p := range pods {
		if i == at {
			if err := r.tenon.Stop(); err != nil {
				return err
			}
		}
		if err := r.add(ctx, p); err != nil {
			return err
		}
	}
	return r.startTenon()
}
