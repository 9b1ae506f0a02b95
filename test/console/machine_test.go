package console_test

import (
	"regexp"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// sameLetters compares the letters of pods on a node's page with those of kubectl tenon map.
func sameLetters(t *testing.T, b browser, c cluster, node string) {
	t.Helper()
	const read = `[...document.querySelectorAll("#holds tbody tr")].filter((tr) => tr.querySelector("button.letter"))
		.map((tr) => [tr.querySelector(".letter").innerText.trim(), tr.querySelector("a").innerText])`
	var pods [][]string
	b.do("read the letters", chromedp.Evaluate(read, &pods))
	if len(pods) == 0 {
		t.Fatal("the page has no pod with a letter")
	}
	text := c.run(t, "map", node)
	for _, p := range pods {
		line := regexp.MustCompile(`(?m)^ ` + regexp.QuoteMeta(p[0]) + `[ *!?] ` + regexp.QuoteMeta(p[1]) + `\b`)
		if !line.MatchString(text) {
			t.Errorf("the page has %s for %s, and kubectl tenon map prints\n%s", p[0], p[1], text)
		}
	}
}

// explains checks that a part of the drawing says the same to keys, to a pointer and to a finger.
func explains(b browser) {
	b.t.Helper()
	b.do("go to a part by keys", focus(".explained"), chromedp.KeyEvent(kb.Home),
		chromedp.KeyEvent(kb.ArrowRight))
	b.says(".tip", "CPU")
	b.do("leave it", chromedp.KeyEvent(kb.Escape))
	for _, pointer := range []string{"pointerover", "click"} {
		b.do("rest on the pod's CPU", chromedp.Evaluate(`document.querySelector(".cell.marked").dispatchEvent(
			new (`+quoted(pointer)+` === "click" ? MouseEvent : PointerEvent)(`+quoted(pointer)+`, { bubbles: true }))`, nil))
		b.says(".tip", "default/encoder")
	}
}

// misaligned shows a pod with CPUs of two NUMA nodes where one has enough: it is marked on the map, in the list, and on
// adopt makes a ReplicaSet the controller of a pod.
func adopt(t *testing.T, c cluster, p *corev1.Pod) {
	t.Helper()
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Spec: appsv1.ReplicaSetSpec{
		Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: p.Labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: p.Labels}, Spec: *p.Spec.DeepCopy()}}}
	set.Spec.Template.Spec.NodeName = ""
	if _, err := c.client.AppsV1().ReplicaSets(p.Namespace).Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	one := metav1.ListOptions{FieldSelector: "metadata.name=" + p.Name}
	w, err := c.client.CoreV1().Pods(p.Namespace).Watch(t.Context(), one)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if now, ok := e.Object.(*corev1.Pod); ok && metav1.GetControllerOf(now) != nil {
			return
		}
	}
	t.Fatalf("pod %s has no controller", p.Name)
}

// the page of its node.
func misaligned(t *testing.T, b browser, c cluster) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "split"}}
	if _, err := c.client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	p := pod("astride", "4")
	p.Labels = map[string]string{"app": "astride"}
	p.Spec.NodeName = node.Name
	p, err := c.client.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	adopt(t, c, p)
	numa := func(id int64, cpus string) (any, any) {
		distances := []any{10 + 10*id, 20 - 10*id}
		return map[string]any{"id": id, "memory": int64(16 << 30), "distances": distances},
			map[string]any{"numa": id, "socket": id, "l3": id, "cpus": []any{cpus}}
	}
	numa0, cpus0 := numa(0, "0-7")
	numa1, cpus1 := numa(1, "8-15")
	held := map[string]any{"name": "main", "cpus": "1-2,8-9"}
	layout := map[string]any{"apiVersion": "tenon.sh/v1alpha1", "kind": "NodeLayout",
		"metadata": map[string]any{"name": "split"},
		"machine":  map[string]any{"numas": []any{numa0, numa1}, "cpus": []any{cpus0, cpus1}},
		"rules": map[string]any{"topologyManagerPolicy": "best-effort", "topologyManagerScope": "container",
			"cpuManagerPolicy": "static", "memoryManagerPolicy": "None", "reservedCPUs": "0"},
		"holdings": []any{map[string]any{"namespace": "default", "name": p.Name, "uid": string(p.UID),
			"containers": []any{held}}}}
	object := &unstructured.Unstructured{Object: layout}
	if _, err := c.layouts.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	goTo(b, "#/nodes/split", "split")
	b.says("#holds td", "more NUMA nodes than necessary")
	b.do("see it in the drawing", chromedp.WaitVisible(".cell.mis", chromedp.ByQuery))
	b.looks("node-misaligned")
	goTo(b, "#/pods/default/astride", "default/astride")
	b.says("h2", "What would have to move")
	b.do("ask how to align it", chromedp.Evaluate(`document.querySelector("#move").click()`, nil))
	b.says("#moves td", "default/astride")
	b.says("#moves figcaption", "after")
	b.do("see both nodes", chromedp.WaitVisible("#moves .cell", chromedp.ByQuery))
	b.looks("pod-align")
	goTo(b, "#/", "Cluster")
	b.says(".legend", "nodes with misaligned pods: 1")
	b.do("show only these nodes", chromedp.Evaluate(`document.querySelector(".legend .cornered").click()`, nil),
		chromedp.SetValue("#view-as", "list", chromedp.ByQuery),
		chromedp.Evaluate(`document.querySelector("#view-as").dispatchEvent(new Event("change"))`, nil))
	b.says("td", "misaligned pods: 1")
	b.says(".pager", "of 1")
	b.looks("cluster-list")
}
