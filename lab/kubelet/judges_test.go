package kubelet_test

import (
	"context"
	"flag"
	"runtime"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	configv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/place/scenario"
	"github.com/tenon-numa/tenon/core/topo"
	lab "github.com/tenon-numa/tenon/lab/kubelet"
)

// The judges are the managers of kubelets. The managers of the release that this module requires run in this process,
// and managers of other releases in programs of their own (folder judge).

var diffRelease = flag.String("diff.release", "",
	"kubelet that judges, such as 1.32 or 1.37"+withManagers+
		"; by default the one that is linked, and a little the oldest and the newest")

// withManagers follows the release of a judge whose kubelet serves pods that request resources as a whole.
const withManagers = "+PodLevelResourceManagers"

// judging returns the releases that judge this run, and each one's part of its admissions.
func judging() (releases []string, admit []int) {
	if *diffRelease != "" {
		return []string{*diffRelease}, []int{*admissions}
	}
	releases, admit = []string{place.DefaultRelease.String()}, []int{*admissions}
	for _, r := range []place.Release{place.OldestRelease, place.NewestRelease} {
		if r != place.DefaultRelease {
			releases, admit = append(releases, r.String()), append(admit, *admissions/10)
		}
	}
	return releases, admit
}

// model selects the kubelet that judges.
type model interface {
	release() place.Release
	managers() bool // the gate PodLevelResourceManagers is on
}

// kubeletOf is a model.
type kubeletOf struct {
	of    place.Release
	whole bool
}

func (k kubeletOf) release() place.Release { return k.of }
func (k kubeletOf) managers() bool         { return k.whole }

// judge makes managers. It serves one machine at a time.
type judge interface {
	model
	// open starts managers on a machine, with plugins for its devices; pods lists the active pods.
	open(ctx context.Context, dir string, m *topo.Machine, c *configv1beta1.KubeletConfiguration,
		pods func() []*v1.Pod) (judged, error)
	// reopen starts managers on the files of others that have stopped; until settle no plugin has registered.
	reopen(ctx context.Context, dir string, m *topo.Machine, c *configv1beta1.KubeletConfiguration,
		pods func() []*v1.Pod, found []lab.Container) (_ judged, settle func() error, _ error)
}

// judged are the managers of a kubelet; see lab.Managers.
type judged interface {
	Admit(pod *v1.Pod) lifecycle.PodAdmitResult
	StartContainers(pod *v1.Pod)
	Forget(pod *v1.Pod)
	Collect()
	Announce(m *topo.Machine)
	Prefer(ctx context.Context, resource string,
		prefer func(available, include []string, size int) ([]string, error)) error
	Holding(pod types.UID, container string) place.Holding
	SharedCPUs() idset.Set[idset.CPU]
	FreeMemory() map[idset.NUMA]map[string]int64
	Healthy(resource string) []string
	Stop() error
}

// newJudge returns the judge of a release, or the one that is linked.
func newJudge(t testing.TB, release string) judge {
	t.Helper()
	if release == "" || release == place.DefaultRelease.String() {
		return here{kubeletOf{of: place.DefaultRelease}}
	}
	return newProgram(t, release)
}

// asOf makes a scenario one of a judge.
func asOf(k model, s *scenario.Scenario) (err error) {
	r := k.release()
	s.Rules.Release, s.Rules.PodLevelManagers = r, k.managers()
	knownTo(r, &s.Rules)
	if len(s.Machine.NUMAs()) > 8 && s.Rules.Topology.MaxNUMAs == 0 {
		s.Rules.Topology = place.TopologyRules{} // the kubelet would not start
	}
	if s.ReserveCPUs > 0 {
		s.Rules.CPU.Reserved, err = s.Rules.Reserve(s.Machine, s.ReserveCPUs)
	}
	return err
}

// knownTo turns options off that a kubelet of a release would not start with.
func knownTo(r place.Release, rules *place.Rules) place.Rules {
	for _, o := range place.Options() {
		if r >= o.Since {
			continue
		}
		switch o.Name {
		case "max-allowable-numa-nodes":
			rules.Topology.MaxNUMAs = 0
		case "distribute-cpus-across-cores":
			rules.CPU.DistributeAcrossCores = false
		case "strict-cpu-reservation":
			rules.CPU.StrictReservation = false
		case "prefer-align-cpus-by-uncorecache":
			rules.CPU.PreferAlignByUncoreCaches = false
		}
	}
	return *rules
}

// here is the judge in this process.
type here struct{ kubeletOf }

func (here) open(ctx context.Context, dir string, m *topo.Machine, c *configv1beta1.KubeletConfiguration,
	pods func() []*v1.Pod) (judged, error) {
	l := newLoop(c, pods)
	out, err := lab.NewManagers(ctx, dir, m, c, l.active)
	if err != nil {
		return nil, err
	}
	l.wait()
	return linked{out}, nil
}

func (here) reopen(ctx context.Context, dir string, m *topo.Machine, c *configv1beta1.KubeletConfiguration,
	pods func() []*v1.Pod, found []lab.Container) (judged, func() error, error) {
	l := newLoop(c, pods)
	out, settle, err := lab.Reopen(ctx, dir, m, c, l.active, found)
	if err != nil {
		return nil, nil, err
	}
	l.wait()
	return linked{out}, settle, nil
}

// loop is that of the CPU manager which brings containers to their CPUs. Nothing ends it, and while it lives the
// managers do, so it is ended when it asks for pods: it is the first who does.
type loop struct {
	pods  func() []*v1.Pod
	ended chan struct{} // nil where there is no loop
	asked bool
}

func newLoop(c *configv1beta1.KubeletConfiguration, pods func() []*v1.Pod) *loop {
	l := &loop{pods: pods}
	if c.CPUManagerPolicy == "static" {
		l.ended = make(chan struct{})
	}
	return l
}

func (l *loop) active() []*v1.Pod {
	if l.ended != nil && !l.asked {
		l.asked = true
		close(l.ended)
		runtime.Goexit()
	}
	return l.pods()
}

func (l *loop) wait() {
	if l.ended != nil {
		<-l.ended
	}
}

// linked are the managers of the release that this module requires.
type linked struct{ *lab.Managers }

func (m linked) SharedCPUs() idset.Set[idset.CPU] {
	var cpus []idset.CPU
	for _, id := range m.CPU.State().GetDefaultCPUSet().List() {
		cpus = append(cpus, idset.CPU(id))
	}
	return idset.Of(cpus...)
}

func (m linked) FreeMemory() map[idset.NUMA]map[string]int64 {
	out := map[idset.NUMA]map[string]int64{}
	for id, n := range m.Memory.State().GetMachineState() {
		out[idset.NUMA(id)] = map[string]int64{}
		for kind, table := range n.MemoryMap {
			out[idset.NUMA(id)][string(kind)] = int64(table.Free)
		}
	}
	return out
}

func (m linked) Healthy(resource string) (out []string) {
	for id := range m.HealthyDevices()[resource] {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}
