package kubelet_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	configv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/place/scenario"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/node/kubelet"
)

// The judge: the kubelet's own managers do the steps of a scenario, and every verdict of place, and after every step
// what is left, must equal theirs.

// oracle is the judged function: place.Place, or one with a deliberate fault.
type oracle func(*place.Usage, *place.Pod) place.Verdict

// trial is a running scenario on both sides.
type trial struct {
	node    *scenario.Node // what the managers recorded
	by      judge
	real    judged
	dir     string
	predict oracle
	count   *tally
	extras
	config *configv1beta1.KubeletConfiguration

	pods    []*v1.Pod
	specs   map[string]*place.Pod // by name
	started map[string]bool       // pods whose containers have started

	chain chain
	// unnoticed: pods have ended, and the managers have not noticed yet. mingled: some had memory on several NUMA
	// nodes, or there were groups of these, and the managers free that in random order.
	unnoticed, mingled bool
	// failed are the resources whose plugin has failed during this admission. stranded are the resources for which the
	// device manager has lost devices thereby.
	failed, stranded map[string]bool
	// asked is set if the managers were asked about the latest pod, and latest is what they said then.
	asked  bool
	latest lifecycle.PodAdmitResult
}

// difference is how the two sides differ.
type difference struct{ about, text string }

func (d difference) Error() string { return d.about + ": " + d.text }

// Kinds of differences: a smaller scenario must fail about the same.
const (
	aboutPanic       = "panic"
	aboutTranslation = "translation"
	aboutVerdict     = "verdict"
	aboutHoldings    = "holdings"
	aboutPredicted   = "what is left as predicted"
	aboutLeft        = "what is left"
	aboutChain       = "what follows from earlier predictions"
	aboutRestart     = "restart"
)

func differs(about, format string, args ...any) error {
	return difference{about, fmt.Sprintf(format, args...)}
}

// A trial ends if the managers' own records contradict each other: holdings then do not show what the managers regard
// as free.
var (
	errOver  = errors.New("the managers contradict themselves")
	errTwice = fmt.Errorf("%w: one CPU is held by two containers, or held and free", errOver)
)

// newTrial starts the managers on the machine of a scenario, in an empty directory of their own.
func newTrial(ctx context.Context, j judge, dir string, s *scenario.Scenario, x extras, predict oracle,
	count *tally) (*trial, error) {
	c := configuration(s)
	rules, err := rulesOf(c, s.Machine, j.release())
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	if err := reservable(s.Machine, rules); err != nil {
		return nil, err
	}
	t := &trial{node: s.Begin(), by: j, dir: dir, predict: predict, count: count, extras: x, config: c,
		specs: map[string]*place.Pod{}, started: map[string]bool{}, failed: map[string]bool{}, stranded: map[string]bool{}}
	t.node.Rules = rules
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if t.real, err = j.open(ctx, dir, s.Machine, c, t.active); err != nil {
		return nil, fmt.Errorf("the managers do not start: %w", err)
	}
	t.resync()
	return t, t.connect(ctx)
}

// connect gives the plugins their preferences.
func (t *trial) connect(ctx context.Context) error {
	for name, p := range t.prefers {
		r, ok := t.node.Machine.Resource(name)
		if !ok {
			continue
		}
		if err := t.real.Prefer(ctx, name, p.prefer(r, func() { t.failed[name] = true })); err != nil {
			return err
		}
	}
	return nil
}

// reservable refuses what the memory manager accepts and then miscounts: it subtracts reservations from what a NUMA
// node has in unsigned numbers (memorymanager/policy_static.go, getDefaultMachineState).
func reservable(m *topo.Machine, r place.Rules) error {
	if !r.Memory.Static {
		return nil
	}
	total := map[place.Reserved]int64{} // Bytes are left out of the key
	for _, x := range r.Memory.Reserved {
		k := place.Reserved{NUMA: x.NUMA, Kind: x.Kind}
		total[k] += x.Bytes
		if at, ok := m.Position(x.NUMA); !ok || total[k] > m.NUMAs()[at].Capacity(x.Kind) {
			return fmt.Errorf("numa %d has less %s than is reserved", x.NUMA, x.Kind)
		}
	}
	return nil
}

// end stops the managers.
func (t *trial) end() {
	_ = t.real.Stop()
	_ = os.RemoveAll(t.dir)
}

// active lists the active pods.
func (t *trial) active() []*v1.Pod { return slices.Clone(t.pods) }

func (t *trial) pod(name string) *v1.Pod {
	i := slices.IndexFunc(t.pods, func(p *v1.Pod) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return t.pods[i]
}

// step does a step on both sides. A difference is an error of type difference.
func (t *trial) step(st scenario.Step) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = differs(aboutPanic, "%v", r)
		}
	}()
	t.count.steps[st.Do]++
	switch st.Do {
	case scenario.Admit:
		err = t.admit(st)
	case scenario.Start:
		if pod := t.pod(st.Name); pod != nil {
			t.real.StartContainers(pod)
			t.started[st.Name] = true
		}
	case scenario.Remove:
		t.drop(st.Name)
	case scenario.End:
		t.leave(st.Name)
	case scenario.Restart:
		err = t.restart()
	}
	if st.Do != scenario.Admit { // an admission updates it itself
		t.chain.follow(t, st)
	}
	t.node.Do(st)
	if st.Do == scenario.Unhealthy || st.Do == scenario.Healthy {
		t.real.Announce(t.node.Machine)
	}
	var d difference
	doubtful := err == nil || errors.As(err, &d) && (d.about == aboutPredicted || d.about == aboutChain)
	if fault := t.contradiction(); fault != nil && doubtful {
		t.count.faults = counted(t.count.faults, fault.Error(), 1)
		return fault
	}
	if err != nil || t.unnoticed {
		return err
	}
	u, err := t.usage()
	if err != nil {
		return err
	}
	return t.left(aboutLeft, "after "+st.Do.String()+" "+st.Name, u, byID)
}

// usage returns what a node agent would publish: the holdings in the managers' records, and their state file's data
// about memory that does not follow from the holdings.
func (t *trial) usage() (*place.Usage, error) {
	groups, err := t.groups()
	if err != nil {
		return nil, err
	}
	return t.node.Usage().WithGroups(groups), nil
}

// groups returns the memory manager's own count where it does not follow from the holdings.
func (t *trial) groups() (map[int]place.MemoryGroup, error) {
	data, err := os.ReadFile(filepath.Join(t.dir, kubelet.MemoryStateFile))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	memory, err := kubelet.ParseMemoryState(data)
	if err != nil {
		return nil, err
	}
	var entries []state.Entry
	for _, p := range t.node.Pods {
		entries = append(entries, state.Entry{Pod: state.PodID{UID: p.Name, Namespace: "default", Name: p.Name},
			Holdings: p.Holdings})
	}
	o := kubelet.Observation{Memory: memory}
	return o.Groups(t.node.Machine, t.node.Rules, entries, byName{}), nil
}

// byName has every pod: its UID is its name.
type byName struct{}

func (byName) Pod(namespace, name string) (kubelet.Pod, bool) {
	return kubelet.Pod{ID: state.PodID{UID: name, Namespace: namespace, Name: name}, StateUID: name}, true
}

// leave ends a pod without notifying the managers.
func (t *trial) leave(name string) {
	pod := t.pod(name)
	if pod == nil {
		return
	}
	if u, err := t.usage(); err == nil {
		_, grouped := u.MemoryGroups()
		t.mingled = t.mingled || grouped != 0 || t.spans(name)
	}
	t.unnoticed = true
	t.real.Forget(pod)
	t.pods = slices.DeleteFunc(slices.Clone(t.pods), func(p *v1.Pod) bool { return p == pod })
}

// spans reports whether a block of the pod's memory lies on several NUMA nodes. The managers free the blocks of ended
// pods in the random order of a map, and what each NUMA node gets back of such a block depends on that order.
func (t *trial) spans(name string) bool {
	for _, p := range t.node.Pods {
		for _, h := range p.Holdings {
			if p.Name == name && slices.ContainsFunc(h.Memory, func(b place.Block) bool { return b.NUMAs.Len() > 1 }) {
				return true
			}
		}
	}
	return false
}

// drop ends a pod, and lets the managers notice.
func (t *trial) drop(name string) {
	if t.pod(name) == nil {
		return
	}
	mingled := t.mingled
	if t.holdsDevices(name) {
		clear(t.stranded)
	}
	t.leave(name)
	t.real.Collect()
	t.unnoticed, t.mingled = false, mingled && t.unnoticed
}

// holdsDevices reports whether the device manager has devices of a pod. When such a pod ends, it counts all devices
// again, and finds those that a failing plugin made it lose (devicemanager/manager.go, UpdateAllocatedDevices).
func (t *trial) holdsDevices(name string) bool {
	pod := t.pod(name)
	all := append(slices.Clone(pod.Spec.InitContainers), pod.Spec.Containers...)
	return slices.ContainsFunc(all, func(c v1.Container) bool {
		return len(t.real.Holding(pod.UID, c.Name).Devices) > 0
	})
}

// podOf returns the pod of a step as a user wrote it, if that is known and still agrees with the step.
func (t *trial) podOf(st scenario.Step) *v1.Pod {
	if pod := t.written[st.Name]; pod != nil && asTheKubeletReads(pod).Shape() == st.Pod.Shape() {
		return pod
	}
	return podOf(st)
}

func (t *trial) admit(st scenario.Step) error {
	t.asked = false
	pod := t.podOf(st)
	if read, err := mistranslated(pod, &st.Pod); err != nil || read != "" {
		return differs(aboutTranslation, "pod %s is %s and reads as %s (%v)", st.Name, st.Pod.Shape(), read, err)
	}
	before, err := t.usage()
	if err != nil {
		return err
	}
	v := t.predict(before, &st.Pod)
	if fits := place.Fits(before, &st.Pod); fits != place.Place(before, &st.Pod).Fits() {
		return differs(aboutVerdict, "pod %s: Fits says %v, Place says otherwise", st.Name, fits)
	}
	if v.Fits() && !place.Judge(before, &st.Pod, v, st.Demand).Fits() {
		return nil // the node would accept it; the scheduler does not
	}
	if loops(v) { // see TestPodsThatLoopTheKubelet
		t.count.refused = counted(t.count.refused, "looping", 1)
		t.count.skip("the CPU manager loops forever")
		return nil
	}
	if panics(v) {
		return t.crash(pod)
	}
	clear(t.failed)
	mingled := t.mingled
	t.pods, t.specs[st.Name] = append(slices.Clone(t.pods), pod), &st.Pod
	got, ok := t.decide(pod, patience)
	if !ok {
		return fmt.Errorf("pod %s: the managers do not answer within %v", st.Name, patience)
	}
	t.asked, t.latest = true, got
	t.unnoticed, t.mingled = false, false
	return t.judge(st, before, v, got, mingled)
}

// errPanicked ends a trial: a manager has panicked, as predicted, and a kubelet with it.
var errPanicked = fmt.Errorf("%w: a manager has panicked, as foretold", errOver)

// panics reports whether place expects that the pod makes a manager panic.
func panics(v place.Verdict) bool {
	return slices.ContainsFunc(v.Reasons, func(r place.Reason) bool { return r.Code == place.NoPages })
}

// crash has the managers admit a pod on which one of them has to panic.
func (t *trial) crash(pod *v1.Pod) (err error) {
	t.pods = append(slices.Clone(t.pods), pod)
	defer func() {
		if recover() != nil {
			t.count.refused = counted(t.count.refused, "panics", 1)
			err = errPanicked
		}
	}()
	got, _ := t.decide(pod, patience)
	return differs(aboutPanic, "pod %s: the managers say %v %q (%s), place says that one panics", pod.Name, got.Admit,
		got.Reason, got.Message)
}

// freedInAnyOrder is why an admission is not judged after pods have ended whose memory was on several NUMA nodes: what
// each NUMA node has then is random, and so may be the outcome.
const freedInAnyOrder = "pods with memory of groups ended together, and the kubelet frees them in any order"

// judge compares a verdict with the managers' answer, and its holdings with their records.
func (t *trial) judge(st scenario.Step, before *place.Usage, v place.Verdict, got lifecycle.PodAdmitResult,
	mingled bool) error {
	pod := t.pod(st.Name)
	sure := t.sure(&st.Pod, v)
	all := sure == len(st.Pod.Containers)
	why := t.excused(&st.Pod, v, got, mingled)
	excused := why != ""
	t.count.admission(v, got.Reason)
	if why == "" && all && (string(v.Refusal) != got.Reason || v.Fits() != got.Admit) {
		return differs(
			aboutVerdict,
			"pod %s: the managers say %q (%s), place says %q %v",
			st.Name,
			got.Reason,
			got.Message,
			v.Refusal,
			texts(v.Reasons),
		)
	}
	if why == "" && !all {
		why = "the outcome depends on devices that are drawn"
	}
	if why != "" {
		t.count.skip(why)
	}
	if !got.Admit {
		t.strand(st.Name)
		t.drop(st.Name)
		if err := t.chain.refused(t, st, before, why == ""); err != nil {
			return err
		}
		if why == "" && len(v.Reasons) == 0 {
			return differs(aboutVerdict, "pod %s: refused without a reason", st.Name)
		}
		return nil
	}
	seen := t.seen(pod, &st.Pod)
	defer t.node.Hold(st.Name, seen)
	if !v.Fits() || excused { // nothing was predicted, or the prediction is excused
		t.chain.broken = true
		return nil
	}
	if err := t.same(st.Name, &st.Pod, v, seen, sure); err != nil && mingled {
		t.count.skip(freedInAnyOrder)
		t.chain.broken = true
		return nil
	} else if err != nil {
		return err
	}
	if err := t.chain.admitted(t, st, before, seen, all && !v.Chance); err != nil || !all {
		return err
	}
	if mingled { // what ended pods have left on each NUMA node is random
		return nil
	}
	how := byNUMA
	if v.Chance {
		how = noDevices
	}
	return t.left(aboutPredicted, "after admit "+st.Name, before.Hold(v.Holdings...), how)
}

// sure returns how many of the pod's containers have the verdict's holdings whichever devices are chosen. A container
// depends on the choice if it is aligned separately, and if an earlier container got devices of a resource that it
// requests and these may be on other NUMA nodes.
func (t *trial) sure(p *place.Pod, v place.Verdict) int {
	topology := t.node.Rules.Topology
	if topology.Policy == place.None || topology.Scope == place.PerPod {
		return len(p.Containers)
	}
	if !v.Fits() {
		if v.Chance {
			return 0
		}
		return len(p.Containers)
	}
	drawn := map[string]bool{}
	for i, c := range p.Containers {
		if slices.ContainsFunc(c.Devices, func(d place.Count) bool { return drawn[d.Resource] }) {
			return i
		}
		for _, h := range v.Holdings {
			for _, d := range h.Devices {
				drawn[d.Resource] = drawn[d.Resource] || h.Container == c.Name && d.Loose
			}
		}
	}
	return len(p.Containers)
}

// excused returns why a verdict is not judged, or "".
func (t *trial) excused(p *place.Pod, v place.Verdict, got lifecycle.PodAdmitResult, mingled bool) string {
	wants := func(of map[string]bool) bool {
		return slices.ContainsFunc(p.Containers, func(c place.Container) bool {
			return slices.ContainsFunc(c.Devices, func(d place.Count) bool { return of[d.Resource] })
		})
	}
	switch {
	case len(t.failed) > 0 && !got.Admit:
		return "a plugin fails when it is asked for its preference"
	case wants(t.stranded):
		return "a plugin that failed made the kubelet lose devices"
	case mingled && (string(v.Refusal) != got.Reason || v.Fits() != got.Admit):
		return freedInAnyOrder
	}
	return ""
}

// strand records what a failing plugin has made the device manager lose.
func (t *trial) strand(name string) {
	if t.holdsDevices(name) {
		return
	}
	for r := range t.failed {
		t.stranded[r] = true
	}
}

// patience is how long the managers may take for one pod: they loop forever on some.
const patience = 3 * time.Minute

// decide has the managers admit a pod; ok is false if they do not finish.
func (t *trial) decide(pod *v1.Pod, patience time.Duration) (r lifecycle.PodAdmitResult, ok bool) {
	answer := make(chan lifecycle.PodAdmitResult, 1)
	crash := make(chan any, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil {
				crash <- r
			}
		}()
		answer <- t.real.Admit(pod)
	}()
	select {
	case r = <-answer:
		return r, true
	case why := <-crash:
		panic(why)
	case <-time.After(patience):
		return r, false
	}
}

func texts(rs []place.Reason) (out []string) {
	for _, r := range rs {
		out = append(out, r.Text())
	}
	return out
}

// seen returns the managers' records of a pod.
func (t *trial) seen(pod *v1.Pod, p *place.Pod) (out []place.Holding) {
	if h := t.real.Holding(pod.UID, ""); !h.Empty() { // of the pod as a whole
		out = append(out, h)
	}
	for _, c := range p.Containers {
		if h := t.real.Holding(pod.UID, c.Name); !h.Empty() {
			h.Kind = c.Kind
			out = append(out, h)
		}
	}
	return out
}
