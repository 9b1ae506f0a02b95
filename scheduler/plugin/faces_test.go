package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/tenon-numa/tenon/cluster/live/livetest"
	"github.com/tenon-numa/tenon/cmd/commands"
	"github.com/tenon-numa/tenon/core/summary"
	"github.com/tenon-numa/tenon/face/cli"
	"github.com/tenon-numa/tenon/face/console"
)

// The owner of a waiting pod reads the same sentence wherever he or she looks: in the scheduler's event, in explain, in
// check before the pod exists, and in the console's answer.
func TestAllFacesSayTheSameOfAWaitingPod(t *testing.T) {
	selecting := func(p *v1.Pod, key, value string) *v1.Pod {
		p.Spec.NodeSelector = map[string]string{key: value}
		return p
	}
	tainted := func(c *town, at int) {
		c.nodes[at].(*v1.Node).Spec.Taints = []v1.Taint{{Key: "team", Value: "infra", Effect: v1.TaintEffectNoSchedule}}
	}
	two := func(c *town) { c.fill(2) }
	for name, s := range map[string]struct {
		build func(c *town)
		pod   *v1.Pod
		kind  summary.Kind
		want  string
	}{
		"never on one NUMA node": {two, cpus("p", 20), summary.Never,
			`Never here: container "c" wants 20 cpu on one NUMA node; the largest has 16 (node node-000, the best of 2); ` +
				"16 cpu would fit on the empty node"},
		"more than any machine has": {two, cpus("p", 300), summary.Never,
			`Never here: pod wants 300 cpu; the node has 100 for pods (node node-000, the best of 2); ` +
				"16 cpu would fit on the empty node"},
		"one pod in the way": {two, cpus("p", 8), summary.NotNow,
			`Not now: container "c" wants 8 cpu; the node has 2 free (node node-000); it fits there when one of these pods ` +
				"ends: low-node-000-0, low-node-000-1"},
		"a pod of another namespace in the way": {func(c *town) {
			c.node("node-a", "0-14", "16-30")
			for _, p := range c.pods {
				p.Namespace = "secret"
			}
			c.renew()
		}, cpus("p", 8), summary.NotNow, `Not now: container "c" wants 8 cpu; the node has 2 free (node node-a); it fits ` +
			"there when one of these pods ends: 2 of other namespaces"},
		"several pods in the way": {func(c *town) { c.node("node-a", "0-6", "7-13", "16-22", "23-29") }, cpus("p", 10),
			summary.NotNow, `Not now: container "c" wants 10 cpu; the node has 4 free (node node-a); it fits there when these ` +
				"pods end: low-node-a-0, low-node-a-1"},
		"plain amounts": {func(c *town) { c.node("node-a", "0-14", "16-30") }, burstable("cpu=80"), summary.NotNow,
			"Not now: pod wants 80 cpu; the node has 70 left (node node-a); it fits there when one of these pods ends: " +
				"low-node-a-0, low-node-a-1"},
		"never for a plain pod": {two, burstable("cpu=101"), summary.Never,
			"Never here: pod wants 101 cpu; the node has 100 for pods (node node-000, the best of 2); " +
				"100 cpu would fit on the empty node"},
		"a taint": {func(c *town) { c.fill(2); tainted(c, 0); tainted(c, 1) }, cpus("p", 8), summary.Changed,
			"Not without a change: pod does not tolerate the taint team=infra:NoSchedule (2 nodes)"},
		"a taint, and a machine that is too small": {func(c *town) { c.fill(3); tainted(c, 0) }, cpus("p", 20), summary.Never,
			`Never here: container "c" wants 20 cpu on one NUMA node; the largest has 16 (node node-001, the best of 3); ` +
				"16 cpu would fit on the empty node"},
		"a label that no node has": {two, selecting(cpus("p", 8), "disk", "sdd"), summary.WrongName,
			"Wrong name: no node has the label disk=sdd, which the pod's node selector wants"},
		"a value that no node has": {two, selecting(cpus("p", 8), "name", "node-1"), summary.WrongName,
			"Wrong name: no node has the label name=node-1, which the pod's node selector wants; nodes have node-000, node-001"},
		"a node that does not exist": {two, selecting(cpus("p", 8), "kubernetes.io/hostname", "node-7"), summary.WrongName,
			"Wrong name: no node is named node-7, which the pod's node selector wants"},
		"a node that is too small": {two, selecting(cpus("p", 20), "kubernetes.io/hostname", "node-001"), summary.Never,
			`Never on the 1 node that it selects: container "c" wants 20 cpu on one NUMA node; the largest has 16 (node ` +
				"node-001); 16 cpu would fit on the empty node"},
		"a node that is full": {two, selecting(cpus("p", 8), "kubernetes.io/hostname", "node-001"), summary.NotNow,
			`Not now: container "c" wants 8 cpu; the node has 2 free (node node-001); it fits there when one of these pods ` +
				"ends: low-node-001-0, low-node-001-1"},
		"a resource that no node has": {two, podOf("p", "cpu=1 memory=1Gi acme.com/gpuu=1"), summary.WrongName,
			"Wrong name, or its device plugin does not run: no node offers acme.com/gpuu"},
		"nodes without a layout": {func(c *town) { c.fill(1); c.bare("node-b") }, cpus("p", 20), summary.Never,
			`Never on the 1 node that is judged (1 is not): container "c" wants 20 cpu on one NUMA node; the largest has 16 ` +
				"(node node-000); 16 cpu would fit on the empty node"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTown(t)
			s.build(c)
			s.pod.Spec.PreemptionPolicy = ptr.To(v1.PreemptNever)
			event := c.schedules(s.pod).why
			if got := summary.Cut(event); got != s.want {
				t.Errorf("the event says %q\nwant          %q\nin %s", got, s.want, event)
			}
			f := c.faces(t, refusedPod(s.pod, event))
			for face, got := range map[string]string{"explain": f.explain(), "check": f.check(s.pod), "the console": f.rest()} {
				if got != s.want {
					t.Errorf("%s says\n%q\nwant %q", face, got, s.want)
				}
			}
			if f.kind != string(s.kind) {
				t.Errorf("the console's kind is %s, want %s", f.kind, s.kind)
			}
		})
	}
}

// burstable returns a pod that no kubelet aligns.
func burstable(amounts string) *v1.Pod {
	p := podOf("p", amounts)
	p.Spec.Containers[0].Resources.Limits = nil
	return p
}

// refusedPod returns the pod as the API server has it after the scheduler has refused it.
func refusedPod(p *v1.Pod, message string) *v1.Pod {
	p = p.DeepCopy()
	p.ResourceVersion = "9"
	p.Status = v1.PodStatus{Phase: v1.PodPending, Conditions: []v1.PodCondition{{Type: v1.PodScheduled,
		Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, Message: message}}}
	return p
}

// bare adds a node that reports nothing about its NUMA nodes.
func (c *town) bare(name string) {
	n := c.nodes[0].(*v1.Node).DeepCopy()
	n.Name, n.Labels = name, map[string]string{"name": name, v1.LabelHostname: name}
	c.nodes = append(c.nodes, n)
}

// renew reports all pods again, after a test has changed them.
func (c *town) renew() {
	for _, p := range c.pods {
		c.shared.Feed.Pod(p)
	}
}

// faces are a command and a console that read the same cluster as the scheduler, with one waiting pod.
type faces struct {
	t      *testing.T
	api    *livetest.Server
	config string
	pod    *v1.Pod
	kind   string // of the console's last answer
}

func (c *town) faces(t *testing.T, pod *v1.Pod) *faces {
	t.Helper()
	f := &faces{t: t, api: livetest.New(t), config: filepath.Join(t.TempDir(), "config"), pod: pod}
	pods := []any{pod}
	for _, p := range c.pods {
		pods = append(pods, p)
	}
	var nodes []any
	for _, n := range c.nodes {
		nodes = append(nodes, n)
	}
	f.api.List(livetest.Nodes, nodes...)
	f.api.List(livetest.Pods, pods...)
	f.api.List(livetest.Layouts, c.layouts...)
	f.api.List(livetest.EventsOf(pod.Namespace))
	f.api.List(livetest.Events)
	for _, kind := range []string{"limitranges", "resourcequotas"} {
		f.api.List("/api/v1/namespaces/" + pod.Namespace + "/" + kind)
		f.api.List("/api/v1/" + kind)
	}
	f.api.Object(livetest.PodsOf(pod.Namespace)+"/"+pod.Name, pod)
	f.write(f.config, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "x",
"contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
"clusters": [{"name": "x", "cluster": {"server": %q}}], "users": [{"name": "x", "user": {}}]}`, f.api.URL))
	return f
}

func (f *faces) write(file, text string) {
	f.t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// run runs a command and returns what it writes, with single spaces between words.
func (f *faces) run(args ...string) string {
	f.t.Helper()
	var out, errs bytes.Buffer
	cli.Run(f.t.Context(), append(args, "--kubeconfig", f.config), &out, &errs, commands.Setup("test"))
	if out.Len() == 0 {
		f.t.Fatalf("%v: %s", args, errs.String())
	}
	return strings.Join(strings.Fields(out.String()), " ")
}

// explain returns the first sentence of explain.
func (f *faces) explain() string {
	text := f.run("explain", "pod", f.pod.Namespace+"/"+f.pod.Name)
	return firstOf(text, ". Pod ")
}

// firstOf returns a text up to its remedy or up to the end that follows if there is none.
func firstOf(text, end string) string {
	head, _, _ := strings.Cut(text, ". Remedy: ")
	head, _, _ = strings.Cut(head, end)
	return head
}

// check returns the first sentence of check about a manifest of the pod.
func (f *faces) check(pod *v1.Pod) string {
	f.t.Helper()
	pod = pod.DeepCopy()
	pod.APIVersion, pod.Kind, pod.Spec.PreemptionPolicy, pod.UID = "v1", "Pod", nil, ""
	pod.Spec.Containers[0].Image = "image"
	text, err := json.Marshal(pod)
	if err != nil {
		f.t.Fatal(err)
	}
	file := filepath.Join(f.t.TempDir(), "pod.json")
	f.write(file, string(text))
	_, said, _ := strings.Cut(f.run("check", "-f", file, "--ask-server=false"), ": ")
	return firstOf(said, ". It can run ")
}

// rest returns the sentence in the console's answer about the pod.
func (f *faces) rest() string {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	who, err := commands.Watch(ctx, &rest.Config{Host: f.api.URL}, "test")
	if err != nil {
		f.t.Fatal(err)
	}
	changes := who.View.Follow()
	defer changes.Close()
	for !who.View.State().Ready {
		if _, err := changes.Next(ctx); err != nil {
			f.t.Fatal(err)
		}
	}
	h, err := console.New(console.Config{Hosts: []string{"example.com"}, Identities: anybody{who}})
	if err != nil {
		f.t.Fatal(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet,
		"/api/v1/pods/"+f.pod.Namespace+"/"+f.pod.Name, nil))
	var doc struct{ Summary struct{ Kind, Text string } }
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
		f.t.Fatalf("%s: %v", w.Body, err)
	}
	f.kind = doc.Summary.Kind
	return doc.Summary.Text
}

// anybody identifies every request as one identity.
type anybody struct{ who *console.Identity }

func (a anybody) Identify(*http.Request) (*console.Identity, error) { return a.who, nil }

func (a anybody) SignIn(context.Context, console.Credential) (*console.Identity, *http.Cookie, error) {
	return a.who, &http.Cookie{}, nil
}

func (a anybody) SignOut(*http.Request) *http.Cookie { return &http.Cookie{} }
