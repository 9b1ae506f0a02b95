package console_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// talkers is what an agent would publish about three pods; one of them runs on another NUMA node.
func talkers() *unstructured.Unstructured {
	pod := func(name, outcome string, numa any, bytes, remote int64) any {
		p := map[string]any{"namespace": "default", "name": name, "uid": name, "outcome": outcome, "bytesPerSecond": bytes,
			"remoteBytesPerSecond": remote}
		if numa != nil {
			p["numa"] = numa
		}
		return p
	}
	traffic := func(a, b string, bytes int64, remote bool) any {
		return map[string]any{"a": "default/" + a, "b": "default/" + b, "bytesPerSecond": bytes, "remote": remote}
	}
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "tenon.sh/v1alpha1", "kind": "NodeAffinity",
		"metadata": map[string]any{"name": "gpu-8"}, "measured": "2026-11-23T12:00:00Z", "periodSeconds": int64(15),
		"summary": map[string]any{"pods": int64(4), "placed": int64(3), "localBytesPerSecond": int64(400 << 20),
			"remoteBytesPerSecond": int64(90 << 20)},
		"lastMove": map[string]any{"time": "2026-11-23T11:00:00Z", "pods": int64(2), "remoteBefore": int64(490 << 20),
			"remoteAfter": int64(90 << 20)},
		"pods": []any{pod("talks-cart", "together", int64(0), 490<<20, 90<<20),
			pod("talks-db", "together", int64(0), 400<<20, 0),
			pod("talks-search", "no-room", int64(1), 90<<20, 90<<20), pod("talks-mail", "silent", nil, 0, 0)},
		"traffic": []any{traffic("talks-cart", "talks-db", 400<<20, false),
			traffic("talks-cart", "talks-search", 90<<20, true)}}}
}

// talk creates pods, and publishes what an agent would.
func talk(t *testing.T, c cluster) {
	t.Helper()
	for _, name := range []string{"talks-cart", "talks-db", "talks-search", "talks-mail"} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: "gpu-8",
			Containers: []corev1.Container{{Name: "c", Image: "example.com/c:1"}}}}
		if _, err := c.client.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.affinities.Create(t.Context(), talkers(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// Where an agent measures traffic, the page of its node draws who talks to whom, by NUMA node.
func affinity(t *testing.T, b browser, _ cluster) {
	goTo(b, "#/nodes/gpu-8", "gpu-8")
	b.says("#affinity", "400 MiB/s within NUMA nodes, 90 MiB/s between them")
	b.says("#affinity", "2 pods")
	b.says("#affinity td", "no-room")
	var lines int
	var drawn string
	b.do("read the graph", chromedp.Evaluate(`document.querySelectorAll("#affinity path").length`, &lines),
		chromedp.Evaluate(`document.querySelector("#affinity svg").textContent`, &drawn))
	if lines != 2 || !strings.Contains(drawn, "talks-search") || !strings.Contains(drawn, "NUMA node 1") {
		t.Errorf("%d lines between pods, want 2, and the texts %q", lines, drawn)
	}
	b.looks("node-affinity")
}
