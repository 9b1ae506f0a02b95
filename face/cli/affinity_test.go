package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/api/v1alpha1"
)

// measured are two nodes whose agents have measured pods.
func measured() document.Affinity {
	zero, one := int64(0), int64(1)
	a := v1alpha1.NodeAffinity{ObjectMeta: metav1.ObjectMeta{Name: "node-a"},
		Measured: metav1.NewTime(time.Now().Add(-12 * time.Second)),
		Summary:  v1alpha1.AffinitySummary{Pods: 3, Placed: 2, LocalBytesPerSecond: 420e6, RemoteBytesPerSecond: 2500},
		LastMove: &v1alpha1.AffinityMove{Time: metav1.NewTime(time.Now().Add(-3 * time.Minute)), Pods: 2,
			RemoteBefore: 420e6},
		Pods: []v1alpha1.AffinityPod{
			{Namespace: "shop", Name: "cart-0", Outcome: "together", NUMA: &one, BytesPerSecond: 420e6},
			{Namespace: "shop", Name: "db-0", Outcome: "no-room", NUMA: &one, Wanted: &zero, BytesPerSecond: 1420e6,
				Lacks: &v1alpha1.AffinityLack{Resource: "cpu", Want: 1500, Have: 250}},
			{Namespace: "shop", Name: "a-pod-of-a-deployment-with-a-very-long-name-54f7b9c8d-x7k2p", Outcome: "waits",
				Wanted: &one, Periods: 1}},
		Traffic: []v1alpha1.AffinityTraffic{{A: "shop/cart-0", B: "shop/db-0", BytesPerSecond: 420e6, Remote: true}}}
	b := v1alpha1.NodeAffinity{ObjectMeta: metav1.ObjectMeta{Name: "node-b"}}
	return document.AffinityOf([]v1alpha1.NodeAffinity{a, b})
}

func talkers(t *testing.T, d document.Affinity, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := Run(t.Context(), append([]string{"affinity"}, args...), &out, &errs, Setup{
		Affinity: func(_ context.Context, _ Kubeconfig, node string) (document.Affinity, error) {
			if node != "" {
				d.Nodes = d.Nodes[:1]
			}
			return d, nil
		}}); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	return out.String()
}

func TestAffinityShowsWhatPodsExchange(t *testing.T) {
	out := talkers(t, measured(), "node-a")
	for _, want := range []string{"node-a", "420 MB/s", "3 kB/s", "3m ago: 2 pods", "1.4 GB/s",
		"no-room: NUMA node 0 has 0.25", "of 1.5 CPUs", "waits: NUMA node 1, period 1", "remote", "together"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	for line := range strings.Lines(out) {
		if utf8.RuneCountInString(strings.TrimRight(line, " \n")) > 100 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	if out := talkers(t, measured()); !strings.Contains(out, "node-b") || strings.Contains(out, "cart-0") {
		t.Errorf("without a node:\n%s", out)
	}
	if out := talkers(t, document.AffinityOf(nil)); !strings.HasPrefix(out, "No agent puts pods") {
		t.Errorf("without agents: %s", out)
	}
	var d document.Affinity
	if err := json.Unmarshal([]byte(talkers(t, measured(), "-o", "json")), &d); err != nil || len(d.Nodes) != 2 ||
		d.Nodes[0].Pods[1].Lacks == nil || d.Nodes[0].Pods[1].Why == "" {
		t.Errorf("%v, %+v", err, d)
	}
}
