package console_test

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/cluster/live/livetest"
	"github.com/tenon-numa/tenon/cmd/commands"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/face/console"
)

// site is a console of a cluster, and a signed-in browser.
type site struct {
	*httptest.Server
	api     *livetest.Server
	handler *console.Handler
	who     *console.Identity
	secret  string
	cookie  *http.Cookie
}

const configuration = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: tenon # ours
  plugins: {multiPoint: {enabled: [{name: Tenon, weight: 7}]}}
  pluginConfig:
  - name: Tenon
    args: {apiVersion: tenon.sh/v1alpha1, kind: TenonArgs, unknownNodes: Refuse}
`

const evil = `<img src=x onerror=alert(1)>`

func cluster(t *testing.T) *livetest.Server {
	s := livetest.New(t)
	s.List(livetest.Nodes, livetest.Node("a"), livetest.Node("b"))
	waiting := livetest.Pod("web", "q", "")
	waiting.Status.Message, waiting.Annotations["tenon.sh/align"] = evil, evil
	s.List(livetest.Pods, livetest.Pod("ml", "p", "a"), livetest.Pod("ml", "wait", ""), waiting)
	s.List(livetest.Layouts, livetest.Layout(t, "a", holding("ml", "p")))
	s.Object("/api/v1/namespaces/tenon-system/configmaps/tenon-scheduler", &v1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenon-system", Name: "tenon-scheduler", ResourceVersion: "3"},
		Data:       map[string]string{"scheduler.yaml": configuration}})
	now := metav1.NewTime(time.Unix(1e9, 0))
	s.Object("/apis/tenon.sh/v1alpha1/nodeaffinities/a", &v1alpha1.NodeAffinity{
		ObjectMeta: metav1.ObjectMeta{Name: "a"}, Measured: now, LastMove: &v1alpha1.AffinityMove{Time: now, Pods: 1},
		Pods:    []v1alpha1.AffinityPod{{Namespace: "ml", Name: "p", NUMA: new(int64(1)), Outcome: "together"}},
		Traffic: []v1alpha1.AffinityTraffic{{A: "ml/p", B: "ml/p", BytesPerSecond: 2}}})
	s.List(livetest.Events)
	s.List(livetest.EventsOf("ml"))
	s.List(livetest.EventsOf("web"))
	return s
}

// holding returns what the node of a livetest.Pod observes of the pod.
func holding(namespace, name string) state.Entry {
	return state.Entry{Pod: state.PodID{UID: namespace + "." + name, Namespace: namespace, Name: name},
		Holdings: []place.Holding{{Container: "c", CPUs: idset.Of[idset.CPU](0, 1, 64, 65),
			Memory: []place.Block{{Kind: "memory", NUMAs: 1, Bytes: 8 << 30}}}}}
}

// open serves a console as "kubectl tenon console" does.
func open(t *testing.T) *site {
	t.Helper()
	s := &site{api: cluster(t)}
	who, err := commands.Watch(t.Context(), &rest.Config{Host: s.api.URL}, "lab", "ml")
	if err != nil {
		t.Fatal(err)
	}
	s.who = who
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.handler.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	secret, exchange := console.OneTime(who, time.Hour, time.Now)
	s.secret = secret
	if s.handler, err = console.New(console.Config{Version: "test", Hosts: []string{strings.TrimPrefix(s.URL, "http://")},
		Identities: console.NewSessions(exchange, false, 1, time.Hour)}); err != nil {
		t.Fatal(err)
	}
	return s
}

// signedIn is an open console with a session whose view may read everything.
func signedIn(t *testing.T) *site {
	t.Helper()
	s := open(t)
	code, _, h := s.ask(t, "POST", "/api/v1/session", s.secret, "Content-Type: text/plain")
	if code != http.StatusOK {
		t.Fatalf("signing in answers %d", code)
	}
	s.cookie = (&http.Response{Header: h}).Cookies()[0]
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	f := s.who.View.Follow()
	defer f.Close()
	for !s.who.View.State().Ready {
		if _, err := f.Next(ctx); err != nil {
			t.Fatal("the view is not ready: ", err)
		}
	}
	return s
}

// ask makes a request with headers "Name: value".
func (s *site) ask(t *testing.T, method, path, body string, headers ...string) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if s.cookie != nil {
		r.AddCookie(s.cookie)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
		if name == "Host" {
			r.Host = value
		}
	}
	res, err := (&http.Transport{DisableCompression: true}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(data), res.Header
}

func (s *site) get(t *testing.T, path string, into any) {
	t.Helper()
	code, body, h := s.ask(t, "GET", path, "")
	if code != http.StatusOK || h.Get("Content-Type") != "application/json" {
		t.Fatalf("GET %s answers %d (%s): %s", path, code, h.Get("Content-Type"), body)
	}
	if err := json.Unmarshal([]byte(body), into); err != nil {
		t.Fatal(err)
	}
}

func TestTheClusterByNUMANode(t *testing.T) {
	s := signedIn(t)
	var o document.ClusterOverview
	s.get(t, "/api/v1/cluster?label=zone", &o)
	if len(o.Nodes) != 2 || o.Pods != 3 || o.Waiting != 2 || len(o.Limits) != 0 {
		t.Fatalf("overview %+v", o)
	}
	a, b := o.Nodes[0], o.Nodes[1]
	free := 0
	for _, n := range a.NUMAs {
		free += n.FreeCPUs
	}
	if a.Quality != "exact" || len(a.NUMAs) != 4 || free != 124 || a.NUMAs[0].Devices[0].Free != 2 ||
		a.Labels["zone"] != "x" {
		t.Errorf("node a is %+v", a)
	}
	if b.Quality != "none" || b.Problem == "" || b.NUMAs == nil {
		t.Errorf("node b is %+v", b)
	}
	var n document.Node
	s.get(t, "/api/v1/nodes/a", &n)
	if len(n.Holdings) != 1 || n.Holdings[0].Name != "p" || n.Holdings[0].Source != "observed" {
		t.Errorf("holdings of node a: %+v", n.Holdings)
	}
}

func TestPodsAndWhyTheyWait(t *testing.T) {
	s := signedIn(t)
	var l document.PodList
	s.get(t, "/api/v1/pods?waiting=true&limit=1", &l)
	if l.Total != 2 || len(l.Pods) != 1 || l.Pods[0].Name != "wait" || l.Continue != "ml/wait" {
		t.Errorf("first waiting pod: %+v", l)
	}
	l = document.PodList{}
	s.get(t, "/api/v1/pods?waiting=true&limit=1&continue=ml/wait", &l)
	if len(l.Pods) != 1 || l.Pods[0].Name != "q" || l.Continue != "" {
		t.Errorf("next waiting pod: %+v", l)
	}
	var e struct {
		Kind     string
		Verdicts []document.Verdict
	}
	s.get(t, "/api/v1/pods/ml/wait", &e)
	if e.Kind != "PodExplanation" || len(e.Verdicts) != 1 || !e.Verdicts[0].Fits || e.Verdicts[0].Node != "a" {
		t.Errorf("explanation %+v", e)
	}
}

// A pod's history is its events, the newest first. The answer to a person who may not read events names the missing
// right.
func TestDecisionsAreRead(t *testing.T) {
	s := signedIn(t)
	at := func(hour int) metav1.Time { return metav1.Time{Time: time.Unix(1e9+int64(hour)*3600, 0)} }
	event := func(reason string, first, last, count int) *v1.Event {
		return &v1.Event{InvolvedObject: v1.ObjectReference{Kind: "Pod", Name: "wait", UID: "ml.wait"}, Reason: reason,
			Message: reason + " said", FirstTimestamp: at(first), LastTimestamp: at(last), Count: int32(count),
			ReportingController: "tenon-scheduler", Type: "Warning"}
	}
	s.api.List(livetest.EventsOf("ml"), event("FailedScheduling", 1, 4, 7), event("Pulled", 1, 9, 1),
		event("TopologyAffinityError", 2, 2, 1), event("Scheduled", 5, 5, 1))
	var h document.PodHistory
	s.get(t, "/api/v1/pods/ml/wait/decisions", &h)
	got := ""
	for _, d := range h.Decisions {
		got += fmt.Sprintf("%s x%d by %s; ", d.Outcome, d.Count, d.By)
	}
	want := "scheduled x1 by tenon-scheduler; refused x7 by tenon-scheduler; rejected x1 by tenon-scheduler; "
	if got != want || h.Problem != "" {
		t.Errorf("history %s%s\nwant %s", got, h.Problem, want)
	}
	s.api.Forbid(livetest.EventsOf("ml"))
	h = document.PodHistory{}
	if s.get(t, "/api/v1/pods/ml/wait/decisions", &h); h.Problem == "" || len(h.Decisions) != 0 {
		t.Errorf("without the right to read events: %+v", h)
	}
}

// Schedulers are shown by their configuration, and kubelets by their rules.
func TestThePolicyIsRead(t *testing.T) {
	s := signedIn(t)
	var p document.SchedulingPolicy
	s.get(t, "/api/v1/scheduling", &p)
	if len(p.Schedulers) != 1 || len(p.Kubelets) != 1 || p.Kubelets[0].Nodes[0] != "a" || len(p.Limits) == 0 {
		t.Fatalf("policy %+v", p)
	}
	one := p.Schedulers[0]
	if one.ID != "tenon-system/tenon-scheduler" || !one.Enabled || one.MayWrite || one.Profiles[0].Weight != 7 ||
		one.Profiles[0].Arguments["unknownNodes"] != "Refuse" || !strings.Contains(one.Text, "# ours") {
		t.Errorf("scheduler %+v", one)
	}
	if r := p.Kubelets[0].Rules; r.TopologyManagerPolicy != "single-numa-node" {
		t.Errorf("rules %+v", r)
	}
}

const manifest = `
apiVersion: v1
kind: Pod
metadata: {name: big}
spec:
  containers:
  - name: c
    image: i
    resources: {limits: {cpu: 20, memory: 1Gi}}
`

func TestWhatIf(t *testing.T) {
	s := signedIn(t)
	for path, want := range map[string]string{
		"/api/v1/simulate":                   `"kind":"Simulation","strategy":"Tenon","fits":true`,
		"/api/v1/simulate?count=max":         `"placed":10,`,
		"/api/v1/simulate?without=a":         `"node":"a","moved":1`,
		"/api/v1/check":                      `"kind":"PodCheck","passes":true`,
		"/api/v1/simulate?add=a=2&count=max": `"placed":18,`,
		"/api/v1/simulate?policy=none":       `"kind":"Simulation"`,
		"/api/v1/defrag?most=3":              `"kind":"Defragmentation","found":true,"asked":["--filename=-","--most=3"],"moves":[]`,
		"/api/v1/defrag?empty=a":             `"kind":"Defragmentation"`,
		"/api/v1/simulate?option=scope=pod&selector=kubernetes.io%2Fhostname%3Da": `"kind":"Simulation"`,
		"/api/v1/simulate?pending=true&namespace=x":                               `"namespace":"x","name":"big"`,
	} {
		code, body, _ := s.ask(t, "POST", path, manifest, "Content-Type: application/yaml")
		if code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("POST %s answers %d without %s: %.600s", path, code, want, body)
		}
	}
	code, body, _ := s.ask(t, "POST", "/api/v1/defrag?usual=true", "", "Content-Type: application/yaml")
	if code != http.StatusOK || !strings.Contains(body, `"usual":[{"shape":"cpu=`) {
		t.Errorf("the usual workload: %d: %.600s", code, body)
	}
	code, body, _ = s.ask(t, "GET", "/api/v1/fitting?shape=cpu=16,memory=1Gi", "")
	if code != http.StatusOK || !strings.Contains(body, `"slots":7`) {
		t.Errorf("fitting answers %d: %s", code, body)
	}
}

// The console judges affinity to the labels of other pods: a pod with anti-affinity to p finds no room on p's node.
func TestAntiAffinityIsJudged(t *testing.T) {
	s := signedIn(t)
	const apart = `
  affinity:
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - {topologyKey: kubernetes.io/hostname, namespaces: [ml], labelSelector: {matchLabels: {app: p}}}
`
	code, body, _ := s.ask(t, "POST", "/api/v1/check", manifest+apart, "Content-Type: application/yaml")
	if code != http.StatusOK || !strings.Contains(body, `"now":["b"]`) {
		t.Errorf("answers %d %s", code, body)
	}
}

// Each refusal is a problem document that names the field.
func TestRefusalsNameTheField(t *testing.T) {
	s := signedIn(t)
	yaml := "Content-Type: application/yaml"
	for _, c := range []struct {
		method, path, body, header string
		code                       int
		field                      string
	}{
		{"GET", "/api/v1/nodes/A%2F..%2Fb", "", "", 404, "path"},
		{"GET", "/api/v1/nodes/nope", "", "", 404, "node"},
		{"GET", "/api/v1/pods/ml/..%2f..%2fsecrets", "", "", 404, "path"},
		{"GET", "/api/v1/pods/ml/a%2Fb", "", "", 400, "pod"},
		{"GET", "/api/v1/nodes/A", "", "", 400, "node"},
		{"GET", "/api/v1/pods/ml/gone", "", "", 404, "path"},
		{"GET", "/api/v1/pods?limit=0", "", "", 400, "limit"},
		{"GET", "/api/v1/pods?namespace=a&namespace=b", "", "", 400, "namespace"},
		{"GET", "/api/v1/pods?nmespace=a", "", "", 400, "nmespace"},
		{"GET", "/api/v1/fitting?shape=gpu", "", "", 400, "shape"},
		{"GET", "/api/v1/nothing", "", "", 404, "path"},
		{"GET", "/../../etc/passwd", "", "", 404, "path"},
		{"GET", "/page/index.html", "", "", 404, "path"},
		{"PUT", "/api/v1/cluster", "", "", 405, "method"},
		{"POST", "/api/v1/check", "kind: Pod\nspec: {typo: 1}", yaml, 422, "body"},
		{"POST", "/api/v1/simulate", "", yaml, 422, "body"},
		{"POST", "/api/v1/simulate?without=zzz", "", yaml, 422, "without"},
		{"POST", "/api/v1/defrag", "", yaml, 422, "body"},
		{"POST", "/api/v1/defrag?for=ml/none", "", yaml, 422, "for"},
		{"POST", "/api/v1/defrag?empty=zzz", "", yaml, 422, "empty"},
		{"POST", "/api/v1/defrag?usual=true&empty=a", "", yaml, 422, "usual"},
		{"POST", "/api/v1/defrag?most=101", manifest, yaml, 400, "most"},
		{"GET", "/api/v1/doctor?node=A", "", "", 400, "node"},
		{"GET", "/api/v1/doctor?pod=a", "", "", 400, "pod"},
		{"POST", "/api/v1/simulate?add=/etc/passwd", manifest, yaml, 400, "add"},
		{"POST", "/api/v1/simulate?add=zzz", manifest, yaml, 422, "add"},
		{"POST", "/api/v1/simulate?add=a=9999", manifest, yaml, 400, "add"},
		{"POST", "/api/v1/simulate?policy=best", manifest, yaml, 400, "policy"},
		{"POST", "/api/v1/simulate?selector=zone=x", manifest, yaml, 422, "selector"},
		{"POST", "/api/v1/simulate?policy=none&selector=%29", manifest, yaml, 400, "selector"},
		{"POST", "/api/v1/simulate?policy=none&count=max", manifest, yaml, 422, "count"},
		{"POST", "/api/v1/simulate", manifest, "Content-Type: text/plain", 415, "header Content-Type"},
		{"POST", "/api/v1/simulate", strings.Repeat("#", 1<<20+1), yaml, 413, "body"},
	} {
		headers := []string{}
		if c.header != "" {
			headers = append(headers, c.header)
		}
		code, body, h := s.ask(t, c.method, c.path, c.body, headers...)
		var e document.ErrorDetails
		if err := json.Unmarshal([]byte(body), &e); err != nil || code != c.code || e.Field != c.field ||
			e.Status != code || h.Get("Content-Type") != "application/problem+json" || e.Detail == "" {
			t.Errorf("%s %s answers %d (%s) %.300s, want %d and field %q", c.method, c.path, code, h.Get("Content-Type"),
				body, c.code, c.field)
		}
	}
}

// Refusals at the paths of openFuyao have its form.
func TestRefusalsOfOpenFuyaosPaths(t *testing.T) {
	s := signedIn(t)
	const path = "/rest/scheduling/v1/numaaware"
	for _, c := range []struct {
		method, query, body, header string
		code                        int
	}{
		{"GET", "", "", "", 200},
		{"GET", "?scheduler=a/b", "", "", 400},
		{"GET", "?scheduler=../x", "", "", 400},
		{"PUT", "", `{"status":"open"}`, "Content-Type: application/json", 200},
		{"PUT", "", `{"status":"maybe"}`, "Content-Type: application/json", 400},
		{"PUT", "?version=2", `{"status":"close"}`, "Content-Type: application/json", 409},
		{"PUT", "", `status=close`, "Content-Type: application/x-www-form-urlencoded", 415},
		{"PUT", "", `{"status":"close"}`, "Sec-Fetch-Site: cross-site", 403},
		{"DELETE", "", "", "Accept: */*", 405},
		{"GET", "", "", "Cookie: none", 401},
	} {
		cookie := s.cookie
		if strings.HasPrefix(c.header, "Cookie") {
			s.cookie = nil
		}
		code, body, h := s.ask(t, c.method, path+c.query, c.body, cmp.Or(c.header, "Accept: */*"))
		s.cookie = cookie
		var doc document.NUMAAware
		if err := json.Unmarshal([]byte(body), &doc); err != nil || code != c.code || doc.Code != code || doc.Msg == "" ||
			h.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s %s answers %d %s, want %d", c.method, c.query, c.body, code, body, c.code)
		}
	}
}

func TestAnswersAreCompressedAndNotSentTwice(t *testing.T) {
	s := signedIn(t)
	_, body, h := s.ask(t, "GET", "/api/v1/nodes/a", "", "Accept-Encoding: gzip")
	r, err := gzip.NewReader(strings.NewReader(body))
	if err != nil || h.Get("Content-Encoding") != "gzip" {
		t.Fatalf("encoding %q: %v", h.Get("Content-Encoding"), err)
	}
	var n document.Node
	if err := json.NewDecoder(r).Decode(&n); err != nil || len(n.NUMAs) != 4 {
		t.Errorf("node %+v, error %v", n, err)
	}
	code, body, _ := s.ask(t, "GET", "/api/v1/nodes/a", "", "Accept-Encoding: gzip", "If-None-Match: "+h.Get("ETag"))
	if code != http.StatusNotModified || body != "" {
		t.Errorf("asked again, it answers %d %q", code, body)
	}
}

// A page that follows the cluster receives a new pod, with the node that changed.
func TestChangesAreStreamed(t *testing.T) {
	s := signedIn(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, _ := http.NewRequestWithContext(ctx, "GET", s.URL+"/api/v1/changes", nil)
	r.AddCookie(s.cookie)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got := res.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Fatalf("answers %d %s", res.StatusCode, got)
	}
	lines := bufio.NewScanner(res.Body)
	next := func() (c document.ClusterChange) {
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				if err := json.Unmarshal([]byte(data), &c); err != nil {
					t.Fatal(err)
				}
				return c
			}
		}
		t.Fatal(errors.Join(lines.Err(), ctx.Err(), errors.New("the stream has ended")))
		return c
	}
	if c := next(); !c.All || c.Waiting != 2 {
		t.Errorf("the first event is %+v", c)
	}
	p := livetest.Pod("ml", "new", "a")
	p.ResourceVersion = "20"
	s.api.Send(livetest.Pods, "ADDED", p)
	free, pods := 0, ""
	for free == 0 || pods == "" {
		c := next()
		pods += strings.Join(c.Pods, " ")
		for _, n := range c.Nodes {
			free = 0
			for _, x := range n.NUMAs {
				free += x.FreeCPUs
			}
		}
	}
	if free != 120 || pods != "ml/new" {
		t.Errorf("%d CPUs are free after pods %s", free, pods)
	}
}

func TestTextsAreDataAlone(t *testing.T) {
	s := signedIn(t)
	_, body, h := s.ask(t, "GET", "/api/v1/pods/ml/p", "")
	if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Content-Type") != "application/json" {
		t.Errorf("headers %v", h)
	}
	_, other, _ := s.ask(t, "GET", "/api/v1/pods/web/q", "")
	if strings.Contains(body+other, "<img") {
		t.Errorf("an answer has HTML: %s", other)
	}
	code, _, _ := s.ask(t, "GET", "/api/v1/pods?continue="+"%3Cimg%20src=x%3E", "")
	if code != http.StatusOK {
		t.Errorf("any text to continue at answers %d", code)
	}
}
