package chaos

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/deploy"
	"github.com/tenon-numa/tenon/lab/machines"
)

// This file has the ailments, which last for several rounds: agents that do not report, withdrawn rights, and
// machines that change under a running kubelet. While an ailment lasts, the run judges refusals and checks all other
// nodes as usual. At the end of the round in which the ailment ends, the run checks all nodes again.

// ailment is something wrong with a cluster that lasts for several rounds, and that Tenon has to endure. A fault, in
// contrast, is a violation by Tenon.
type ailment struct {
	what  string   // description, for the log
	nodes []string // their layouts may be old, or show another machine than the kubelet's
	// blind is true if, during the ailment, schedulers may lack data or rights without which they cannot schedule at
	// all.
	blind      bool
	kind       ailmentKind
	began      time.Time
	roundsLeft int // rounds until it ends
	// start is the start time of the node's kubelet. It is set only if the node's layout had that kubelet's machine
	// when the machine changed, and is zero otherwise.
	start metav1.MicroTime
	// end undoes what the ailment did.
	end func(context.Context) error
}

// ailmentKind is a kind of ailment. It determines what the scheduler has to report about the ailing nodes.
type ailmentKind int

const (
	withdrawn ailmentKind = iota // rights were withdrawn; nothing is to be reported
	silent                       // agents do not report; the nodes count as silent once a report is overdue
	changed                      // machines changed; the layouts show that the machine is not the kubelet's
)

// maxRounds bounds how many rounds an ailment lasts; a round takes some seconds. maxSilentRounds is the bound for
// agents that do not report. It is larger, because a node counts as silent only after more than a minute.
const maxRounds, maxSilentRounds = 6, 24

// beginAilment begins an ailment for a random number of rounds: it calls begin, and recover later calls end. It does
// nothing if the ailment conflicts with one that still lasts; see conflict.
func (r *run) beginAilment(ctx context.Context, a ailment, begin, end func(context.Context) error) error {
	rounds := maxRounds
	if a.kind == silent {
		rounds = maxSilentRounds
	}
	a.roundsLeft, a.began, a.end = 1+r.rand.IntN(rounds), time.Now(), end
	if slices.ContainsFunc(r.ailing, func(b *ailment) bool { return conflict(a, b) }) {
		return nil
	}
	r.say("from now on, for %d rounds: %s", a.roundsLeft, a.what)
	r.ailing = append(r.ailing, &a)
	return begin(ctx)
}

// conflict reports whether two ailments conflict: they are of the same kind and on the same nodes. Any two
// withdrawals of rights conflict, because both may change the same role, and each later restores the rules that it
// found.
func conflict(a ailment, b *ailment) bool {
	return a.kind == b.kind && (a.kind == withdrawn || slices.Equal(a.nodes, b.nodes))
}

// recover counts down one round, and ends the ailments whose rounds are over.
func (r *run) recover(ctx context.Context) error {
	for _, a := range slices.Clone(r.ailing) {
		if a.roundsLeft--; a.roundsLeft > 0 {
			continue
		}
		r.say("no longer, after %s: %s", time.Since(a.began).Round(time.Second), a.what)
		if err := a.end(ctx); err != nil {
			return fmt.Errorf("end %s: %w", a.what, err)
		}
		r.ailing = slices.DeleteFunc(r.ailing, func(b *ailment) bool { return a == b })
		r.regained = r.regained || a.blind
	}
	return nil
}

// hasAilment reports whether a node has an ailment of one of the kinds, or of any kind if none is given.
func (r *run) hasAilment(node string, kinds ...ailmentKind) bool {
	return slices.ContainsFunc(r.ailing, func(a *ailment) bool {
		return slices.Contains(a.nodes, node) && (len(kinds) == 0 || slices.Contains(kinds, a.kind))
	})
}

// blind reports whether a present ailment may keep schedulers from scheduling at all.
func (r *run) blind() bool {
	return slices.ContainsFunc(r.ailing, func(a *ailment) bool { return a.blind })
}

// lostMachine reports whether a node's machine changed before any agent published the machine with which the kubelet
// last started. An agent that starts after the change cannot read that machine, so the node's layout may show another
// one.
func (r *run) lostMachine(node string) bool {
	layout, _ := r.record.layoutOf(node)
	return slices.ContainsFunc(r.ailing, func(a *ailment) bool {
		return a.kind == changed && a.nodes[0] == node &&
			(layout == nil || a.start.IsZero() || !layout.Kubelet.Started.Equal(&a.start))
	})
}

// kubeletMachines returns the machines of the nodes' kubelets.
func kubeletMachines() (map[string]*topo.Machine, error) {
	out := map[string]*topo.Machine{}
	for _, n := range nodes {
		m, err := machines.Load(n.Machine)
		if err != nil {
			return nil, err
		}
		out[n.Name] = m.Topo
	}
	return out, nil
}

// sameHardware reports whether two machines have the same CPUs and hugepages.
func sameHardware(a, b *topo.Machine) bool {
	return a.CPUs().String() == b.CPUs().String() && slices.EqualFunc(a.NUMAs(), b.NUMAs(), func(x, y topo.NUMA) bool {
		return slices.Equal(x.Hugepages, y.Hugepages)
	})
}

// silenceAgent begins an ailment of an agent: the agent is ended and not started again, or gets no answers.
func (r *run) silenceAgent(ctx context.Context) error {
	node, hangs := r.node(), r.rand.IntN(2) == 0
	a := ailment{what: "agent of node " + node + " is ended", nodes: []string{node}, kind: silent}
	begin := func(ctx context.Context) error { return r.cluster.StopAgent(ctx, node) }
	end := func(ctx context.Context) error { return r.cluster.StartAgent(ctx, node) }
	if hangs {
		a.what = "agent of node " + node + " gets no answers"
		begin = func(ctx context.Context) error { return r.cluster.HangAgent(ctx, node) }
		end = func(ctx context.Context) error { return r.cluster.AnswerAgent(ctx, node) }
	}
	return r.beginAilment(ctx, a, begin, end)
}

// changeMachine takes CPUs of a node offline, or changes its hugepages, while its kubelet runs. The node's layout keeps
// the kubelet's machine, even when its agent starts again, so the run checks the node as usual.
func (r *run) changeMachine(ctx context.Context) error {
	node := r.node()
	// No machine of the run reserves these CPUs. On the first two machines they are on NUMA node 0, on the third also
	// on others.
	offline := idset.Of(pick(r.rand, [][]idset.CPU{nil, {7}, {6, 7}, {4, 5, 6, 7, 8, 9}}...)...)
	pages := pick[int64](r.rand, 0, -8, 8)
	a := ailment{what: fmt.Sprintf("machine of node %s lacks CPUs %q and has %+d hugepages", node, offline, pages),
		nodes: []string{node}, kind: changed}
	if offline.Empty() && (pages == 0 || node == nodes[1].Name) {
		return nil // nothing changes; the second machine has no hugepages
	}
	if layout, _ := r.record.layoutOf(node); layout != nil {
		if l, err := layout.Core(); err == nil && sameHardware(l.Machine, r.hardware[node]) {
			a.start = layout.Kubelet.Started
		}
	}
	begin := func(ctx context.Context) error { return r.cluster.ChangeMachine(ctx, node, offline, pages) }
	end := func(ctx context.Context) error { return r.cluster.ChangeMachine(ctx, node, idset.Set[idset.CPU]{}, 0) }
	return r.beginAilment(ctx, a, begin, end)
}

// right is a right that can be withdrawn: some verbs on one resource, which a ClusterRole grants.
type right struct {
	role, group, resource string
	verbs                 []string
	// reports is true if layouts may be old without the right. For blind see ailment.
	reports, blind bool
}

// rights are the rights of agents and schedulers that the run withdraws. Watches that are open when the verb watch is
// withdrawn continue; only later ones fail.
var rights = []right{
	{deploy.Agent, "tenon.sh", "nodelayouts", []string{"create", "patch"}, true, false},
	{deploy.Agent, "tenon.sh", "nodelayouts", []string{"get", "list", "watch"}, true, false},
	{deploy.Agent, "tenon.sh", "layoutbases", []string{"create", "patch"}, false, false},
	// An agent that starts writes nothing if it may not read its base.
	{deploy.Agent, "tenon.sh", "layoutbases", []string{"get", "list", "watch"}, true, false},
	{deploy.Agent, "", "nodes", []string{"get", "list", "watch"}, true, false},
	{deploy.Agent, "topology.node.k8s.io", "noderesourcetopologies", []string{"create", "patch"}, false, false},
	{deploy.Agent + "-pods", "", "pods", []string{"list", "watch"}, true, false},
	{deploy.Scheduler, "tenon.sh", "nodelayouts", []string{"get", "list", "watch"}, true, true},
	{deploy.Scheduler, "tenon.sh", "layoutbases", []string{"get", "list", "watch"}, true, true},
	{deploy.Scheduler, "tenon.sh", "nodelayouts/status", []string{"update"}, false, false},
	{deploy.Scheduler, "topology.node.k8s.io", "noderesourcetopologies", []string{"get", "list", "watch"}, true, true},
	{kubeScheduler, "", "events", []string{"create", "patch", "update"}, false, false},
	{kubeScheduler, "events.k8s.io", "events", []string{"create", "patch", "update"}, false, false},
	{kubeScheduler, "resource.k8s.io", "resourceslices", []string{"get", "list", "watch"}, true, true},
	{kubeScheduler, "", "pods", []string{"get", "list", "watch"}, true, true},
	{kubeScheduler, "", "pods/binding", []string{"create"}, false, true},
	{kubeScheduler, "", "pods/status", []string{"patch", "update"}, false, true},
}

// kubeScheduler is Kubernetes' own role of a scheduler.
const kubeScheduler = "system:kube-scheduler"

// withdraw withdraws a right of agents or schedulers.
func (r *run) withdraw(ctx context.Context) error {
	return r.withdrawRight(ctx, pick(r.rand, rights...))
}

func (r *run) withdrawRight(ctx context.Context, x right) error {
	a := ailment{what: fmt.Sprintf("%s may not %s %s", x.role, strings.Join(x.verbs, ", "), x.resource), blind: x.blind}
	if x.reports {
		for _, n := range nodes {
			a.nodes = append(a.nodes, n.Name)
		}
	}
	var original []rbacv1.PolicyRule
	begin := func(ctx context.Context) error {
		return r.changeRole(ctx, x.role, func(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
			original = rules
			return x.removeFrom(rules)
		})
	}
	return r.beginAilment(ctx, a, begin, func(ctx context.Context) error {
		return r.changeRole(ctx, x.role, func([]rbacv1.PolicyRule) []rbacv1.PolicyRule { return original })
	})
}

// changeRole replaces the rules of a ClusterRole by the result of a function of its present rules.
func (r *run) changeRole(ctx context.Context, name string,
	change func([]rbacv1.PolicyRule) []rbacv1.PolicyRule) error {
	return r.try(ctx, func() error {
		roles := r.client.RbacV1().ClusterRoles()
		role, err := roles.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		role.Rules = change(role.Rules)
		_, err = roles.Update(ctx, role, metav1.UpdateOptions{})
		return err
	})
}

// removeFrom returns the rules without the right x. It splits a rule that names x among others into one rule for each
// group and resource.
func (x right) removeFrom(rules []rbacv1.PolicyRule) (out []rbacv1.PolicyRule) {
	for _, rule := range rules {
		if !slices.Contains(rule.APIGroups, x.group) || !slices.Contains(rule.Resources, x.resource) {
			out = append(out, rule)
			continue
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				one := *rule.DeepCopy()
				one.APIGroups, one.Resources = []string{group}, []string{resource}
				if group == x.group && resource == x.resource {
					one.Verbs = slices.DeleteFunc(one.Verbs, func(v string) bool { return slices.Contains(x.verbs, v) })
				}
				if len(one.Verbs) > 0 {
					out = append(out, one)
				}
			}
		}
	}
	return out
}

// missingReports returns, as text, what the scheduler should report about ailing nodes and does not.
func (r *run) missingReports(lives []life) (out []string) {
	for _, a := range r.ailing {
		for _, node := range a.nodes {
			n := r.tenon.Shared.Book.Snapshot().Node(node)
			switch {
			case n == nil || r.blind():
			case a.kind == silent && r.overdue(node, a.began, lives) && !n.Silent:
				out = append(out, "node "+node+" does not count as silent, and a report of it is overdue")
			case a.kind == changed && len(r.ailing) == 1 && !machineChanged(n):
				out = append(out, "node "+node+" has another machine than its kubelet, and no layout shows that")
			}
		}
	}
	return out
}

// reportDue is longer than a minute: a node counts as silent when a pod has run for a minute and no report has it.
const reportDue = 75 * time.Second

// overdue reports whether a layout of the node is missing. This is so if a Guaranteed pod was bound to the node after
// the time since, its containers have run for longer than reportDue, and the node's last layout is older than the
// binding.
func (r *run) overdue(node string, since time.Time, lives []life) bool {
	layout, _ := r.record.layoutOf(node)
	if layout == nil {
		return false
	}
	version, err := strconv.ParseUint(layout.ResourceVersion, 10, 64)
	return err == nil && slices.ContainsFunc(lives, func(l life) bool {
		return l.pod.Spec.NodeName == node && !l.over() && l.pod.DeletionTimestamp == nil && l.started.known() &&
			l.pod.Status.QOSClass == v1.PodQOSGuaranteed && l.pod.Status.Phase == v1.PodRunning &&
			l.bound.at.After(since) && time.Since(l.started.at) > reportDue && version < l.bound.version
	})
}

// machineChanged reports whether the node's layout shows that its machine is not its kubelet's.
func machineChanged(n *state.Node) bool {
	return slices.ContainsFunc(n.Inexact, func(i state.Inexact) bool { return i.Code == state.MachineChanged })
}

// forgetAilments drops the ailments of a node whose kubelet and agent start again.
func (r *run) forgetAilments(node string) {
	r.ailing = slices.DeleteFunc(r.ailing, func(a *ailment) bool {
		return a.kind != withdrawn && slices.Contains(a.nodes, node)
	})
}
