package report

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/kube/kubetest"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/state"
)

// A misaligned pod gets one event, however often its node reports. A pod that started before the scheduler is counted
// without an event.
func TestMisalignedPodsGetOneEvent(t *testing.T) {
	book := ledger.New()
	feed := kube.NewFeed(book, nil, nil)
	recorder, said := events.NewFakeRecorder(8), NewEvents(klog.Background())
	said.To(recorder)
	began := time.Unix(1000, 0)
	pods := []*v1.Pod{kubetest.Bound(kubetest.CPUs("split", 2), "n"), kubetest.Bound(kubetest.CPUs("whole", 2), "n"),
		kubetest.Bound(kubetest.CPUs("old", 2), "n")}
	pods[2].Status.StartTime = &metav1.Time{Time: began.Add(-time.Hour)}
	m := NewMisaligned(book.Snapshot, said, began)
	m.Of(func(string) []*v1.Pod { return pods })
	feed.OnReport(m.Reported)
	feed.Begin()
	var entries []state.Entry
	for i, cpus := range []string{"1,17", "2-3", "4,20"} {
		e := kubetest.Holding(pods[i], cpus)
		e.Source = state.Observed
		entries = append(entries, e)
	}
	for version := range 3 {
		feed.Layout(kubetest.Strict(t, "n", version+1, entries...))
	}
	if n := m.Count(); n != 2 {
		t.Errorf("%d pods are misaligned, want 2", n)
	}
	if len(recorder.Events) != 1 {
		t.Fatalf("%d events, want 1", len(recorder.Events))
	}
	event := <-recorder.Events
	for _, part := range []string{"Misaligned", "topologyManagerPolicy best-effort", "holds parts of NUMA nodes 0-1",
		"would hold parts of NUMA node 0"} {
		if !strings.Contains(event, part) {
			t.Errorf("event %q lacks %q", event, part)
		}
	}
	feed.LayoutGone(&v1alpha1.NodeLayout{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	if n := m.Count(); n != 0 {
		t.Errorf("%d pods are misaligned on a node that is gone", n)
	}
}
