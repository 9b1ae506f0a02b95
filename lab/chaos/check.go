package chaos

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tenon-numa/tenon/api/document"
	podapi "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/lab/workload"
)

// patience bounds how long the cluster may take to settle after the last action. These may follow on each other: a
// minute until a node counts as silent, the 30 seconds after which a pod loses its turn, and its back-off of ten
// seconds.
const patience = 2 * time.Minute

// settle starts nodes and agents that do not run, ends the ailments whose rounds are over, and delivers held reports.
// Then it waits until no pod is restless. If pods stay restless for longer than patience, it records that as a
// violation. It does not wait while schedulers are blind.
func (r *run) settle(ctx context.Context) error {
	if err := r.restartDead(ctx); err != nil {
		return err
	}
	if err := r.startAgents(ctx); err != nil {
		return err
	}
	if err := r.recover(ctx); err != nil {
		return err
	}
	for _, n := range nodes {
		if err := r.cluster.DeliverReport(ctx, n.Name); err != nil {
			r.breakdown("report delivered", err)
		}
	}
	if r.blind() {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not settled after %s", patience))
	defer cancel()
	began, last := time.Now(), []life(nil)
	err := r.record.wait(ctx, "all pods settle", func(lives []life) bool {
		still := r.restless(lives)
		if len(still) > 0 {
			last = still
		}
		return len(still) == 0
	})
	if took := time.Since(began); err == nil && took > patience/8 {
		r.say("settled only after %s: %s", took.Round(time.Millisecond), strings.Join(statesOf(last), ", "))
	}
	if err != nil {
		lives, _ := r.record.all()
		if all := r.withoutUnplaced(r.restless(lives)); len(all) > 0 {
			var b strings.Builder
			for _, l := range all {
				b.WriteString("\n" + r.inspect("pods/"+l.pod.Namespace+"/"+l.pod.Name))
			}
			r.fault("%v: %s%s", err, strings.Join(statesOf(all), ", "), b.String())
		}
	}
	return nil
}

// withoutUnplaced omits the pods for which their scheduler found no node. kube-scheduler writes that into a pod's
// status only once. If the API server is restarted at that moment, or schedulers may not write that, the write is lost,
// and the pod seems to wait for its first attempt until the next one. For its own pods, Tenon's scheduler has a record
// of the last attempt. The default scheduler has none, so its unbound pods are omitted in rounds in which the API
// server was restarted, or schedulers got a right back.
func (r *run) withoutUnplaced(lives []life) (out []life) {
	for _, l := range lives {
		unplaced := false
		switch stage := r.lastStage(l); {
		case l.pod.Spec.NodeName != "":
		case l.pod.Spec.SchedulerName == foreignScheduler:
			unplaced = r.servers > r.earlier || r.regained
		default:
			unplaced = stage == document.Judged || stage == document.Released
		}
		if !unplaced {
			out = append(out, l)
		}
	}
	return out
}

// restless returns the pods in a state that must not last: pods that are being deleted, and pods that have neither
// started nor been refused, and for which no scheduler has reported that they fit nowhere.
func (r *run) restless(lives []life) (out []life) {
	incomplete := r.incomplete(lives)
	for _, l := range lives {
		fate, _ := workload.FateOf(l.pod)
		if l.gone.known() || isAttackersNode(l.pod.Spec.NodeName) {
			continue
		}
		if podapi.Mirror(l.pod) && l.pod.Spec.NodeName != "" {
			continue // kubelets never run a mirror that a user made
		}
		waits := l.pod.Spec.NodeName != "" || !incomplete[string(l.pod.UID)]
		if l.pod.DeletionTimestamp != nil || !l.over() && waits && fate == workload.Waiting {
			out = append(out, l)
		}
	}
	return out
}

// statesOf describes, for each restless pod, what it waits for.
func statesOf(lives []life) (out []string) {
	for _, l := range lives {
		why := fmt.Sprintf("%s waits (node %q)", l.pod.Name, l.pod.Spec.NodeName)
		if l.pod.DeletionTimestamp != nil {
			why = l.pod.Name + " is being deleted"
		}
		out = append(out, why)
	}
	return out
}

// check repeats the checks of a round until none fails, and then returns true: the ledger agrees with the managers,
// refusals are in the pods' status, no pod or gang waits although it fits, no gang runs in part, and the scheduler
// reports what it has to about ailing nodes. If a check still fails after patience, it records violations and returns
// false.
func (r *run) check(ctx context.Context) bool {
	return r.await(ctx, func() []string {
		lives, _ := r.record.all()
		return slices.Concat(r.disagreements(lives), r.unreported(lives), r.waitingThoughFitting(ctx, lives),
			r.halfGangs(lives), r.gangsThoughFitting(ctx, lives), r.missingReports(lives))
	})
}

// disagreements returns the differences between the ledger and the managers of all nodes.
func (r *run) disagreements(lives []life) (wrong []string) {
	for _, n := range nodes {
		if r.hasAilment(n.Name, withdrawn, silent) || r.lostMachine(n.Name) {
			continue
		}
		for _, w := range r.differences(n.Name, lives) {
			wrong = append(wrong, "node "+n.Name+": "+w)
		}
	}
	return wrong
}

// unreported returns the pods that a kubelet has refused, but whose status does not show the refusal yet. A kubelet
// that has just started reports a refusal up to ten seconds late, because its status manager keeps the phase until
// the pod workers have all pods (pkg/kubelet/status/status_manager.go, mergePodStatus). The run must keep the record
// of the decision until then.
func (r *run) unreported(lives []life) (out []string) {
	for _, n := range nodes {
		layout, _ := r.record.layoutOf(n.Name)
		if layout == nil {
			continue
		}
		c, err := layout.Core()
		if err != nil {
			continue // another check finds it
		}
		all, err := readJournal(r.cluster.NodeDir(n.Name), c.Machine)
		if err != nil {
			out = append(out, fmt.Sprintf("node %s: %v", n.Name, err))
		}
		for _, l := range lives {
			at := lastOf(all, func(a admission) bool { return a.UID == string(l.pod.UID) })
			if at >= 0 && !all[at].Admitted && !l.over() && !l.gone.known() && l.pod.Spec.NodeName == n.Name {
				out = append(out, fmt.Sprintf("node %s has refused pod %s and does not say so", n.Name, l.pod.Name))
			}
		}
	}
	return out
}

// await repeats a check until it returns no violations, and then returns true. After patience it records the
// violations that remain and returns false.
func (r *run) await(ctx context.Context, wrong func() []string) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var last []string
	began := time.Now()
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(context.Context) (bool, error) {
		last = wrong()
		return len(last) == 0, nil
	})
	if err == nil {
		if took := time.Since(began); took > patience/8 {
			r.say("agreed only after %s", took.Round(time.Millisecond))
		}
		return true
	}
	for _, w := range last {
		r.fault("%s", w)
	}
	for _, n := range nodes {
		r.say("what is known of it\n%s", r.knowledge(ctx, n.Name))
	}
	return false
}

// differences returns the differences between the ledger and the managers of a node, and the entries that the ledger
// is still unsure of.
func (r *run) differences(node string, lives []life) (out []string) {
	n := r.tenon.Shared.Book.Snapshot().Node(node)
	if n == nil {
		return []string{"the book does not know it"}
	}
	have, err := managers(r.cluster.NodeDir(node))
	if err != nil {
		return []string{err.Error()}
	}
	if len(n.Others) > 0 || n.Unsettled {
		out = append(out, fmt.Sprintf("it may be in %d other states (unsettled: %t)", len(n.Others), n.Unsettled))
	}
	if n.Silent {
		out = append(out, "it counts as silent, and its agent reports")
	}
	if machineChanged(n) && !r.hasAilment(node, changed) {
		out = append(out, "its layout still says that its machine is not the kubelet's")
	}
	if !sameHardware(n.Machine, r.hardware[node]) {
		out = append(out, "its layout has another machine than its kubelet")
	}
	books := map[string]state.Entry{}
	for _, e := range n.Entries {
		books[e.Pod.UID] = e
		if e.Source != state.Observed {
			out = append(out, fmt.Sprintf("pod %s is still on its way", e.Pod))
		}
		if r.tenon.Shared.Book.Doubted(e.Pod.UID) {
			out = append(out, fmt.Sprintf("whether pod %s is there is in doubt", e.Pod))
		}
	}
	for _, l := range lives {
		uid := string(l.pod.UID)
		if l.over() || l.pod.Spec.NodeName != node {
			continue
		}
		if book := ledgerText(n.Machine, books[uid].Holdings); !maps.Equal(book, have[uid]) {
			out = append(out, fmt.Sprintf("pod %s holds %v by the book and %v by the managers", l.pod.Name, book, have[uid]))
		}
		if r.tenon.Shared.Book.Booked(node, uid) {
			out = append(out, fmt.Sprintf("pod %s is still on its way, holding nothing", l.pod.Name))
		}
		delete(books, uid)
	}
	for _, e := range books {
		at := slices.IndexFunc(lives, func(l life) bool { return string(l.pod.UID) == e.Pod.UID })
		switch {
		case at >= 0 && !lives[at].over() && lives[at].pod.Spec.NodeName == "":
			out = append(out, fmt.Sprintf("pod %s is in the book, and not bound", e.Pod))
		default:
			out = append(out, fmt.Sprintf("pod %s is in the book, and has ended", e.Pod))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// waitingThoughFitting returns pods of Tenon's scheduler without a gang that wait although they fit a node.
func (r *run) waitingThoughFitting(ctx context.Context, lives []life) (out []string) {
	if r.blind() {
		return nil
	}
	for _, l := range lives {
		if l.over() || !l.tenon() || l.pod.Spec.NodeName != "" || l.pod.Labels[gangLabel] != "" {
			continue
		}
		p, err := podapi.ToPlace(l.pod)
		if err != nil {
			out = append(out, err.Error())
			continue
		}
		lacks, err := r.reader.Lacks(ctx, l.pod)
		if err != nil {
			return append(out, err.Error())
		}
		snap := r.tenon.Shared.Book.Snapshot()
		for _, n := range nodes {
			x := snap.Node(n.Name)
			if x != nil && !r.hasAilment(n.Name) && !r.isKept(n.Name, lives) && len(lacks[n.Name]) == 0 &&
				x.Place(p, place.Demand{}).Fits() {
				_, why := workload.FateOf(l.pod)
				out = append(out, fmt.Sprintf("pod %s waits though it fits node %s; it was told: %s", l.pod.Name, n.Name, why))
			}
		}
	}
	return out
}

// probeNodes schedules a small pod to every node with room, waits until the pods run, and deletes them. A node that
// has refused a shape, or was unsettled, must accept pods again after its next report. If a node does not, probeNodes
// records a violation.
func (r *run) probeNodes(ctx context.Context) error {
	var names []string
	probes := map[string]*v1.Pod{} // by node
	for _, n := range nodes {
		if r.blind() || r.hasAilment(n.Name) {
			continue
		}
		pod := probePod(fmt.Sprintf("probe%05d-%s", r.result.Rounds, n.Name), n.Name)
		if room, err := r.hasRoom(ctx, pod, n.Name); err != nil {
			return err
		} else if !room {
			continue
		}
		if err := r.add(ctx, pod); err != nil {
			return err
		}
		names, probes[n.Name] = append(names, pod.Name), pod
	}
	r.await(ctx, func() (wrong []string) {
		for _, node := range slices.Sorted(maps.Keys(probes)) {
			l, ok := r.record.podNamed(probes[node].Name)
			if ok && l.pod.Status.Phase == v1.PodRunning {
				continue
			}
			// A pod that waited longer may have taken the room.
			if room, err := r.hasRoom(ctx, probes[node], node); err != nil || room {
				_, why := workload.FateOf(l.podOrNone())
				wrong = append(wrong, fmt.Sprintf("pod %s fits and does not run: %s", probes[node].Name, why))
			}
		}
		return wrong
	})
	if err := r.remove(ctx, names, nil); err != nil {
		return err
	}
	r.await(ctx, func() (wrong []string) {
		for _, n := range nodes {
			if x := r.tenon.Shared.Book.Snapshot().Node(n.Name); x != nil && len(x.Refused) > 0 && slices.ContainsFunc(names,
				func(name string) bool { return strings.HasSuffix(name, n.Name) }) {
				wrong = append(wrong, fmt.Sprintf("node %s has reported since it refused %v", n.Name, x.Refused))
			}
		}
		return wrong
	})
	return nil
}

// hasRoom reports whether a node has room for a pod, by the ledger and by the amounts at the API server. It is false
// if the ledger does not have the node, or kube-scheduler keeps room there for a gang that is not complete.
func (r *run) hasRoom(ctx context.Context, pod *v1.Pod, node string) (bool, error) {
	p, err := podapi.ToPlace(pod)
	if err != nil {
		return false, err
	}
	lacks, err := r.reader.Lacks(ctx, pod)
	if err != nil {
		return false, err
	}
	lives, _ := r.record.all()
	x := r.tenon.Shared.Book.Snapshot().Node(node)
	return x != nil && !r.isKept(node, lives) && len(lacks[node]) == 0 && place.Fits(x.Usage, p), nil
}

// podOrNone returns the pod, or an empty one.
func (l life) podOrNone() *v1.Pod {
	if l.pod == nil {
		return &v1.Pod{}
	}
	return l.pod
}

// judgeRefusals judges the refused pods of Tenon's scheduler that it has not judged before.
func (r *run) judgeRefusals() {
	lives, _ := r.record.all()
	for _, l := range lives {
		if uid := string(l.pod.UID); !l.tenon() || !refused(l) || r.judged[uid] {
			continue
		} else {
			r.judged[uid] = true
		}
		v, err := r.judge(l, lives)
		if err != nil {
			r.breakdown("a refusal cannot be judged", fmt.Errorf("pod %s: %w", l.pod.Name, err))
			continue
		}
		r.say("refused: %s", v)
		r.mu.Lock()
		r.result.Refusals[string(v.why)]++
		r.mu.Unlock()
		if v.why == knowable {
			r.fault("%s", v)
			r.mu.Lock()
			evidence := r.evidence[string(l.pod.UID)].text
			r.mu.Unlock()
			r.say("schedulers begun: %v; node's pods:\n%s%s", r.begun, describeNeighbours(l, lives), evidence)
		}
	}
}

// judge returns the cause of the refusal of one pod, by the records of the pod's node.
func (r *run) judge(l life, lives []life) (refusal, error) {
	node := l.pod.Spec.NodeName
	layout, allocatable := r.record.layoutOf(node)
	if layout == nil {
		return refusal{}, fmt.Errorf("node %s has no layout", node)
	}
	c, err := layout.Core()
	if err != nil {
		return refusal{}, err
	}
	s := &scene{machine: c.Machine, rules: c.Rules, allocatable: allocatable, lives: lives,
		agentSince: r.record.agentSince}
	if s.admissions, err = readJournal(r.cluster.NodeDir(node), c.Machine); err != nil {
		return refusal{}, err
	}
	r.mu.Lock()
	e := r.evidence[string(l.pod.UID)]
	s.decided, s.silent, s.remade = e.decided, e.silent, e.remade
	r.mu.Unlock()
	for _, d := range r.received {
		if s.received == nil || d.began.version <= l.bound.version {
			s.received = d
		}
	}
	return s.judge(l), nil
}

// maxLog bounds the logs of the nodes' processes, in bytes, because they are in a memory file system.
const maxLog = 16 << 20

// clean deletes the pods that have ended and half of the others, in every third round all, so that the next round has
// room and the run does not grow. It then checks the cluster once more, and drops the records of pods that are gone.
func (r *run) clean(ctx context.Context) error {
	lives, _ := r.record.all()
	const all = 3 // every third round, all pods are deleted
	n := len(r.alive) / 2
	if r.result.Rounds%all == 0 {
		n = len(r.alive)
	}
	drop := r.drawDoomed(n)
	var ended []string
	for _, l := range lives {
		if l.over() && !l.gone.known() {
			ended = append(ended, l.pod.Name)
		}
	}
	if err := r.remove(ctx, ended, nil); err != nil {
		return err
	}
	if err := r.remove(ctx, drop, nil); err != nil {
		return err
	}
	if err := r.dropMirrors(ctx); err != nil {
		return err
	}
	if r.result.Rounds%all == 0 {
		if err := r.dropByHand(ctx, len(r.attackers.byHand)); err != nil {
			return err
		}
	}
	err := r.record.wait(ctx, "deleted pods are gone", func(lives []life) bool {
		return !slices.ContainsFunc(lives, func(l life) bool {
			return !l.gone.known() && (l.pod.DeletionTimestamp != nil || slices.Contains(drop, l.pod.Name))
		})
	})
	if err != nil {
		return err
	}
	r.check(ctx)
	r.judgeRefusals() // of pods that found room just now
	r.record.forget()
	if err := r.forget(); err != nil {
		return err
	}
	lives, _ = r.record.all()
	if err := r.forgetGangs(ctx, lives); err != nil {
		return err
	}
	maps.DeleteFunc(r.judged, func(uid string, _ bool) bool {
		return !slices.ContainsFunc(lives, func(l life) bool { return string(l.pod.UID) == uid })
	})
	r.mu.Lock()
	clear(r.evidence)
	r.mu.Unlock()
	return r.truncate()
}

// forget drops the records of pods that are gone, the records of schedulers that have ended, and the nodes' journals.
func (r *run) forget() error {
	lives, _ := r.record.all()
	there := map[string]bool{}
	for _, l := range lives {
		there[string(l.pod.UID)] = true
	}
	r.received = r.received[len(r.received)-1:]
	r.received[0].forget(func(uid string) bool { return there[uid] })
	for _, n := range nodes {
		if err := forgetJournal(r.cluster.NodeDir(n.Name)); err != nil {
			return err
		}
	}
	return nil
}

// truncate empties logs that have grown large.
func (r *run) truncate() error {
	logs := []string{"control-plane.log"}
	for _, n := range nodes {
		logs = append(logs, "kubelet-"+n.Name+".log")
	}
	for _, name := range logs {
		path := filepath.Join(r.cluster.Dir, name)
		if info, err := os.Stat(path); err == nil && info.Size() > maxLog {
			if err := os.Truncate(path, 0); err != nil {
				return err
			}
		}
	}
	return nil
}
