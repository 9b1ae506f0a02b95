package chaos

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	podapi "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/place/scenario"
	"github.com/tenon-numa/tenon/lab/kubelet"
	"github.com/tenon-numa/tenon/lab/workload"
)

const node = "n"

var (
	single     = rules{"single-numa-node", "container"}
	bestEffort = rules{"best-effort", "container"}
)

// at returns the moment of a version, in seconds after the first moment.
func at(version uint64) moment {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return moment{version: version, at: began.Add(time.Duration(version) * time.Second)}
}

// stage is a node to which pods are bound, each at its own moment. Its managers decide as place predicts.
type stage struct {
	t *testing.T
	*scene
	agents map[string]time.Time
	rules  rules
	began  moment // of the kubelet
	ready  bool
	broken map[string]bool // resources without devices
	held   map[string][]place.Holding
}

// newStage returns a node of two NUMA nodes of 8 free CPUs each, with two devices of one resource. The scheduler has
// received its layout.
func newStage(t *testing.T) *stage {
	t.Helper()
	f, err := scenario.Parse("two", "numa 0 cpus 0-8 memory 8Gi\nnuma 1 cpus 9-16 memory 8Gi\n"+
		"device example.com/nic a numa 0\ndevice example.com/nic b numa 1\n"+
		"rules topology=single-numa-node cpu=static reserved=0\n")
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, agents: map[string]time.Time{}, rules: single, began: at(1), ready: true,
		held: map[string][]place.Holding{}}
	s.scene = &scene{machine: f.Machine, rules: f.Rules, allocatable: v1.ResourceList{}, received: newDeliveries(moment{}),
		agentSince: func(agent string) time.Time { return s.agents[agent] }}
	s.report(2)
	return s
}

// report makes the scheduler receive a layout of the present kubelet.
func (s *stage) report(version uint64) {
	id := fmt.Sprint("agent-", s.began.version)
	s.agents[id] = s.began.at.Add(time.Millisecond)
	s.received.layouts[node] = append(s.received.layouts[node], report{at(version).at, s.rules, id})
}

// restart restarts the kubelet, which has handled no pods yet.
func (s *stage) restart(version uint64, with rules) {
	s.began, s.rules, s.ready = at(version), with, false
}

// bind binds a pod. The managers then admit it or refuse it by their present state.
func (s *stage) bind(version uint64, pod *v1.Pod) life {
	pod.Namespace, pod.UID, pod.Spec.NodeName = "default", types.UID(pod.Name), node
	if pod.Spec.SchedulerName == "" {
		pod.Spec.SchedulerName = tenonScheduler
	}
	a := admission{held: maps.Clone(s.held), Admission: kubelet.Admission{At: at(version).at, Began: s.began.at,
		Policy: s.rules.policy, Scope: s.rules.scope, UID: pod.Name, Name: pod.Name, Ready: s.ready,
		Devices: map[string]int{"example.com/nic": 2}}}
	for name := range s.broken {
		a.Devices[name] = 0
	}
	for _, l := range s.lives {
		if !l.over() {
			a.Active = append(a.Active, l.pod.Name)
		}
	}
	l := life{pod: pod, bound: at(version), started: at(version)}
	s.lives, s.admissions = append(s.lives, l), append(s.admissions, a)
	p, err := podapi.ToPlace(pod)
	if err != nil {
		s.t.Fatal(err)
	}
	t := &trial{scene: s.scene, pod: p, life: l, at: len(s.admissions) - 1, admission: a}
	v := place.Place(t.usage(t.at, without{}, nil), p)
	if v.Fits() {
		s.admissions[t.at].Admitted = true
		for uid := range s.held {
			if a.releases(uid) {
				delete(s.held, uid)
			}
		}
		s.held[pod.Name] = v.Holdings
		return l
	}
	at := len(s.lives) - 1
	s.lives[at].ended = l.bound
	pod.Status.Phase, pod.Status.Reason = v1.PodFailed, string(v.Refusal)
	return s.lives[at]
}

// end ends a pod.
func (s *stage) end(version uint64, name string) {
	i := slices.IndexFunc(s.lives, func(l life) bool { return l.pod.Name == name })
	s.lives[i].pod.Status.Phase, s.lives[i].ended = v1.PodSucceeded, at(version)
}

// want fails the test unless the managers refused the pod, and the judge gives this cause.
func (s *stage) want(l life, want blame) {
	s.t.Helper()
	if l.pod.Status.Phase != v1.PodFailed {
		s.t.Fatalf("pod %s is not refused", l.pod.Name)
	}
	if got := s.judge(l); got.why != want {
		s.t.Errorf("%s; want %q", got, want)
	}
}

func cores(name string, n int) *v1.Pod {
	p := workload.Pod(name, workload.Guaranteed("c", workload.Amounts{"cpu": fmt.Sprint(n), "memory": "64Mi"}))
	p.Status.QOSClass = v1.PodQOSGuaranteed
	return p
}

// nic returns the pod with a request for one device more.
func nic(p *v1.Pod) *v1.Pod {
	p.Spec.Containers[0].Resources.Limits["example.com/nic"] = resource.MustParse("1")
	p.Spec.Containers[0].Resources.Requests = p.Spec.Containers[0].Resources.Limits
	return p
}

func foreign(p *v1.Pod) *v1.Pod {
	p.Spec.SchedulerName = foreignScheduler
	return p
}

// A foreign pod that was bound at the same time excuses a refusal only if the pod fits without it.
func TestAForeignPodExcusesOnlyWhatItCauses(t *testing.T) {
	for _, c := range []struct {
		what     string
		first    int // CPUs of a pod of Tenon's that is there
		foreign  int // CPUs of the foreign pod
		received uint64
		want     blame
	}{
		{"it takes what the pod needs", 8, 4, 0, overtaken},
		{"it takes what the pod needs, and the scheduler received it late", 8, 4, 12, overtaken},
		{"it takes what the pod needs, and the scheduler had received it", 8, 4, 6, knowable},
	} {
		t.Run(c.what, func(t *testing.T) {
			s := newStage(t)
			s.bind(3, cores("first", c.first))
			s.received.bound["first"] = at(3).at
			s.bind(5, foreign(cores("foreign", c.foreign)))
			if c.received > 0 {
				s.received.bound["foreign"] = at(c.received).at
			}
			s.want(s.bind(10, cores("refused", 6)), c.want)
		})
	}
	t.Run("the pod would not fit without it", func(t *testing.T) {
		s := newStage(t)
		s.bind(3, cores("first", 6))
		s.bind(4, cores("second", 6))
		s.bind(5, foreign(cores("foreign", 1)))
		s.want(s.bind(10, cores("refused", 6)), knowable)
	})
}

// The foreign pod is gone again, but it influenced the placement of a pod of Tenon's scheduler.
func TestAForeignPodExcusesWhatFollows(t *testing.T) {
	s := newStage(t)
	s.bind(3, cores("first", 3))
	s.bind(5, foreign(cores("foreign", 3)))
	s.bind(6, cores("second", 5)) // on the other NUMA node than predicted
	s.end(7, "foreign")
	s.want(s.bind(8, cores("refused", 8)), overtaken)
}

// A scheduler lists all pods when it starts, so the ends of earlier pods are no missing information and excuse nothing.
// The holdings of pods that were placed beside such a pod were reported too, so the judge does not place these pods
// again without it.
func TestPodsOfAnEarlierSchedulerExcuseNothing(t *testing.T) {
	s := newStage(t)
	nic := func(p *v1.Pod) *v1.Pod {
		p.Spec.Containers[0].Resources.Limits["example.com/nic"] = resource.MustParse("1")
		p.Spec.Containers[0].Resources.Requests = p.Spec.Containers[0].Resources.Limits
		return p
	}
	s.bind(3, cores("full", 8))
	s.bind(4, cores("half", 4)) // on the other NUMA node
	s.end(5, "full")
	s.bind(6, nic(cores("early", 1))) // has the first device, so the next pod gets the second
	s.bind(7, nic(cores("stays", 1)))
	s.end(8, "early")
	s.received.began = at(9)
	for _, name := range []string{"full", "half", "stays"} {
		s.received.bound[name] = time.Time{}
	}
	s.received.over["full"] = time.Time{}
	s.bind(10, foreign(nic(cores("foreign", 8))))
	s.want(s.bind(11, nic(cores("refused", 8))), overtaken)
}

// A restart excuses a refusal only if its rules, its devices or its former pods cause it, and the scheduler had not
// received a layout since.
func TestARestartExcusesOnlyWhatItCauses(t *testing.T) {
	t.Run("other rules", func(t *testing.T) {
		s := newStage(t)
		s.rules = bestEffort
		s.report(3)
		s.restart(5, single)
		s.ready = true
		s.want(s.bind(10, cores("refused", 12)), ruled)
		s.report(11)
		s.want(s.bind(12, cores("later", 12)), knowable)
	})
	t.Run("the rules do not matter", func(t *testing.T) {
		s := newStage(t)
		s.rules = bestEffort
		s.report(3)
		s.restart(5, single)
		s.ready = true
		s.want(s.bind(10, cores("refused", 20)), knowable)
	})
	t.Run("pods that are gone", func(t *testing.T) {
		s := newStage(t)
		s.bind(3, cores("first", 8))
		s.bind(4, cores("second", 8))
		s.end(5, "second")
		s.received.over["second"] = at(5).at
		s.restart(6, single)
		s.want(s.bind(10, cores("refused", 4)), stale)
		s.ready = true
		if l := s.bind(11, cores("later", 4)); l.over() {
			t.Error("a kubelet that is ready counts pods that are gone")
		}
	})
	t.Run("no devices", func(t *testing.T) {
		s := newStage(t)
		nic := func(name string) *v1.Pod {
			return workload.Pod(name, workload.Burstable("c", workload.Amounts{"cpu": "1"},
				workload.Amounts{"example.com/nic": "1"}))
		}
		s.restart(6, single)
		s.ready, s.broken = true, map[string]bool{"example.com/nic": true}
		s.want(s.bind(10, nic("refused")), unplugged)
		s.report(11)
		s.want(s.bind(12, nic("later")), knowable)
	})
	t.Run("the pod ran before", func(t *testing.T) {
		s := newStage(t)
		l := s.bind(3, cores("ran", 4))
		s.restart(6, single)
		s.admissions = append(s.admissions,
			admission{Admission: kubelet.Admission{At: at(7).at, Began: s.began.at, UID: "ran"}})
		l.pod.Status.Phase, l.ended = v1.PodFailed, at(7)
		s.want(l, notReadmitted)
	})
}

// For some pods with init containers more room is worse: the end of a pod excuses their refusals, and no others.
func TestAnEndExcusesOnlyPodsForWhichMoreRoomIsWorse(t *testing.T) {
	for _, c := range []struct {
		what     string
		received uint64
		want     blame
	}{
		{"the scheduler has not received it", 0, roomier},
		{"the scheduler had received it", 6, knowable},
	} {
		t.Run(c.what, func(t *testing.T) {
			s := newStage(t)
			s.bind(3, cores("four", 4))
			s.bind(4, cores("rest", 4))
			s.end(5, "four")
			if c.received > 0 {
				s.received.over["four"] = at(c.received).at
			}
			web := cores("web", 2)
			four, six := workload.Amounts{"cpu": "4", "memory": "64Mi"}, workload.Amounts{"cpu": "6", "memory": "64Mi"}
			web.Spec.Containers = append(web.Spec.Containers, workload.Guaranteed("b", six))
			web.Spec.InitContainers = []v1.Container{workload.Guaranteed("setup", four)}
			s.want(s.bind(10, web), c.want)
		})
	}
	t.Run("what ends makes no difference", func(t *testing.T) {
		s := newStage(t)
		s.bind(3, cores("four", 4))
		s.end(5, "four")
		s.want(s.bind(10, cores("refused", 12)), knowable)
	})
}

// TestAnEndExcusesWhatFollows: the place of a pod of Tenon's scheduler depended on the end of another pod. The
// scheduler could not have received this end, because the managers release a pod's holdings before its end is written.
func TestAnEndExcusesWhatFollows(t *testing.T) {
	for _, c := range []struct {
		what              string
		written, received uint64 // when the end was written, and when the scheduler received it
		want              blame
	}{
		{"the end was written before", 7, 0, roomier},
		{"the end was written later", 12, 0, roomier},
		{"the scheduler had received it", 7, 8, knowable},
	} {
		t.Run(c.what, func(t *testing.T) {
			s := newStage(t)
			s.bind(3, cores("full", 8))
			s.bind(4, nic(cores("other", 1))) // on the other NUMA node, with its only device
			s.end(5, "full")
			s.received.over["full"] = at(5).at
			s.bind(6, cores("ends", 4))
			s.end(7, "ends")
			s.bind(9, cores("moved", 6)) // beside the pod that has ended it would be on the other NUMA node
			i := slices.IndexFunc(s.lives, func(l life) bool { return l.pod.Name == "ends" })
			s.lives[i].ended = at(c.written)
			if c.received > 0 {
				s.received.over["ends"] = at(c.received).at
			}
			s.want(s.bind(10, nic(cores("refused", 4))), c.want)
		})
	}
}

// The scheduler may have received the first of two ends, so the second alone is an excuse.
func TestALaterEndExcusesAlone(t *testing.T) {
	for received, want := range map[uint64]blame{0: roomier, 10: knowable} {
		s := newStage(t)
		s.bind(3, cores("full", 8))
		s.bind(4, nic(cores("other", 1))) // on the other NUMA node, with its only device
		s.end(5, "full")
		s.received.over["full"] = at(5).at
		s.bind(6, cores("early", 2))
		s.bind(7, cores("ends", 4))
		s.end(8, "early")
		s.end(9, "ends")
		s.bind(10, cores("moved", 6)) // beside the pod that ended last it would be on the other NUMA node
		s.received.over["early"] = at(12).at.Add(-lag / 2)
		if received > 0 {
			s.received.over["ends"] = at(received).at
		}
		s.want(s.bind(12, nic(cores("refused", 4))), want)
	}
}

// Plain amounts are counted with and without foreign pods, too.
func TestForeignPodsExcuseAmounts(t *testing.T) {
	s := newStage(t)
	s.allocatable = v1.ResourceList{"cpu": resource.MustParse("6"), "pods": resource.MustParse("110")}
	f := foreign(workload.Pod("foreign", workload.Burstable("c", workload.Amounts{"cpu": "2"}, nil)))
	s.bind(5, f)
	for name, want := range map[string]blame{"six": overtaken, "seven": knowable} {
		n := map[string]int{"six": 6, "seven": 7}[name]
		l := s.bind(10, workload.Pod(name, workload.Burstable("c", workload.Amounts{"cpu": fmt.Sprint(n)}, nil)))
		l.pod.Status.Phase, l.pod.Status.Reason, l.ended = v1.PodFailed, "OutOfcpu", l.bound
		s.lives[len(s.lives)-1] = l
		s.want(l, want)
	}
}

// The kubelet lists the pods of a node, then its managers admit a pod, and then it counts plain amounts by its list. A
// pod of the list that ends in between is in no list of the managers.
func TestAmountsOfPodsThatEndMeanwhileCount(t *testing.T) {
	for ends, want := range map[uint64]blame{11: overtaken, 9: knowable} {
		s := newStage(t)
		s.allocatable = v1.ResourceList{"cpu": resource.MustParse("6"), "pods": resource.MustParse("110")}
		plain := func(name, cpus string) *v1.Pod {
			return workload.Pod(name, workload.Burstable("c", workload.Amounts{"cpu": cpus}, nil))
		}
		s.bind(4, plain("ends", "2"))
		s.bind(5, foreign(plain("foreign", "2")))
		s.end(ends, "ends")
		l := s.bind(10, plain("refused", "4"))
		l.pod.Status.Phase, l.pod.Status.Reason, l.ended = v1.PodFailed, "OutOfcpu", at(12)
		s.lives[len(s.lives)-1] = l
		s.want(l, want)
	}
}
