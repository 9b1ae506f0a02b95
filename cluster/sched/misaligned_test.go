package sched

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
	"github.com/tenon-numa/tenon/cluster/report"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
)

// The owner of a misaligned pod sees an event once, however often its node reports. A pod that started before the
// scheduler counts without an event.
func TestMisalignedPodsGetOneEvent(t *testing.T) {
	book := ledger.New()
	feed := kube.NewFeed(book, nil, nil)
	recorder, said := events.NewFakeRecorder(8), report.NewEvents(klog.Background())
	said.To(recorder)
	began := time.Unix(1000, 0)
	pods := []*v1.Pod{bind(cpus("split", 2), "n"), bind(cpus("whole", 2), "n"), bind(cpus("old", 2), "n")}
	pods[2].Status.StartTime = &metav1.Time{Time: began.Add(-time.Hour)}
	m := &misaligned{snapshot: book.Snapshot, pods: func(string) []*v1.Pod { return pods }, tell: said,
		since: began, on: map[string]map[string]bool{}}
	feed.OnReport(m.reported)
	feed.Begin()
	var entries []ledger.Entry
	for i, set := range []idset.Set[idset.CPU]{idset.Of[idset.CPU](1, 17), idset.Of[idset.CPU](2, 3), idset.Of[idset.CPU](4, 20)} {
		entries = append(entries, ledger.Entry{Pod: kube.ID(pods[i]), Source: ledger.Observed,
			Holdings: []place.Holding{{Container: pods[i].Spec.Containers[0].Name, CPUs: set}}})
	}
	for version := range 3 {
		feed.Layout(strict(t, "n", version+1, entries...))
	}
	if n := m.count(); n != 2 {
		t.Errorf("%d pods are misaligned, want 2", n)
	}
	if len(recorder.Events) != 1 {
		t.Fatalf("%d events, want 1", len(recorder.Events))
	}
	if e := <-recorder.Events; !strings.Contains(e, "Misaligned") || !strings.Contains(e, "topologyManagerPolicy best-effort") ||
		!strings.Contains(e, "holds parts of NUMA nodes 0-1") || !strings.Contains(e, "would hold parts of NUMA node 0") {
		t.Errorf("event %q", e)
	}
	feed.LayoutGone(&v1alpha1.NodeLayout{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	if n := m.count(); n != 0 {
		t.Errorf("%d pods are misaligned on a node that is gone", n)
	}
}
