package doctor_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/kube/kubetest"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/deploy/crd"
	"github.com/tenon-numa/tenon/ops/doctor"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

const (
	machine = `
numa 0 socket 0 cpus 0-7 memory 64Gi
numa 1 socket 1 cpus 8-15 memory 64Gi
distances 10 21
distances 21 10
`
	threads = `
numa 0 socket 0 cpus 0-3/8-11 memory 64Gi
numa 1 socket 1 cpus 4-7/12-15 memory 64Gi
`
)

// world is the input of a test: a cluster of one node.
type world struct {
	machine    string
	rules      place.Rules
	entries    []state.Entry
	layout     func(*v1alpha1.NodeLayout)
	noLayout   bool
	node       *v1.Node
	others     []v1.Node
	pods       []v1.Pod
	topologies []*v1alpha2.NodeResourceTopology
	served     map[string]bool // the extended resources of DeviceClasses
	plugin     string          // a resource that the device plugin of one more node announces
	snapshot   doctor.Snapshot
}

// healthy is a cluster without findings: a node with strict alignment, an aligned pod, a scheduler.
func healthy() *world {
	amounts := func(memory string) v1.ResourceList {
		return v1.ResourceList{"cpu": resource.MustParse("14"), "memory": resource.MustParse(memory),
			"pods": resource.MustParse("110"), "example.com/nic": resource.MustParse("4")}
	}
	pod := kubetest.Admitted(kubetest.CPUs("fine", 2), "node")
	pod.Spec.SchedulerName = "tenon-scheduler"
	return &world{machine: machine, rules: strict(), pods: []v1.Pod{*pod}, entries: []state.Entry{
		{Pod: kube.ID(pod), Holdings: []place.Holding{{Container: "c", CPUs: cpus("1-2"),
			Memory: []place.Block{{Kind: topo.Memory, NUMAs: 1, Bytes: 1 << 30}}}}}},
		node: &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}, Status: v1.NodeStatus{
			Capacity: amounts("128Gi"), Allocatable: amounts("126Gi"),
			NodeInfo: v1.NodeSystemInfo{KubeletVersion: "v1.36.3"}}},
		snapshot: doctor.Snapshot{At: noon, Definitions: map[string]map[string]any{
			"NodeLayout": definition(crd.NodeLayout()), "LayoutBase": definition(crd.LayoutBase()),
			"NodeAffinity": definition(crd.NodeAffinity())}, Leases: []doctor.Lease{{Namespace: "tenon-system",
			Name: "tenon-scheduler", Holder: "a", Renewed: noon.Add(-2 * time.Second), Lasts: 15 * time.Second}},
			Rights: []doctor.Right{{User: "agent", Verb: "create", Resource: "nodelayouts", Allowed: true}},
			Schedulers: []document.Scheduler{{Type: document.KubeScheduler, Profiles: []document.SchedulerProfile{
				{SchedulerName: "tenon-scheduler", Enabled: true}}}}}}
}

func strict() place.Rules {
	return place.Rules{Topology: place.TopologyRules{Policy: place.SingleNUMA},
		CPU: place.CPURules{Static: true, Reserved: cpus("0,8"), StrictReservation: true},
		Memory: place.MemoryRules{Static: true, Reserved: []place.Reserved{{NUMA: 0, Kind: topo.Memory, Bytes: 1 << 30},
			{NUMA: 1, Kind: topo.Memory, Bytes: 1 << 30}}}}
}

func definition(text []byte) (out map[string]any) {
	if err := yaml.Unmarshal(text, &out); err != nil {
		panic(err)
	}
	return out
}

func cpus(list string) idset.Set[idset.CPU] {
	out, err := idset.Parse[idset.CPU](list)
	if err != nil {
		panic(err)
	}
	return out
}

func (w *world) examine(t *testing.T, o doctor.Options) document.Diagnosis {
	t.Helper()
	d, err := doctor.Examine(w.read(t), o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// read returns the snapshot of the cluster.
func (w *world) read(t *testing.T) *doctor.Snapshot {
	t.Helper()
	m, err := topo.ParseMachine(w.machine)
	if err != nil {
		t.Fatal(err)
	}
	l := v1alpha1.FromCore("node", m, w.rules, w.entries, nil)
	l.ResourceVersion, l.Kubelet.Version = "100", "v1.36.3"
	if w.layout != nil {
		w.layout(l)
	}
	layouts := []v1alpha1.NodeLayout{*l}
	if w.noLayout {
		layouts = nil
	}
	nodes := append(w.others, *w.node)
	if w.plugin != "" {
		if m, err = topo.ParseMachine(w.machine + "device " + w.plugin + " a numa 0\n"); err != nil {
			t.Fatal(err)
		}
		other := v1alpha1.FromCore("plugged", m, w.rules, nil, nil)
		other.ResourceVersion, other.Kubelet.Version = "101", "v1.36.3"
		object := w.node.DeepCopy()
		object.Name = "plugged"
		layouts, nodes = append(layouts, *other), append(nodes, *object)
	}
	s := w.snapshot
	s.View = kube.ViewOf(layouts, nodes, w.pods, w.topologies, noon)
	s.View.Served = w.served
	return &s
}

func ids(d document.Diagnosis) (out []string) {
	for _, f := range d.Findings {
		out = append(out, f.ID)
	}
	return out
}

func TestNothingIsFoundWhereNothingIsWrong(t *testing.T) {
	if d := healthy().examine(t, doctor.Options{}); len(d.Findings) > 0 {
		t.Errorf("findings in a healthy cluster: %+v", d.Findings)
	}
}

// An upgrade that keeps an old definition, or has none, is a finding. An identity that may not read definitions gets no
// such finding.
func TestDefinitionsOfAnotherRelease(t *testing.T) {
	old := strings.ReplaceAll(string(crd.NodeAffinity()), "sockets:", "plugs:")
	older := strings.ReplaceAll(string(crd.LayoutBase()), "memoryGroups:", "memoryCells:")
	for want, found := range map[string]map[string]map[string]any{"": {}, "NodeAffinity": {"NodeAffinity": {}},
		"LayoutBase": {"LayoutBase": {}}, "v1alpha1.sockets": {"NodeAffinity": definition([]byte(old))},
		"v1alpha1.memoryGroups": {"LayoutBase": definition([]byte(older))}} {
		w := healthy()
		w.snapshot.Definitions = found
		d := w.examine(t, doctor.Options{})
		if want == "" && len(d.Findings) == 0 {
			continue
		}
		if got := ids(d); len(got) != 1 || got[0] != "definition-outdated" ||
			!strings.HasSuffix(d.Findings[0].Objects[0].Evidence[0], want) {
			t.Errorf("%s: findings %+v", want, d.Findings)
		}
	}
}

// unreported is a pod that no report lists; the kubelet admitted it at the time.
func unreported(at time.Time) v1.Pod {
	p := kubetest.Admitted(kubetest.CPUs("lost", 1), "node")
	p.Spec.SchedulerName = "tenon-scheduler"
	p.Status.StartTime = &metav1.Time{Time: at}
	p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue,
		LastTransitionTime: metav1.Time{Time: at}}}
	return *p
}

// wrongs has for every finding a change that causes it.
func wrongs() map[string]func(*world) {
	inexact := func(code state.InexactCode) func(*world) {
		return func(w *world) {
			w.layout = func(l *v1alpha1.NodeLayout) {
				l.Inexact = []v1alpha1.Inexact{{Code: string(code), Message: "why"}}
			}
		}
	}
	out := map[string]func(*world){"inexact": inexact("found-later")}
	for _, code := range []state.InexactCode{state.UnknownKubeletVersion, state.UnmodelledFeatureGate,
		state.UnhealthyDevices, state.RulesFromFiles, state.ReleaseOrder, state.HoldingsOmitted,
		state.StateInconsistent, state.StaleFacts, state.PodsUnreported, state.ReportContradicted,
		state.MachineChanged, state.DevicesOmitted} {
		out[string(code)] = inexact(code)
	}
	maps.Copy(out, wrongInstallations())
	maps.Copy(out, wrongNodes())
	maps.Copy(out, hazards())
	maps.Copy(out, wrongPods())
	maps.Copy(out, wrongClaims())
	return out
}

func wrongInstallations() map[string]func(*world) {
	labelled := func(name, image string) v1.Pod {
		return v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "tenon-agents", Name: name,
			Labels: map[string]string{"app.kubernetes.io/name": "tenon-agent"}},
			Spec: v1.PodSpec{NodeName: "node", Containers: []v1.Container{{Name: "c", Image: image}}}}
	}
	return map[string]func(*world){
		"definition-missing": func(w *world) { w.snapshot.Definitions["NodeLayout"], w.noLayout = nil, true },
		"definition-outdated": func(w *world) {
			old := strings.ReplaceAll(string(crd.NodeLayout()), "memoryGroups:", "memoryCells:")
			w.snapshot.Definitions["NodeLayout"] = definition([]byte(old))
		},
		"rights-missing": func(w *world) { w.snapshot.Rights[0].Allowed = false },
		"policy-missing": func(w *world) { w.snapshot.NoPolicy = []string{"validatingadmissionpolicies/x"} },
		"scheduler-missing": func(w *world) {
			w.snapshot.Leases = nil
		},
		"leader-missing": func(w *world) { w.snapshot.Leases[0].Renewed = noon.Add(-time.Hour) },
		"foreign-scheduler": func(w *world) {
			w.pods[0].Spec.SchedulerName = "volcano"
		},
		"agent-missing": func(w *world) { w.noLayout = true },
		"agent-not-ready": func(w *world) {
			p := labelled("a", "x:v1")
			p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionFalse}}
			w.pods = append(w.pods, p)
		},
		"version-skew": func(w *world) {
			w.pods = append(w.pods, labelled("a", "example.com/tenon-agent:v0.1.0"), labelled("b", "example.com:5000/b:v0.2.0"))
		},
		"amounts-only": func(w *world) {
			w.noLayout, w.topologies = true, append(w.topologies, kubetest.Topology("node", 7, 16, 16))
		},
		"topology-foreign": func(w *world) {
			o := kubetest.Topology("node", 7, 16, 16)
			o.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: client.FieldManager}, {Manager: "nfd-topology-updater"}}
			w.topologies = append(w.topologies, o)
		},
		"topology-refused": func(w *world) {
			o := kubetest.Topology("node", 7, 16, 16)
			o.Zones[0].Name = "numa-node-0"
			w.noLayout, w.topologies = true, append(w.topologies, o)
		},
		"layout-refused": func(w *world) { w.layout = func(l *v1alpha1.NodeLayout) { l.Malformed = "no machine" } },
		"layout-stale": func(w *world) {
			w.layout = func(l *v1alpha1.NodeLayout) { l.Kubelet.Version = "v1.35.0" }
		},
		"report-overdue": func(w *world) { w.pods = append(w.pods, unreported(noon.Add(-time.Hour))) },
		"pods-unlisted": func(w *world) {
			w.pods = append(w.pods, unreported(noon.Add(-time.Hour)))
			w.layout = func(l *v1alpha1.NodeLayout) {
				l.ManagedFields = []metav1.ManagedFieldsEntry{{Time: &metav1.Time{Time: noon.Add(-time.Minute)}}}
			}
		},
		"pods-gone": func(w *world) {
			w.snapshot.Gone = map[string][]state.PodID{"node": {{Namespace: "default", Name: "p", UID: "p"}}}
		},
		"report-awaited": func(w *world) { w.pods = append(w.pods, unreported(noon.Add(-time.Second))) },
	}
}

func wrongNodes() map[string]func(*world) {
	return map[string]func(*world){
		"shared-cpus":      func(w *world) { w.rules.CPU = place.CPURules{} },
		"memory-anywhere":  func(w *world) { w.rules.Memory = place.MemoryRules{} },
		"managers-apart":   func(w *world) { w.rules.Topology.Policy = place.None },
		"no-reserved-cpus": func(w *world) { w.rules.CPU.Reserved = idset.Set[idset.CPU]{} },
		"memory-reservation": func(w *world) {
			w.node.Status.Allocatable["memory"] = resource.MustParse("125Gi")
		},
		"kubelet-start":        func(w *world) { w.rules.CPU.AlignBySocket = true },
		"reserved-cpus-shared": func(w *world) { w.rules.CPU.StrictReservation = false },
		"half-cores": func(w *world) {
			w.machine = "numa 0 socket 0 cpus 0-3/8-11 memory 64Gi\nnuma 1 socket 1 cpus 4-7/12-15 memory 64Gi\n"
			w.entries, w.pods, w.rules.CPU.Reserved, w.rules.CPU.FullPCPUsOnly = nil, nil, cpus("0"), true
		},
		"reserved-cpus-given": func(w *world) {
			// Two of the cores have two threads, and four have one.
			w.machine = "numa 0 socket 0 cpus 0-1/2-3 memory 64Gi\nnuma 1 socket 0 cpus 4-7 memory 64Gi\n"
			w.entries, w.pods, w.rules.CPU.Reserved = nil, nil, cpus("0")
		},
		"node-lost": func(w *world) {
			w.node.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionUnknown,
				Reason: "NodeStatusUnknown", Message: "Kubelet stopped posting node status."}}
		},
		"hugepages-uneven": func(w *world) {
			w.machine = strings.Replace(w.machine, "memory 64Gi", "memory 64Gi hugepages-1Gi 2", 1)
			w.node.Status.Capacity["hugepages-1Gi"] = resource.MustParse("2Gi")
			w.node.Status.Allocatable["memory"] = resource.MustParse("124Gi")
		},
		"hugepages-missing": func(w *world) {
			w.machine = strings.ReplaceAll(strings.Split(w.machine, "distances")[0], "64Gi", "64Gi hugepages-1Gi 2") + "numa 2\n"
			w.node.Status.Capacity["hugepages-1Gi"] = resource.MustParse("4Gi")
			w.node.Status.Allocatable["memory"] = resource.MustParse("122Gi")
		},
		"devices-without-locality": func(w *world) { w.machine += "device example.com/nic nic-0 numa none\n" },
		"device-locality":          func(w *world) { w.machine += "device example.com/nic nic-0 numa none list negative\n" },
		"gpu-memory-numa": func(w *world) {
			w.layout = func(l *v1alpha1.NodeLayout) { l.Machine.NUMAs[1].MemoryKind = "gpu" }
		},
		"numa-balancing": func(w *world) {
			w.layout = func(l *v1alpha1.NodeLayout) {
				l.Machine.Oddities = []v1alpha1.Oddity{{Code: "numa-balancing", Message: "/proc/sys/kernel/numa_balancing: is 1"}}
			}
		},
		"firmware": func(w *world) {
			w.layout = func(l *v1alpha1.NodeLayout) {
				l.Machine.Oddities = []v1alpha1.Oddity{{Code: "odd-distances", Message: "node0/distance: 10 10"}}
			}
		},
		"kubelet-unusable": func(w *world) {
			w.machine, w.entries, w.pods = "", nil, nil
			for i := range 9 {
				w.machine += fmt.Sprintf("numa %d socket %d cpus %d memory 64Gi\n", i, i, i)
			}
		},
	}
}

// hazards are the changes that make a restart of the kubelet dangerous; the pods are healthy before it.
func hazards() map[string]func(*world) {
	holding := func(h place.Holding) func(*world) {
		return func(w *world) { w.entries[0].Holdings = []place.Holding{h} }
	}
	return map[string]func(*world){
		"reserved-cpu-held": holding(place.Holding{Container: "c", CPUs: cpus("0-1")}),
		"no-shared-cpu": func(w *world) {
			w.rules.CPU.StrictReservation = true
			w.entries[0].Holdings = []place.Holding{{Container: "c", CPUs: cpus("1-7,9-15")}}
		},
		"memory-state": func(w *world) {
			w.entries[0].Holdings = []place.Holding{
				{Container: "c", Memory: []place.Block{{Kind: topo.Memory, NUMAs: 1, Bytes: 1 << 30}}},
				{Container: "d", Memory: []place.Block{{Kind: topo.Memory, NUMAs: 3, Bytes: 1 << 30}}}}
		},
		"smt-readmission": func(w *world) {
			w.machine, w.rules.CPU.FullPCPUsOnly = threads, true
			w.entries[0].Holdings = []place.Holding{{Container: "c", CPUs: cpus("1-7,9-14")}}
		},
		"topology-readmission": func(w *world) {
			w.rules.Topology.Policy, w.rules.CPU.AlignBySocket = place.Restricted, true
			w.entries[0].Holdings = []place.Holding{{Container: "c", CPUs: cpus("1-2"),
				Memory: []place.Block{{Kind: topo.Memory, NUMAs: 2, Bytes: 1 << 30}}}}
		},
		"pod-level-readmission": func(w *world) {
			w.layout = func(l *v1alpha1.NodeLayout) {
				l.Kubelet.FeatureGates = []v1alpha1.FeatureGate{{Name: "PodLevelResourceManagers", Enabled: true}}
			}
			w.entries[0].Holdings = []place.Holding{{CPUs: cpus("1-2")}}
		},
		"init-devices": func(w *world) {
			w.machine += "device example.com/nic nic-0 numa 0\n"
			w.entries[0].Holdings = []place.Holding{{Container: "c", Kind: place.Init,
				Devices: []place.DeviceBlock{{Resource: "example.com/nic", IDs: []string{"nic-0"}, NUMAs: 1}}}}
		},
		"stopped-devices": func(w *world) {
			w.machine += "device example.com/nic nic-0 numa 0\n"
			w.entries[0].Holdings[0].Devices = []place.DeviceBlock{{Resource: "example.com/nic", IDs: []string{"nic-0"},
				NUMAs: 1}}
			w.status(v1.ContainerStatus{Name: "c", State: waits})
		},
		"status-readmission": func(w *world) {
			w.rules.Topology.Scope = place.PerPod
			w.layout = func(l *v1alpha1.NodeLayout) { l.Kubelet.Version = "v1.34.7" }
			p := &w.pods[0]
			p.Spec.Containers = append(p.Spec.Containers, *p.Spec.Containers[0].DeepCopy())
			p.Spec.Containers[1].Name = "d"
			w.entries[0].Holdings = append(w.entries[0].Holdings, place.Holding{Container: "d", CPUs: cpus("3-4")})
			w.status(v1.ContainerStatus{Name: "d", State: waits})
		},
		"resize-readmission": func(w *world) {
			w.layout = func(l *v1alpha1.NodeLayout) { l.Kubelet.Version = "v1.37.2" }
			w.status(v1.ContainerStatus{Name: "c", AllocatedResources: v1.ResourceList{"cpu": resource.MustParse("4")}})
		},
	}
}

var waits = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}

// status sets the status of a container in the existing pod.
func (w *world) status(s v1.ContainerStatus) {
	w.pods[0].Status.ContainerStatuses = append(w.pods[0].Status.ContainerStatuses, s)
}

// Volcano gives each pod a group, also where there is no gang.
func TestGangsOfOtherSchedulers(t *testing.T) {
	for name, c := range map[string]struct {
		key, group string
		want       int
	}{
		"Koordinator's label":  {"pod-group.scheduling.sigs.k8s.io", "g", 1},
		"Koordinator's older":  {"pod-group.scheduling.sigs.k8s.io/name", "g", 1},
		"Coscheduling":         {"scheduling.x-k8s.io/pod-group", "g", 1},
		"Volcano":              {"scheduling.k8s.io/group-name", "g", 1},
		"Volcano's of its pod": {"scheduling.k8s.io/group-name", "podgroup-u", 0},
		"Volcano's of another": {"scheduling.k8s.io/group-name", "podgroup-v", 1},
		"Koordinator":          {"gang.scheduling.koordinator.sh/name", "g", 1},
		"YuniKorn":             {"yunikorn.apache.org/task-group-name", "g", 1},
	} {
		w := healthy()
		p := kubetest.CPUs("worker", 2)
		p.UID, p.Spec.SchedulerName = "u", "tenon-scheduler"
		p.Annotations, p.Labels = map[string]string{c.key: c.group}, map[string]string{c.key: c.group}
		w.pods = append(w.pods, *p)
		if got := ids(w.examine(t, doctor.Options{})); len(got) != c.want || c.want > 0 && got[0] != "gang-not-enforced" {
			t.Errorf("%s: findings %v, want %d", name, got, c.want)
		}
	}
}

func wrongPods() map[string]func(*world) {
	return map[string]func(*world){
		"never-admitted": func(w *world) { w.pods = append(w.pods, *kubetest.CPUs("wide", 9)) },
		"scheduler-misnamed": func(w *world) {
			p := kubetest.CPUs("slip", 2)
			p.Spec.SchedulerName = "tenon-sheduler"
			w.pods = append(w.pods, *p)
		},
		"nearly-guaranteed": func(w *world) {
			p := kubetest.CPUs("nearly", 2)
			p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "side"})
			w.pods = append(w.pods, *p)
		},
		"gang-not-enforced": func(w *world) {
			p := kubetest.CPUs("worker", 2)
			p.Spec.SchedulerName, p.Labels = "tenon-scheduler", map[string]string{"scheduling.x-k8s.io/pod-group": "job"}
			w.pods = append(w.pods, *p)
		},
		"odd-cpus": func(w *world) {
			// As far as is known, another node would take it.
			w.machine, w.rules.CPU.FullPCPUsOnly = threads, true
			w.others = []v1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Status: w.node.Status}}
			w.pods = append(w.pods, *kubetest.CPUs("odd", 3))
		},
		"misaligned": func(w *world) { w.entries[0].Holdings[0].CPUs = cpus("1,9") },
		"hugepages-uncounted": func(w *world) {
			p := kubetest.Admitted(kubetest.CPUs("burst", 1), "node")
			p.Spec.SchedulerName, p.Status.QOSClass = "tenon-scheduler", v1.PodQOSBurstable
			limits := v1.ResourceList{"hugepages-2Mi": resource.MustParse("4Mi")}
			p.Spec.Containers[0].Resources = v1.ResourceRequirements{Limits: limits, Requests: v1.ResourceList{
				"cpu": resource.MustParse("100m"), "memory": resource.MustParse("1Gi"), "hugepages-2Mi": limits["hugepages-2Mi"]}}
			w.pods = append(w.pods, *p)
		},
		"kubelet-refused": func(w *world) {
			p := kubetest.Admitted(kubetest.CPUs("refused", 3), "node")
			p.Status.Phase, p.Status.Reason = v1.PodFailed, "TopologyAffinityError"
			w.pods = append(w.pods, *p)
		},
	}
}

// Every finding appears with its cause, with an object and a remedy, and disappears without the cause.
func TestEveryFindingHasItsCause(t *testing.T) {
	all := wrongs()
	if got, want := slices.Sorted(maps.Keys(all)), doctor.IDs(); !slices.Equal(got, want) {
		t.Errorf("causes of\n%v\nwant of\n%v", got, want)
	}
	for id, wrong := range all {
		t.Run(id, func(t *testing.T) {
			w := healthy()
			wrong(w)
			d := w.examine(t, doctor.Options{})
			i := slices.IndexFunc(d.Findings, func(f document.Finding) bool { return f.ID == id })
			if i < 0 {
				t.Fatalf("found %v", ids(d))
			}
			if f := d.Findings[i]; f.Remedy == "" || f.Text == "" || len(f.Objects) == 0 || f.Severity == "" {
				t.Errorf("finding %+v lacks something", f)
			}
			if len(d.Findings) > 2 { // a holding may be wrong in two ways
				t.Errorf("beside it: %v", ids(d))
			}
		})
	}
}

// The document explains every finding under its id.
func TestEveryFindingIsExplained(t *testing.T) {
	text, err := os.ReadFile("../../docs/" + strings.TrimPrefix(doctor.Page, document.Docs))
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range doctor.IDs() {
		_, section, ok := strings.Cut(string(text), "\n### "+id+"\n")
		section, _, _ = strings.Cut(section, "\n#")
		if !ok || !strings.Contains(section, "Remedy:") {
			t.Errorf("%s has no section %q that says what mends it", doctor.Page, id)
		}
	}
}

// Pods that no node can run for different reasons have findings of their own, each with its own remedy.
func TestEachReasonHasItsRemedy(t *testing.T) {
	w := healthy()
	lost := kubetest.CPUs("lost", 2)
	lost.Spec.NodeSelector = map[string]string{"disk": "none"}
	w.pods = append(w.pods, *lost, *kubetest.CPUs("wide", 400), *kubetest.CPUs("wide-too", 400))
	got := map[string]string{} // the remedies by the objects
	for _, f := range w.examine(t, doctor.Options{}).Findings {
		for _, o := range f.Objects {
			got[o.Name] = f.Remedy
		}
	}
	if len(got) != 3 || got["lost"] == got["wide"] || got["wide"] != got["wide-too"] ||
		strings.Contains(got["wide"], "label") {
		t.Errorf("remedies %q", got)
	}
	for i := range w.pods { // no scheduler places them, whatever they ask for
		w.pods[i].DeletionTimestamp = &metav1.Time{Time: noon}
	}
	if d := w.examine(t, doctor.Options{}); slices.Contains(ids(d), "never-admitted") {
		t.Errorf("findings about pods that are being deleted: %v", ids(d))
	}
}

func TestFindingsAreOfTheNodeOrPodThatIsAskedFor(t *testing.T) {
	w := healthy()
	w.rules.CPU, w.entries = place.CPURules{}, nil
	w.pods = []v1.Pod{*kubetest.CPUs("wide", 400)}
	if got := ids(w.examine(t, doctor.Options{Node: "node"})); !slices.Equal(got, []string{"shared-cpus"}) {
		t.Errorf("of the node: %v", got)
	}
	if got := ids(w.examine(t, doctor.Options{Pod: "default/wide"})); !slices.Equal(got, []string{"never-admitted"}) {
		t.Errorf("of the pod: %v", got)
	}
	// Of the waiting pods of one controller only one is judged: the one that is asked for.
	w.pods = append(w.pods, *kubetest.CPUs("wide-2", 400))
	for i := range w.pods {
		w.pods[i].OwnerReferences = []metav1.OwnerReference{
			{Kind: "ReplicaSet", Name: "wide", UID: "w", Controller: new(true)}}
	}
	for _, name := range []string{"default/wide", "default/wide-2"} {
		if got := ids(w.examine(t, doctor.Options{Pod: name})); !slices.Equal(got, []string{"never-admitted"}) {
			t.Errorf("of pod %s of a ReplicaSet: %v", name, got)
		}
	}
	for _, o := range []doctor.Options{{Node: "other"}, {Pod: "default/other"}, {Pod: "ml/wide"}} {
		if d, err := doctor.Examine(w.read(t), o); err == nil {
			t.Errorf("%+v is not there, and the answer is %v", o, d.Findings)
		}
	}
}

// The rights that doctor checks are the rights in the manifests.
func TestRightsAreThoseOfTheRoles(t *testing.T) {
	all, err := doctor.Needed()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range all {
		got = append(got, r.String())
	}
	for _, want := range []string{"patch nodelayouts.tenon.sh", "get nodes/configz", "update nodelayouts/status.tenon.sh",
		"update leases.coordination.k8s.io/tenon-scheduler -n tenon-system", "create pods/binding"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is not among %v", want, got)
		}
	}
}
