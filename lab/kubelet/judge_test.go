package kubelet_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/place/scenario"
	"github.com/tenon-numa/tenon/core/topo"
	lab "github.com/tenon-numa/tenon/lab/kubelet"
	"github.com/tenon-numa/tenon/node/kubelet"
)

// The judge: the kubelet's own managers do the steps of a scenario, and every verdict of place, and after
// every step what is left, must be theirs.

// oracle is what is judged: place.Place, or something that errs on purpose.
type oracle func(*place.Usage, *place.Pod) place.Verdict

// trial is a scenario under way on both sides.
type trial struct {
	node    *scenario.Node // what the managers recorded
	real    *lab.Managers
	dir     string
	predict oracle
	count   *tally

	pods    []*v1.Pod
	looping chan struct{} // closed when the CPU manager's loop has ended; nil where there is none
	looped  bool
}

// difference is how the two sides differ.
type difference struct{ about, text string }

func (d difference) Error() string { return d.about + ": " + d.text }

// What a difference is about: a smaller scenario must fail about the same.
const (
	aboutPanic       = "panic"
	aboutTranslation = "translation"
	aboutVerdict     = "verdict"
	aboutHoldings    = "holdings"
	aboutPredicted   = "what is left as predicted"
	aboutLeft        = "what is left"
)

func differs(about, format string, args ...any) error {
	return difference{about, fmt.Sprintf(format, args...)}
}

// A trial ends where the managers' own records contradict each other: whoever looks at what containers
// hold cannot know then what the managers believe to be free.
var (
	errOver  = errors.New("the managers contradict themselves")
	errTwice = fmt.Errorf("%w: one CPU is held by two containers, or held and free", errOver)
)

// newTrial starts the managers on the machine of a scenario, in an empty directory of their own.
func newTrial(ctx context.Context, dir string, s *scenario.Scenario, predict oracle, count *tally) (*trial, error) {
	c := configuration(s)
	rules, err := rulesOf(c, s.Machine)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	if err := reservable(s.Machine, rules); err != nil {
		return nil, err
	}
	t := &trial{node: s.Begin(), dir: dir, predict: predict, count: count}
	t.node.Rules = rules
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if rules.CPU.Static {
		t.looping = make(chan struct{})
	}
	if t.real, err = lab.NewManagers(ctx, dir, s.Machine, c, t.active); err != nil {
		return nil, fmt.Errorf("the managers do not start: %w", err)
	}
	if t.looping != nil {
		<-t.looping
	}
	return t, nil
}

// reservable refuses what the memory manager takes and then miscounts: it subtracts reservations from
// what a numa has in unsigned numbers (memorymanager/policy_static.go, getDefaultMachineState).
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

// active lists the active pods. The first who asks is the loop of the CPU manager that brings containers
// to their CPUs; nothing else ends it, and while it lives the managers do, so it is ended here.
func (t *trial) active() []*v1.Pod {
	if t.looping != nil && !t.looped {
		t.looped = true
		close(t.looping)
		runtime.Goexit()
	}
	return slices.Clone(t.pods)
}

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
		}
	case scenario.Remove:
		t.drop(st.Name)
	}
	t.node.Do(st)
	if st.Do == scenario.Unhealthy || st.Do == scenario.Healthy {
		t.real.Announce(t.node.Machine)
	}
	var d difference
	if fault := t.contradiction(); fault != nil && (err == nil || errors.As(err, &d) && d.about == aboutPredicted) {
		t.count.faults = counted(t.count.faults, fault.Error(), 1)
		return fault
	}
	if err != nil {
		return err
	}
	u, err := t.usage()
	if err != nil {
		return err
	}
	return t.left(aboutLeft, "after "+st.Do.String()+" "+st.Name, u, true)
}

// usage is what a node agent would publish: the holdings that the managers recorded, and what their state
// file says of memory where that does not follow from them.
func (t *trial) usage() (*place.Usage, error) {
	data, err := os.ReadFile(filepath.Join(t.dir, kubelet.MemoryStateFile))
	if os.IsNotExist(err) {
		return t.node.Usage(), nil
	}
	if err != nil {
		return nil, err
	}
	state, err := kubelet.ParseMemoryState(data)
	if err != nil {
		return nil, err
	}
	var entries []ledger.Entry
	for _, p := range t.node.Pods {
		entries = append(entries, ledger.Entry{Pod: ledger.PodID{UID: p.Name, Namespace: "default", Name: p.Name}, Holdings: p.Holdings})
	}
	o := kubelet.Observation{Memory: state}
	return t.node.Usage().WithGroups(o.Groups(t.node.Machine, t.node.Rules, entries, byName{})), nil
}

// byName knows every pod: its UID is its name.
type byName struct{}

func (byName) Pod(namespace, name string) (kubelet.Pod, bool) {
	return kubelet.Pod{ID: ledger.PodID{UID: name, Namespace: namespace, Name: name}, StateUID: name}, true
}

// drop ends a pod.
func (t *trial) drop(name string) {
	pod := t.pod(name)
	if pod == nil {
		return
	}
	t.real.Forget(pod)
	t.pods = slices.DeleteFunc(slices.Clone(t.pods), func(p *v1.Pod) bool { return p == pod })
	t.real.Collect()
}

func (t *trial) admit(st scenario.Step) error {
	pod := podOf(st)
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
		return nil // the node would take it; the scheduler does not let it
	}
	if loops(v) { // see TestPodsThatLoopTheKubelet
		t.count.refused = counted(t.count.refused, "looping", 1)
		return nil
	}
	t.pods = append(slices.Clone(t.pods), pod)
	got, ok := t.decide(pod, patience)
	if !ok {
		return fmt.Errorf("pod %s: the managers do not answer within %v", st.Name, patience)
	}
	t.count.admission(v, got.Reason)
	if !v.Chance && (string(v.Error) != got.Reason || v.Fits() != got.Admit) {
		return differs(aboutVerdict, "pod %s: the managers say %q (%s), place says %q %v", st.Name, got.Reason, got.Message, v.Error, texts(v.Reasons))
	}
	if !got.Admit {
		t.drop(st.Name)
		if !v.Chance && len(v.Reasons) == 0 {
			return differs(aboutVerdict, "pod %s: refused without a reason", st.Name)
		}
		return nil
	}
	seen := t.seen(pod, &st.Pod)
	defer t.node.Hold(st.Name, seen)
	if err := t.same(st.Name, v, seen); err != nil {
		return err
	}
	if v.Chance {
		return nil
	}
	return t.left(aboutPredicted, "after admit "+st.Name, before.Hold(v.Holdings...), false)
}

// patience is how long the managers may think about one pod: they do loop forever on some.
const patience = 3 * time.Minute

// decide lets the managers admit a pod; ok is false where they do not come to an end.
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

// seen is what the managers recorded for a pod.
func (t *trial) seen(pod *v1.Pod, p *place.Pod) (out []place.Holding) {
	for _, c := range p.Containers {
		if h := t.real.Holding(pod.UID, c.Name); !h.Empty() {
			h.Kind = c.Kind
			out = append(out, h)
		}
	}
	return out
}

// same compares holdings: all of them, or where the kubelet draws the numas of devices at random, CPUs
// of the containers before that one. (Memory of init containers is reused by later ones.)
func (t *trial) same(name string, v place.Verdict, seen []place.Holding) error {
	ok := true
	if v.Chance {
		for i, h := range v.Holdings {
			if slices.ContainsFunc(h.Devices, func(b place.DeviceBlock) bool { return b.Loose }) {
				break
			}
			ok = ok && i < len(seen) && h.Container == seen[i].Container && h.CPUs.Equal(seen[i].CPUs)
		}
	} else {
		ok = slices.EqualFunc(v.Holdings, seen, func(a, b place.Holding) bool { return a.Container == b.Container && a.Matches(b) })
	}
	if ok {
		return nil
	}
	return differs(aboutHoldings, "pod %s: the managers gave %v, place said %v", name, shown(t.node.Machine, seen), shown(t.node.Machine, v.Holdings))
}

func shown(m *topo.Machine, hs []place.Holding) (out []string) {
	for _, h := range hs {
		out = append(out, scenario.Show(m, h))
	}
	return out
}

// twice reports whether the managers have given one CPU to two pods, or to two containers that run
// together, or have one that is held among the free: on machines with unequal sockets or cores the
// kubelet errs so (cpumanager/cpu_assignment.go, takeFullSockets), and frees the CPU with the first of them.
func (t *trial) twice() bool {
	free := t.freeCPUs()
	var held idset.Set[idset.CPU]
	for _, p := range t.node.Pods {
		var own, inits idset.Set[idset.CPU]
		for _, h := range p.Holdings {
			if h.CPUs.AndLen(held) > 0 || h.CPUs.AndLen(own) > 0 {
				return true
			}
			if h.Kind == place.Init {
				inits = inits.Union(h.CPUs)
			} else {
				own = own.Union(h.CPUs)
			}
		}
		held = held.Union(own).Union(inits)
	}
	return held.AndLen(free) > 0
}

// contradiction looks for a fault in the managers' own records.
func (t *trial) contradiction() error {
	if t.twice() {
		return errTwice
	}
	return nil
}

// freeCPUs is the CPU manager's shared pool: reserved CPUs are in it, or not.
func (t *trial) freeCPUs() idset.Set[idset.CPU] {
	var cpus []idset.CPU
	for _, id := range t.real.CPU.State().GetDefaultCPUSet().List() {
		cpus = append(cpus, idset.CPU(id))
	}
	return idset.Of(cpus...)
}

// left compares what is free. Devices are compared by their ids, or where those were left to chance by
// their number on every set of numas.
func (t *trial) left(about, when string, u *place.Usage, ids bool) error {
	if t.node.Rules.CPU.Static {
		if have := t.freeCPUs().Minus(t.node.Rules.CPU.Reserved); !have.Equal(u.FreeCPUs()) {
			return differs(about, "%s: CPUs %s are free, place has %s", when, have, u.FreeCPUs())
		}
	}
	if t.node.Rules.Memory.Static {
		state := t.real.Memory.State().GetMachineState()
		for i, n := range t.node.Machine.NUMAs() {
			for kind, table := range state[int(n.ID)].MemoryMap {
				if have := u.FreeMemory(i, string(kind)); int64(table.Free) != have {
					return differs(about, "%s: numa %d has %d bytes of %s free, place has %d", when, n.ID, table.Free, kind, have)
				}
			}
		}
	}
	for _, r := range t.node.Machine.Resources() {
		have, said := t.freeDevices(r.Name), u.FreeDevices(r.Name)
		if !ids {
			have, said = unnamed(have), unnamed(said)
		}
		if !slices.Equal(have, said) {
			return differs(about, "%s: %s free are %v, place has %v", when, r.Name, have, said)
		}
	}
	return nil
}

// freeDevices are the healthy devices that the device manager has not given out.
func (t *trial) freeDevices(name string) (out []topo.Device) {
	held := map[string]bool{}
	for _, pod := range t.pods {
		for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range list {
				for id := range t.real.Device.GetDevices(string(pod.UID), list[i].Name)[name] {
					held[id] = true
				}
			}
		}
	}
	healthy := t.real.Device.GetAllocatableDevices()[name]
	r, _ := t.node.Machine.Resource(name)
	for _, d := range r.Devices {
		if _, ok := healthy[d.ID]; ok && !held[d.ID] {
			d.Unhealthy = false
			out = append(out, d)
		}
	}
	return out
}

func unnamed(in []topo.Device) (out []topo.Device) {
	for _, d := range in {
		out = append(out, topo.Device{NUMAs: d.NUMAs})
	}
	slices.SortFunc(out, func(a, b topo.Device) int { return int(a.NUMAs) - int(b.NUMAs) })
	return out
}
