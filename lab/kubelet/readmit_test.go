package kubelet_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/place/scenario"
	"github.com/tenon-numa/tenon/core/state"
	lab "github.com/tenon-numa/tenon/lab/kubelet"
)

// Restarts of kubelets whose pods have statuses: scenarios have none. Each pod is admitted, the managers start anew on
// its files, and are asked again with what the API server then has of it.

const readmitMachine = `
numa 0 socket 0 cpus 0-7 memory 8Gi
numa 1 socket 1 cpus 8-15 memory 8Gi
device acme.com/gpu g0,g1 numa 0
rules topology=%s scope=%s cpu=static reserved=0 memory=Static reserve=0:memory:1Gi

admit p : a cpu=2 memory=1Gi / b cpu=2 memory=1Gi%s
`

// readmission is a pod with the containers a and b when its kubelet restarts. Container a runs, unless none is set.
type readmission struct {
	name, of    string // of is what b requests beside CPUs and memory
	waits, none bool   // waits: b has not been created; none: neither a nor b has
	cpus, bytes string // what b was resized to
}

var readmissions = []readmission{
	{name: "both run"},
	{name: "one waits", waits: true},
	{name: "both wait", waits: true, none: true},
	{name: "one with devices waits", of: " acme.com/gpu=1", waits: true},
	{name: "one with devices runs", of: " acme.com/gpu=1"},
	{name: "resized CPUs", cpus: "4"},
	{name: "resized memory", bytes: "2Gi"},
}

// Tenon's statements about a pod's restart match what the managers do with it.
func TestStatusesEndangerWhatTheManagersEnd(t *testing.T) {
	releases, _ := judging()
	for _, release := range releases {
		for _, policy := range []string{"best-effort", "restricted", "single-numa-node"} {
			for _, scope := range []string{"container", "pod"} {
				for _, c := range readmissions {
					t.Run(fmt.Sprint(release, "/", policy, "/", scope, "/", c.name), func(t *testing.T) {
						c.try(t, release, fmt.Sprintf(readmitMachine, policy, scope, c.of))
					})
				}
			}
		}
	}
}

func (c readmission) try(t *testing.T, release, text string) {
	j := newJudge(t, release)
	if (c.cpus != "" || c.bytes != "") && j.release() < 37 {
		t.Skip("the release resizes no such pod")
	}
	f, err := scenario.Parse(c.name, text)
	if err == nil {
		err = asOf(j, &f.Scenario)
	}
	if err != nil {
		t.Fatal(err)
	}
	dir, configured, pod := judgeDir(t), configuration(&f.Scenario), podOf(f.Steps[0])
	active := func() []*v1.Pod { return []*v1.Pod{pod} }
	first, err := j.open(context.Background(), dir, f.Machine, configured, active)
	if err != nil {
		t.Fatal(err)
	}
	if got := first.Admit(pod); !got.Admit {
		t.Fatalf("the pod is refused: %s", got.Message)
	}
	held := state.Entry{Pod: kube.ID(pod)}
	for _, k := range pod.Spec.Containers {
		held.Holdings = append(held.Holdings, first.Holding(pod.UID, k.Name))
	}
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	pod = c.later(pod)
	found := []lab.Container{{Pod: string(pod.UID), Name: "a", Running: !c.none},
		{Pod: string(pod.UID), Name: "b", Running: !c.waits}}
	found = slices.DeleteFunc(found, func(k lab.Container) bool { return !k.Running })
	j = newJudge(t, release) // a process that has not seen the pod as it was
	again, _, err := j.reopen(context.Background(), dir, f.Machine, configured, active, found)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Stop() }()
	got := again.Admit(pod)
	hazards := endangered(f, pod, held)
	if got.Admit != (len(hazards) == 0) {
		t.Errorf("the managers say %t %s (%s); the hazards are %v", got.Admit, got.Reason, got.Message, hazards)
	}
}

// later returns the pod as the API server has it when the kubelet restarts.
func (c readmission) later(pod *v1.Pod) *v1.Pod {
	pod = pod.DeepCopy()
	for name, to := range map[v1.ResourceName]string{"cpu": c.cpus, "memory": c.bytes} {
		if to != "" {
			r := &pod.Spec.Containers[1].Resources
			r.Requests[name], r.Limits[name] = resource.MustParse(to), resource.MustParse(to)
		}
	}
	for i, waits := range []bool{c.none, c.waits} {
		k := &pod.Spec.Containers[i]
		s := v1.ContainerStatus{Name: k.Name}
		if s.State.Waiting = (&v1.ContainerStateWaiting{Reason: "ImagePullBackOff"}); !waits {
			s.State = v1.ContainerState{Running: &v1.ContainerStateRunning{}}
			s.AllocatedResources = k.Resources.Requests
		}
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, s)
	}
	return pod
}

// endangered returns the hazards of a node that reports the pod's holdings.
func endangered(f *scenario.File, pod *v1.Pod, held state.Entry) []place.Hazard {
	l := v1alpha1.FromCore("n", f.Machine, f.Rules, []state.Entry{held}, nil)
	l.ResourceVersion, l.Kubelet.Version = "1", "v"+f.Rules.Release.String()+".0"
	pod = pod.DeepCopy()
	pod.Spec.NodeName = "n"
	book := ledger.New()
	feed := kube.NewFeed(book, nil, nil)
	feed.Begin()
	feed.Pod(pod)
	feed.Layout(l)
	return book.Snapshot().Node("n").RestartHazards()
}
