package console_test

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Each page works for a person with a mouse or with keys alone.
func TestPages(t *testing.T) {
	b := open(t)
	c := start(t, machines)
	b.do("open the console", chromedp.EmulateViewport(1280, 800), chromedp.Navigate(c.address))
	b.says("h1", "Cluster")
	b.says(".numbers", "5 nodes")
	for _, step := range []struct {
		name string
		try  func(*testing.T, browser, cluster)
	}{
		{"a created pod appears", created}, {"cluster", clusterPage}, {"affinity", affinity},
		{"node", nodePage}, {"kept room", kept}, {"pod", podPage},
		{"findings", findings},
		{"what if", whatIf}, {"policy", policyPage}, {"arguments", arguments}, {"kubelets", kubelets},
		{"hostile texts", hostile}, {"Chinese", chinese},
		{"errors", failing},
	} {
		ok := t.Run(step.name, func(t *testing.T) { step.try(t, browser{t, b.ctx}, c) })
		if !ok && step.name == "a created pod appears" {
			return // the other pages show the pods that this one creates
		}
	}
}

func pod(name, cpus string) *corev1.Pod {
	limits := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpus), corev1.ResourceMemory: resource.MustParse("4Gi"),
	}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "main", Image: "example.com/app:v1", Resources: corev1.ResourceRequirements{Limits: limits}}}}}
}

func create(b browser, c cluster, name, cpus string) {
	b.t.Helper()
	_, err := c.client.CoreV1().Pods("default").Create(b.t.Context(), pod(name, cpus), metav1.CreateOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
}

func created(t *testing.T, b browser, c cluster) {
	b.says("#waiting", "No pod waits")
	// Why a pod waits can take seconds to compute: the pod must appear before.
	b.do("hold answers about the pod", chromedp.Evaluate(`{ const real = fetch, held = new Promise((done) => { window.answerNow = done; });
		window.fetch = async (path, ...more) => { if (String(path).includes("too-large")) await held; return real(path, ...more); }; }`, nil))
	began := time.Now()
	create(b, c, "too-large", "1000")
	b.says("#waiting", "default/too-large")
	t.Logf("a created pod appears after %s", time.Since(began).Round(time.Millisecond))
	b.says("#waiting td", "Computing")
	b.do("answer", chromedp.Evaluate(`answerNow()`, nil))
	b.says("#waiting td", "wants")
	talk(t, c)
	create(b, c, "packer", "4")
	create(b, c, "encoder", "8")
}

// goTo opens a page by its address, as a bookmark does.
func goTo(b browser, hash, head string) {
	b.t.Helper()
	b.do("go to "+hash, chromedp.Evaluate("location.hash = "+quoted(hash), nil))
	b.says("h1", head)
}

func clusterPage(_ *testing.T, b browser, _ cluster) {
	b.do("find nodes", chromedp.SendKeys("#find", "gpu"), chromedp.SetValue("#view-as", "list"),
		chromedp.Evaluate(`document.querySelector("#view-as").dispatchEvent(new Event("change"))`, nil))
	b.says("tbody", "gpu-8")
	b.says(".pager", "of 1")
	b.do("group and colour", chromedp.Evaluate(`for (const [id, v] of [["find", ""], ["view-as", "map"], ["colour", "fragmentation"]]) {
		const e = document.getElementById(id); e.value = v; e.dispatchEvent(new Event("input")); e.dispatchEvent(new Event("change")); }`, nil))
	b.says(".legend", "scattered")
	b.do("count a shape", chromedp.SendKeys("#shape", "cpu=4,memory=8Gi"+kb.Enter))
	b.says("table", "cpu=4")
	b.do("colour by room", chromedp.Click(`//button[text()="Show on the map"]`, chromedp.BySearch))
	b.says(".legend", "no room")
	b.looks("cluster")
	b.do("ask for the usual workload", chromedp.Evaluate(`document.querySelector("#move").click()`, nil))
	b.says("#moves th", "before")
	b.looks("cluster-moves")
	// A finger's first tap says what is drawn of a node, the second one opens it.
	tap := chromedp.Evaluate(`{ const c = document.querySelector("canvas"), r = c.getBoundingClientRect();
		const at = { bubbles: true, clientX: r.left + 20, clientY: r.top + 40 };
		c.dispatchEvent(new PointerEvent("pointerdown", { ...at, pointerType: "touch" }));
		c.dispatchEvent(new MouseEvent("click", at)); }`, nil)
	b.do("touch a node", tap)
	b.says(".map .tip", "NUMA node 0")
	b.do("touch it again", tap)
	b.says("h1", "Node ")
	goTo(b, "#/", "Cluster")
	b.says(".numbers", "nodes")
	// Keys alone: the map has the focus, an arrow chooses the first node, Enter opens it.
	b.do("open a node by keys", focus("canvas"), chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.Home))
	b.says(".said", "NUMA node 0")
	b.do("open it", chromedp.KeyEvent(kb.Enter))
	b.says("h1", "Node ")
}

func nodePage(t *testing.T, b browser, c cluster) {
	on := placed(t, c, "encoder")
	goTo(b, "#/nodes/"+on, on)
	b.says("h2", "Who holds what")
	b.says("td", "default/encoder")
	// In one step: an update of the page would move the button away from under a pointer.
	b.do("mark what the pod holds", chromedp.Evaluate(`[...document.querySelectorAll("#holds tr")]
		.find((tr) => tr.innerText.includes("encoder")).querySelector("button").click()`, nil),
		chromedp.WaitVisible(".cell.marked", chromedp.ByQuery))
	b.says("figcaption", "Distances")
	sameLetters(t, b, c, on)
	explains(b)
	b.looks("node")
	goTo(b, "#/nodes/gpu-8", "gpu-8")
	b.says(".device", "GPU-0")
	b.looks("node-gpu")
	misaligned(t, b, c)
}

// placed waits until a pod has a node.
func placed(t *testing.T, c cluster, name string) string {
	t.Helper()
	one := metav1.ListOptions{FieldSelector: "metadata.name=" + name}
	w, err := c.client.CoreV1().Pods("default").Watch(t.Context(), one)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if p, ok := e.Object.(*corev1.Pod); ok && p.Spec.NodeName != "" {
			return p.Spec.NodeName
		}
	}
	t.Fatalf("pod %s has no node", name)
	return ""
}

func podPage(t *testing.T, b browser, c cluster) {
	goTo(b, "#/pods/default/too-large", "default/too-large")
	b.says("#sentence", "Never here: ")
	b.says("h2", "Decisions")
	b.says("td", "no node found")
	b.looks("pod-waiting")
	b.do("ask what has to move", chromedp.Evaluate(`document.querySelector("#move").click()`, nil))
	b.says("#moves", "No choice of pods makes room.")
	b.says("#moves td", "has no controller that would create it again")
	b.looks("pod-moves")
	goTo(b, "#/pods/default/encoder", "default/encoder")
	b.says("h2", "What it holds")
	b.says("td", "placed")
	b.looks("pod")
	misnamed(t, b, c)
}

// misnamed shows a pod that names a scheduler which does not run: it fits on nodes, and is placed on none.
func misnamed(t *testing.T, b browser, c cluster) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "misnamed", Namespace: "default"},
		Spec: corev1.PodSpec{SchedulerName: "tenon-sheduler", Containers: []corev1.Container{{Name: "c", Image: "image"}}}}
	pods := c.client.CoreV1().Pods(pod.Namespace)
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	goTo(b, "#/pods/default/misnamed", "default/misnamed")
	b.says("#sentence", `Wrong name: no scheduler named "tenon-sheduler" has been seen`)
	b.looks("pod-misnamed")
	now := int64(0)
	if err := pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
}

// The pod that is too large for each machine is found, and its link leads to it; by keys alone, too.
func findings(_ *testing.T, b browser, _ cluster) {
	b.do("choose the page", chromedp.Click(`//nav/a[text()="Findings"]`, chromedp.BySearch))
	b.says("h1", "Findings")
	b.says(".finding h2", "whatever ends there")
	b.says(".finding td", "default/too-large")
	b.looks("findings")
	b.do("only what is to know", focus("#severity"), chromedp.SendKeys("#severity", "to know"))
	b.says("#severity", "to know")
	b.do("examine again", chromedp.Click(`//button[text()="Examine again"]`, chromedp.BySearch))
	b.says(".tools", "Examine again")
	b.do("show all, and follow a link", chromedp.SendKeys("#severity", "all"),
		chromedp.Click(`//section[contains(@class, "finding")]//a[contains(., "too-large")]`, chromedp.BySearch))
	b.says("h1", "default/too-large")
}

func whatIf(_ *testing.T, b browser, _ cluster) {
	b.do("choose the page", chromedp.Click(`//nav/a[text()="What if"]`, chromedp.BySearch))
	b.says("h1", "What if")
	b.do("place nothing", chromedp.Click("#place", chromedp.ByQuery))
	b.says("#result", "Paste a manifest")
	b.do("place the example", chromedp.Click("#example", chromedp.ByQuery), chromedp.SendKeys("#count", "max"+kb.Enter))
	b.says("#result", "fit")
	b.says("#result td", "xeon-2s")
	b.says("#result figcaption", "after")
	b.do("see the pods in the drawing", chromedp.WaitVisible("#result .cell.fresh", chromedp.ByQuery))
	b.looks("whatif")
	b.do("check", chromedp.Click("#ever", chromedp.ByQuery))
	b.says("#result", "can run")
	b.do("break the manifest", chromedp.SetValue("#manifest", "kind: ["), chromedp.Click("#place", chromedp.ByQuery))
	b.says("#result [role=alert]", "did not work")
}

// volcano is a configuration of Volcano's scheduler that has no NUMA plugin yet.
const volcano = `actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority # of jobs
  - name: gang
- plugins:
  - name: predicates
  - name: nodeorder
`

// mounting is a Deployment of Volcano's scheduler without pods, with its configuration where Volcano's chart has it.
func mounting(config string) *appsv1.Deployment {
	labels := map[string]string{"app": "volcano-scheduler"}
	source := &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: config}}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "volcano-scheduler", Labels: labels},
		Spec: appsv1.DeploymentSpec{Replicas: new(int32), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: source}}},
				Containers: []corev1.Container{{Name: "scheduler", Image: "example.com/volcano:v1",
					Args:         []string{"--scheduler-conf=/etc/volcano/volcano-scheduler.conf"},
					VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/volcano"}}}}}}}}
}

func policyPage(t *testing.T, b browser, c cluster) {
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "volcano-system"}}
	if _, err := c.client.CoreV1().Namespaces().Create(t.Context(), system, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "volcano-scheduler-configmap"},
		Data: map[string]string{"volcano-scheduler.conf": volcano}}
	_, err := c.client.CoreV1().ConfigMaps(system.Name).Create(t.Context(), config, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.client.AppsV1().Deployments(system.Name).Create(t.Context(), mounting(config.Name), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b.do("choose the page", chromedp.Click(`//nav/a[text()="Policy"]`, chromedp.BySearch))
	b.says("h2", "Kubelets")
	b.says("td", "single-numa-node")
	b.do("ask what a change would do", chromedp.Click(`//button[text()="Turn on …"]`, chromedp.BySearch))
	b.says("pre", "+")
	b.says("pre", "numa-aware")
	b.looks("policy")
	b.do("write it", chromedp.Click(`//button[text()="Write it"]`, chromedp.BySearch))
	b.says(".note", "Written.")
	b.says(".panel h3", "numa-aware: on")
}

// tenonScheduler is a configuration of Tenon's scheduler with a comment that no change may lose.
const tenonScheduler = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: tenon-scheduler
  plugins:
    multiPoint:
      enabled: [{name: Tenon, weight: 10}]
  pluginConfig:
  - name: Tenon
    args:
      turnTimeoutSeconds: 30 # as long as a kubelet may take
`

// arguments changes arguments of the plugin by the form. Somebody else changes the same configuration in between: that
// is not overwritten.
func arguments(t *testing.T, b browser, c cluster) {
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenon-system"}}
	_, err := c.client.CoreV1().Namespaces().Create(t.Context(), system, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	maps := c.client.CoreV1().ConfigMaps(system.Name)
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "tenon-scheduler"},
		Data: map[string]string{"scheduler.yaml": tenonScheduler}}
	if config, err = maps.Create(t.Context(), config, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	propose := func() {
		b.do("change arguments", chromedp.Click(`//button[text()="Change …"]`, chromedp.BySearch),
			chromedp.SetValue(`select[name=silentNodes]`, "Refuse", chromedp.ByQuery),
			chromedp.SetValue(`input[name=turnTimeoutSeconds]`, "60", chromedp.ByQuery),
			chromedp.Click(`//button[text()="Show the change"]`, chromedp.BySearch))
		b.says("pre", "silentNodes: Refuse")
		b.says("pre", "turnTimeoutSeconds: 60 # as long as a kubelet may take")
	}
	goTo(b, "#/", "Cluster")
	goTo(b, "#/policy", "Policy")
	b.says("td", "tenon-scheduler")
	propose()
	b.looks("arguments")
	config.Labels = map[string]string{"changed-by": "somebody-else"}
	if _, err := maps.Update(t.Context(), config, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.do("write it", chromedp.Click(`//button[text()="Write it"]`, chromedp.BySearch))
	b.says(".change [role=alert]", "changed")
	goTo(b, "#/", "Cluster")
	goTo(b, "#/policy", "Policy")
	propose()
	b.do("write it again", chromedp.Click(`//button[text()="Write it"]`, chromedp.BySearch))
	b.says(".note", "Written.")
	if config, err = maps.Get(t.Context(), config.Name, metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	text := config.Data["scheduler.yaml"]
	if !strings.Contains(text, "silentNodes: Refuse") || !strings.Contains(text, "60 # as long as a kubelet may take") ||
		config.Labels["changed-by"] != "somebody-else" {
		t.Errorf("configuration with labels %v is\n%s", config.Labels, text)
	}
}

// hostile shows a node and a pod with HTML in fields that accept any text: it is shown, and never run.
func hostile(t *testing.T, b browser, c cluster) {
	const html = `<img/src=x/onerror=document.title=1>`
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "hostile", Labels: map[string]string{"rack": "r-1"}}}
	if _, err := c.client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	layout := map[string]any{"apiVersion": "tenon.sh/v1alpha1", "kind": "NodeLayout",
		"metadata": map[string]any{"name": "hostile"},
		"machine": map[string]any{
			"numas": []any{map[string]any{"id": int64(0), "memory": int64(8 << 30)}},
			"cpus":  []any{map[string]any{"numa": int64(0), "socket": int64(0), "l3": int64(0), "cpus": []any{"0-3"}}},
			"devices": []any{map[string]any{"resource": "acme.com/gpu", "groups": []any{
				map[string]any{"numas": "0", "ids": []any{html}}}}},
		},
		"rules": map[string]any{"topologyManagerPolicy": "none", "topologyManagerScope": "container",
			"cpuManagerPolicy": "none", "memoryManagerPolicy": "None"},
		"inexact": []any{map[string]any{"code": "unhealthy-devices", "message": html}},
	}
	_, err := c.layouts.Create(t.Context(), &unstructured.Unstructured{Object: layout}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p := pod("hostile", "1000")
	p.Annotations = map[string]string{"tenon.sh/numa-policy": html}
	if _, err := c.client.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, page := range []struct{ hash, selector string }{
		{"#/nodes/hostile", ".device"}, {"#/pods/default/hostile", "body"}, {"#/", "#waiting"},
	} {
		b.do("go to "+page.hash, chromedp.Evaluate("location.hash = "+quoted(page.hash), nil))
		b.says(page.selector, html)
		var made int
		b.do("count elements of the text", chromedp.Evaluate(`document.querySelectorAll("main img, main script").length`, &made))
		if made > 0 {
			t.Errorf("%s: the page makes elements of %s", page.hash, html)
		}
	}
	b.do("wait until all is drawn", painted())
	b.says("title", "Tenon")
	goTo(b, "#/policy", "Policy")
}

func chinese(_ *testing.T, b browser, _ cluster) {
	b.do("choose Chinese", chromedp.Evaluate(`const s = document.querySelector("#language"); s.value = "zh";
		s.dispatchEvent(new Event("change"))`, nil))
	b.says("h1", "策略")
	goTo(b, "#/", "集群")
	b.says("h2", "还能容纳")
	b.says(".numbers", "个节点")
	b.looks("cluster-zh")
	b.do("choose English", chromedp.Evaluate(`{ const s = document.querySelector("#language"); s.value = "en";
		s.dispatchEvent(new Event("change")) }`, nil))
	b.says("h1", "Cluster")
}

// failing checks the messages if there is nothing to show.
func failing(_ *testing.T, b browser, c cluster) {
	b.do("go to no node", chromedp.Evaluate(`location.hash = "#/nodes/nowhere"`, nil))
	b.says("[role=alert]", "no such object")
	b.looks("error")
	b.do("end the session", chromedp.Evaluate(`fetch("/api/v1/session", { method: "DELETE" }).then(() => location.reload())`, nil))
	b.says("h1", "not signed in")
	b.do("use the secret again", chromedp.Navigate("about:blank"), chromedp.Navigate(strings.TrimSpace(c.address)))
	b.says("h1", "not signed in")
	b.looks("signed-out")
}
