package kube

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/api/pod/podtest"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// statused is a pod of two containers with two CPUs each on node n, whose first container runs, and its entry.
func statused(second v1.ContainerStatus) (*v1.Pod, state.Entry) {
	p := bind(podtest.Pod("p", podtest.Exact("a", "cpu=2 memory=1Gi"), podtest.Exact("b", "cpu=2 memory=1Gi")), "n",
		time.Unix(1, 0))
	p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "a", AllocatedResources: podtest.List("cpu=2 memory=1Gi"),
		State: runs}, second}
	return p, state.Entry{Pod: ID(p), Holdings: []place.Holding{{Container: "a", CPUs: idset.Of[idset.CPU](1, 2)},
		{Container: "b", CPUs: idset.Of[idset.CPU](3, 4)}}}
}

var (
	runs    = v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	waiting = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}
)

// followed is a feed of a node with single-numa-node, scope pod and the release, and the dangers to its pods.
func followed(t *testing.T, release place.Release) (f *Feed, report func(...state.Entry), pods func() []string) {
	book := ledger.New()
	f = NewFeed(book, nil, nil)
	f.Begin()
	version := 0
	report = func(entries ...state.Entry) {
		version++
		l := layoutOf(t, "n", version, entries...)
		l.Rules.TopologyManagerScope, l.Kubelet.Version = "pod", "v"+release.String()+".0"
		f.Layout(l)
	}
	return f, report, func() (out []string) {
		for _, h := range book.Snapshot().Node("n").RestartHazards() {
			out = append(out, string(h.Code))
			out = append(out, h.Pods...)
		}
		return out
	}
}

// A pod is endangered while one of its containers waits, whether the pod or the report comes first.
func TestAContainerThatWaitsEndangersItsPod(t *testing.T) {
	want := []string{"status-readmission", "default/p"}
	p, e := statused(v1.ContainerStatus{Name: "b", State: waiting})
	later, _ := statused(v1.ContainerStatus{Name: "b", State: runs, AllocatedResources: podtest.List("cpu=2")})
	f, report, pods := followed(t, 34)
	f.Pod(p)
	report(e)
	if got := pods(); !slices.Equal(got, want) {
		t.Errorf("the pod came first: hazards %v, want %v", got, want)
	}
	f.Pod(later)
	if got := pods(); got != nil {
		t.Errorf("the container runs: hazards %v", got)
	}
	f.Pod(p)
	if got := pods(); !slices.Equal(got, want) {
		t.Errorf("it waits again: hazards %v, want %v", got, want)
	}
	p.DeletionTimestamp = new(p.CreationTimestamp)
	f.PodGone(p)
	report(e)
	if got := pods(); got != nil {
		t.Errorf("the pod is gone: hazards %v", got)
	}
}

// A container that holds another number of CPUs than its kubelet has allocated was resized, also for a scheduler that
// has not seen the resize. A resize that is not carried out changes the spec alone.
func TestResizedPodsAreEndangered(t *testing.T) {
	want := []string{"resize-readmission", "default/p"}
	p, e := statused(v1.ContainerStatus{Name: "b", State: runs, AllocatedResources: podtest.List("cpu=2 memory=1Gi")})
	grown := p.DeepCopy()
	grown.Spec.Containers[1] = podtest.Exact("b", "cpu=4 memory=1Gi")
	done := grown.DeepCopy()
	done.Status.ContainerStatuses[1].AllocatedResources = podtest.List("cpu=4 memory=1Gi")
	f, report, pods := followed(t, 37)
	f.Pod(p)
	report(e)
	for _, c := range []struct {
		of   string
		pod  *v1.Pod
		want []string
	}{{"nothing", p, nil}, {"the spec", grown, nil}, {"the allocation", done, want}} {
		f.Pod(c.pod)
		if got := pods(); !slices.Equal(got, c.want) {
			t.Errorf("a resize of %s: hazards %v, want %v", c.of, got, c.want)
		}
	}
	later, report, pods := followed(t, 37)
	later.Pod(done)
	report(e)
	if got := pods(); !slices.Equal(got, want) {
		t.Errorf("a scheduler that has just started: hazards %v, want %v", got, want)
	}
}

// Statuses beyond the number that a kubelet would write are not read.
func TestStatusesOfNoKubeletAreNotRead(t *testing.T) {
	p, e := statused(v1.ContainerStatus{Name: "b", State: runs, AllocatedResources: podtest.List("cpu=9e99")})
	p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, v1.ContainerStatus{Name: "x", State: waiting},
		v1.ContainerStatus{Name: "b", State: waiting})
	f, report, pods := followed(t, 37)
	f.Pod(p)
	report(e)
	if got := pods(); got != nil {
		t.Errorf("hazards %v", got)
	}
}
