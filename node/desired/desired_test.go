package desired

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/node/kubelet"
)

// State files that contradict themselves are not published until they have done so for a while. Then the
// contradiction is accepted and named, and later observations with the same one are published at once.
func TestContradictingStateFiles(t *testing.T) {
	quiet := observed(t).runs("p").lists("p")
	half := quiet.cpus(t, "0-3", `{"uid-p":{"main":"4-5"}}`)  // CPUs 6 and 7 are in no set
	other := quiet.cpus(t, "0-3", `{"uid-p":{"main":"6-7"}}`) // CPUs 4 and 5 are
	r := play(t,
		step{"consistent", quiet, 0, "layout []"},
		step{"the kubelet is writing", half, maxUnsettled, "nothing, again"},
		step{"it has written", quiet.cpus(t, "0-3,6-7", `{"uid-p":{"main":"4-5"}}`), 0, "layout [p=4-5]"},
		step{"a contradiction again", half, maxUnsettled, "nothing, again"},
		step{"it stays", half, 0, "layout [p=4-5]"},
	)
	if got := codes(r.Layout); got != string(state.RulesFromFiles)+" "+string(state.StateInconsistent) {
		t.Errorf("reasons are %q", got)
	}
	r = Compute(Options{NodeName: "node-a"}, r.State, half)
	if got := r.text(); got != "layout [p=4-5]" {
		t.Errorf("an accepted contradiction: %s", got)
	}
	r = Compute(Options{NodeName: "node-a"}, r.State, other)
	if got := r.text(); got != "nothing, again" {
		t.Errorf("another contradiction: %s", got)
	}
}

// A kubelet that has just started lists its pods one by one. Nothing is published before it lists all whose
// resources its managers hold, unless that takes too long.
func TestKubeletThatHasJustStarted(t *testing.T) {
	o := observed(t).runs("p", "q").cpus(t, "0-4,7", `{"uid-p":{"main":"5"},"uid-q":{"main":"6"}}`)
	play(t,
		step{"it lists none", o.lists(), 3, "nothing, again"},
		step{"it lists one", o.lists("p"), 3, "nothing, again"},
		step{"it lists all", o.lists("p", "q"), 0, "layout [q=6 p=5]"},
		step{"one has ended", o.lists("q"), 0, "layout [q=6], again"},
		step{"it lists none: it starts again", o.lists(), maxStarting - 1, "nothing, again"},
		step{"both have ended", o.lists(), 0, "layout []"},
	)
}

// The contradiction of state files is waited for first, and does not count for the start.
func TestWaitingForFilesBeforeTheStart(t *testing.T) {
	half := observed(t).runs("p").cpus(t, "0-3", `{"uid-p":{"main":"4-5"}}`)
	r := play(t, step{"both", half, maxUnsettled, "nothing, again"})
	if r.State.startup.missed != 0 || r.State.files.unsettled != maxUnsettled {
		t.Errorf("state is %+v %+v", r.State.startup, r.State.files)
	}
}

// Where the agent pins, CPUs of a pod that was deleted by force are reported until its containers have ended, so that
// no other pod gets them before. A new pod of the same name does not change that.
func TestAPodThatTheAPIServerHasNoMore(t *testing.T) {
	o := observed(t).runs("p").cpus(t, "0-3,6-7", `{"uid-p":{"main":"4-5"}}`).lists("p")
	lingers := o.cpus(t, "0-3", `{"uid-p":{"main":"4-5"},"uid-gone":{"main":"6-7"}}`)
	lingers.Kubelet.Held = []state.Entry{{Pod: state.PodID{UID: "uid-gone", Namespace: "default", Name: "p"},
		Holdings: []place.Holding{{Container: "main", CPUs: idset.Of[idset.CPU](6, 7)}}}}
	r := Compute(Options{NodeName: "node-a"}, State{}, lingers)
	uids := map[string]string{}
	for _, p := range r.Layout.Holdings {
		uids[p.UID] = string(p.Containers[0].CPUs)
	}
	if r.Err != nil || len(uids) != 2 || uids["uid-p"] != "4-5" || uids["uid-gone"] != "6-7" {
		t.Errorf("pods %v, %v", uids, r.Err)
	}
	r = Compute(Options{NodeName: "node-a"}, r.State, o)
	if len(r.Layout.Holdings) != 1 {
		t.Errorf("after its containers have ended: %+v", r.Layout.Holdings)
	}
}

// Facts that cannot be read again stay, and the layout reports that they are stale. Before they are known, nothing is
// published.
func TestFactsThatCannotBeRead(t *testing.T) {
	known, fails := facts(t), errors.New("fails")
	detail := v1alpha1.Detail{Functions: []v1alpha1.Function{{Address: "0000:17:00.0", Class: "nic"}}}
	known.Detail = detail
	files, stale := string(state.RulesFromFiles), " "+string(state.StaleFacts)
	static, none := configuration(t, staticConfig), kubelet.Configuration{}
	effective, elsewhere := static, static
	effective.Effective = true
	elsewhere.ReserveCPUs, elsewhere.Rules.CPU.Reserved = 0, idset.Of[idset.CPU](64)
	unreadable := v1alpha1.Detail{}
	again := known.WithMachine(nil, unreadable, fails).WithMachine(machine(t), detail, nil)
	for what, c := range map[string]struct {
		facts               Facts
		want, codes, faults string
	}{
		"nothing was read":    {Facts{}, "nothing", "", ""},
		"machine never known": {Facts{}.WithMachine(nil, detail, fails), "nothing, error", "", ""},
		"configuration never known": {Facts{}.WithMachine(machine(t), detail, nil).WithConfiguration(none, fails),
			"nothing, error", "", ""},
		"all known": {known, "layout []", files, ""},
		"machine unreadable": {known.WithMachine(nil, unreadable, fails).WithConfiguration(static, nil),
			"layout [], error", files + stale, "fails"},
		"detail unreadable":            {known.WithMachine(machine(t), unreadable, fails), "layout []", files, "fails"},
		"configuration unreadable":     {known.WithConfiguration(none, fails), "layout [], error", files + stale, ""},
		"configuration of the kubelet": {known.WithConfiguration(effective, nil), "layout []", "", ""},
		"readable again":               {again, "layout []", files, ""},
		"rules that fit on no machine": {known.WithConfiguration(elsewhere, nil), "layout [], error", files + stale, ""},
	} {
		o := observed(t)
		o.Facts = c.facts
		r := play(t, step{what, o, 0, c.want})
		if r.Layout == nil {
			continue
		}
		if got := codes(r.Layout); got != c.codes {
			t.Errorf("%s: reasons are %q, want %q", what, got, c.codes)
		}
		got := fmt.Sprint(errors.Join(r.Faults...))
		if c.faults == "" && len(r.Faults) > 0 || !strings.Contains(got, c.faults) {
			t.Errorf("%s: faults are %s, want %q", what, got, c.faults)
		}
		if len(r.Layout.Machine.Functions) != 1 || r.Layout.Rules.ReservedCPUs != "0" {
			t.Errorf("%s: functions %v, reserved CPUs %q", what, r.Layout.Machine.Functions, r.Layout.Rules.ReservedCPUs)
		}
	}
}

// A state file of another policy than the rules is a fault and a reason, and prevents nothing.
func TestStateFileOfAnotherPolicy(t *testing.T) {
	o := observed(t)
	o.Kubelet.CPU = &kubelet.CPUState{Policy: "none"}
	r := play(t, step{"another policy", o, 0, "layout []"})
	if len(r.Faults) != 1 || !strings.Contains(codes(r.Layout), string(state.StateInconsistent)) {
		t.Errorf("faults %v, reasons %q", r.Faults, codes(r.Layout))
	}
}

// A device that is no longer listed is unhealthy as long as the Node counts it, and keeps its NUMA node.
func TestUnhealthyDevicesAreRemembered(t *testing.T) {
	both := observed(t)
	one := observed(t)
	one.Kubelet.Allocatable = one.Kubelet.Allocatable[:1]
	gone := one
	gone.Node.Capacity = map[string]int64{"x.io/gpu": 1}
	var known State
	for _, c := range []struct {
		what string
		o    Observation
		want string
	}{
		{"both listed", both, "[{0   false [g0]} {1   false [g1]}]"},
		{"one listed, two counted", one, "[{0   false [g0]} {1   true [g1]}]"},
		{"one listed, one counted", gone, "[{0   false [g0]}]"},
		{"it was forgotten", one, "[{0   false [g0]}]"},
	} {
		r := Compute(Options{NodeName: "node-a"}, known, c.o)
		known = r.State
		if got := fmt.Sprint(r.Layout.Machine.Devices[0].Groups); got != c.want {
			t.Errorf("%s: devices are %s, want %s", c.what, got, c.want)
		}
	}
}

// Pods keep the order of the layout that an earlier agent published; new ones follow by their start.
func TestOrderOfAnEarlierAgentIsKept(t *testing.T) {
	o := observed(t).runs("a", "b", "c").lists("a", "b", "c").
		cpus(t, "0-4", `{"uid-a":{"main":"5"},"uid-b":{"main":"6"},"uid-c":{"main":"7"}}`)
	play(t, step{"by start", o, 0, "layout [c=7 b=6 a=5]"})
	o.Earlier = &v1alpha1.NodeLayout{Holdings: []v1alpha1.PodHoldings{{UID: "uid-b"}, {UID: "uid-gone"}}}
	r := play(t, step{"after a published layout", o, 0, "layout [b=6 c=7 a=5]"})
	o.Earlier = nil
	if got := Compute(Options{NodeName: "node-a"}, r.State, o).text(); got != "layout [b=6 c=7 a=5]" {
		t.Errorf("once the order is known: %s", got)
	}
}

// A pod that the kubelet is still admitting is left out until it has what it requests, or was started.
func TestPodThatIsBeingAdmitted(t *testing.T) {
	needs := &place.Pod{QoS: place.Guaranteed, Containers: []place.Container{{Name: "main", MilliCPU: 2000}}}
	opts := Options{NodeName: "node-a", Translate: func(*v1.Pod) (*place.Pod, error) { return needs, nil }}
	o := observed(t).runs("p").lists("p")
	for _, p := range o.Pods {
		p.Status.StartTime = nil
	}
	part, all := o.cpus(t, "0-4,6-7", `{"uid-p":{"main":"5"}}`), o.cpus(t, "0-4,7", `{"uid-p":{"main":"5-6"}}`)
	if got := Compute(opts, State{}, part).text(); got != "layout []" {
		t.Errorf("with one of two CPUs: %s", got)
	}
	if got := Compute(opts, State{}, all).text(); got != "layout [p=5-6]" {
		t.Errorf("with both: %s", got)
	}
	if got := Compute(Options{NodeName: "node-a"}, State{}, part).text(); got != "layout [p=5]" {
		t.Errorf("without a translation: %s", got)
	}
}

// A machine is built once, and again only where its description changes.
func TestMachinesAreBuiltOnce(t *testing.T) {
	first := Compute(Options{NodeName: "node-a"}, State{}, observed(t))
	busy := observed(t).runs("p").lists("p").cpus(t, "0-4,6-7", `{"uid-p":{"main":"5"}}`)
	busy.Facts = busy.Facts.WithMachine(machine(t), v1alpha1.Detail{}, nil) // an equal machine that was read again
	second := Compute(Options{NodeName: "node-a"}, first.State, busy)
	if second.Node.Machine != first.Node.Machine || second.State.withDevices.machine != first.State.withDevices.machine {
		t.Error("an equal machine is built again")
	}
	fewer := busy
	fewer.Kubelet.Allocatable = fewer.Kubelet.Allocatable[:1]
	third := Compute(Options{NodeName: "node-a"}, second.State, fewer)
	if third.Node.Machine == first.Node.Machine {
		t.Error("the machine is the same although its devices differ")
	}
}

// The published layout is parsed again: a layout that readers would reject is an error.
func TestInvalidLayoutIsNotPublished(t *testing.T) {
	o := observed(t)
	o.Facts.Detail = v1alpha1.Detail{MemoryKinds: map[idset.NUMA]string{0: "no such kind\x00"}}
	play(t, step{"a kind of memory that has no form", o, 0, "nothing, error"})
}

// Compute is a pure function: equal arguments give equal results, and neither argument changes.
func TestComputeIsPure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var previous State
		for range rapid.IntRange(1, 12).Draw(t, "observations") {
			o := drawObservation(t)
			before := fmt.Sprintf("%+v %+v", previous, o)
			a := Compute(Options{NodeName: "node-a"}, previous, o)
			b := Compute(Options{NodeName: "node-a"}, previous, o)
			if after := fmt.Sprintf("%+v %+v", previous, o); after != before {
				t.Fatalf("an argument changed from\n%s\nto\n%s", before, after)
			}
			if !reflect.DeepEqual(a, b) {
				t.Fatalf("two results of equal arguments differ:\n%+v\n%+v", a, b)
			}
			previous = a.State
		}
	})
}

func drawObservation(t *rapid.T) Observation {
	names := []string{"p", "q", "r"}
	o := observed(t)
	subset := func(what string) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, len(names), rapid.ID[string]).Draw(t, what)
	}
	o = o.runs(subset("running")...).lists(subset("listed")...)
	entries, free := []string{}, idset.Of[idset.CPU](0, 1, 2, 3, 4, 5, 6, 7)
	for i, name := range subset("holding") {
		cpu := idset.CPU(4 + i)
		free = free.Minus(idset.Of(cpu))
		entries = append(entries, fmt.Sprintf(`"uid-%s":{"main":"%d"}`, name, cpu))
	}
	if rapid.Bool().Draw(t, "writing") {
		free = free.Minus(idset.Of[idset.CPU](1))
	}
	o = o.cpus(t, free.String(), "{"+strings.Join(entries, ",")+"}")
	o.Kubelet.Allocatable = o.Kubelet.Allocatable[:rapid.IntRange(0, 2).Draw(t, "devices")]
	if rapid.Bool().Draw(t, "published before") {
		first := "uid-" + rapid.SampledFrom(names).Draw(t, "first")
		o.Earlier = &v1alpha1.NodeLayout{Holdings: []v1alpha1.PodHoldings{{UID: first}}}
	}
	if rapid.Bool().Draw(t, "stale") {
		o.Facts = o.Facts.WithConfiguration(kubelet.Configuration{}, errors.New("fails"))
	}
	return o
}

// A plugin that announces each MiB of a GPU costs only its own resource. The layout leaves the resource out and reports
// that, and has all other holdings, also of a container with such devices.
func TestTooManyDevices(t *testing.T) {
	o := observed(t).runs("p").lists("p")
	whole := Compute(Options{NodeName: "node-a"}, State{}, o)
	const name = "volcano.sh/vgpu-memory"
	var held []kubelet.Device
	for i := range 5 * topo.MaxDevices {
		d := gpu(fmt.Sprint("g", i), 0)
		d.Resource = name
		if o.Kubelet.Allocatable = append(o.Kubelet.Allocatable, d); i <= topo.MaxDevices {
			held = append(held, d)
		}
	}
	o.Kubelet.Listed = slices.Clone(o.Kubelet.Listed)
	o.Kubelet.Listed[0].Containers = slices.Clone(o.Kubelet.Listed[0].Containers)
	o.Kubelet.Listed[0].Containers[0].Devices = append(slices.Clone(o.Kubelet.Listed[0].Containers[0].Devices), held...)
	r := Compute(Options{NodeName: "node-a"}, State{}, o)
	if r.Err != nil || r.Layout == nil {
		t.Fatalf("nothing is published: %v", r.Err)
	}
	for _, d := range r.Layout.Machine.Devices {
		if d.Resource == name {
			t.Errorf("the layout has %s", name)
		}
	}
	omitted := func(x v1alpha1.Inexact) bool { return x.Code == "devices-omitted" }
	if i := slices.IndexFunc(r.Layout.Inexact, omitted); i < 0 ||
		!strings.Contains(r.Layout.Inexact[i].Message, name) {
		t.Errorf("inexact is %v", r.Layout.Inexact)
	}
	if a, b := whole.Layout.Holdings, r.Layout.Holdings; !reflect.DeepEqual(a, b) {
		t.Errorf("holdings are %v, want those without that plugin: %v", b, a)
	}
}

// Many resources that are left out displace no other reason from a layout, which has a bounded number of them.
func TestManyOmittedResourcesHideNoOtherReason(t *testing.T) {
	o := observed(t).runs("p").lists("p")
	for i := range v1alpha1.MaxInexact + 1 {
		d := gpu("a name with spaces", 0)
		d.Resource = fmt.Sprintf("x.io/r%02d", i)
		o.Kubelet.Allocatable = append(o.Kubelet.Allocatable, d)
	}
	o.Facts = o.Facts.WithConfiguration(kubelet.Configuration{}, errors.New("fails"))
	r := Compute(Options{NodeName: "node-a"}, State{}, o)
	if r.Layout == nil {
		t.Fatalf("nothing is published: %v", r.Err)
	}
	stale := func(x v1alpha1.Inexact) bool { return x.Code == "stale-facts" }
	if len(r.Layout.Inexact) != v1alpha1.MaxInexact || !slices.ContainsFunc(r.Layout.Inexact, stale) {
		t.Errorf("%d reasons without stale-facts: %v", len(r.Layout.Inexact), r.Layout.Inexact)
	}
}
