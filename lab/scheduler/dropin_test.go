package scheduler_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/workload"
	"github.com/tenon-numa/tenon/scheduler/inspect"
	"github.com/tenon-numa/tenon/scheduler/report"
)

// ofSchedulerPlugins is a configuration of an installer of scheduler-plugins.
const ofSchedulerPlugins = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %q}
leaderElection: {leaderElect: false}
profiles:
- schedulerName: topo-aware-scheduler
  plugins:
    filter: {enabled: [{name: NodeResourceTopologyMatch}]}
    reserve: {enabled: [{name: NodeResourceTopologyMatch}]}
    score: {enabled: [{name: NodeResourceTopologyMatch}]}
    postBind: {enabled: [{name: NodeResourceTopologyMatch}]}
  pluginConfig:
  - name: NodeResourceTopologyMatch
    args:
      scoringStrategy: {type: MostAllocated}
      cacheResyncPeriodSeconds: 5
      cache: {foreignPodsDetect: OnlyExclusiveResources}
`

// ask sends a request, without a token if it is "", and returns the status and the answer.
func ask(ctx context.Context, t *testing.T, method, url, token, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	// The certificate is the scheduler's own, made at its start.
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives: true}}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// get requests something that must exist.
func (p *program) get(ctx context.Context, t *testing.T, address, path string) string {
	t.Helper()
	code, text := ask(ctx, t, http.MethodGet, "https://"+address+path, p.token, "")
	if code != http.StatusOK {
		t.Errorf("%s: %d %s", path, code, text)
	}
	return text
}

// A scheduler with a configuration for scheduler-plugins schedules like Tenon, logs which arguments have another
// meaning, and shows its decisions to authorized users.
func TestConfigurationOfSchedulerPlugins(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	c, err := lab.Start(ctx, lab.Config{Nodes: []lab.Node{{Name: "halves", Machine: "halves"}},
		Machines: fstest.MapFS{"halves.txt": {Data: []byte(halves)}, "halves.yaml": {Data: []byte(halvesConfig)}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	p := startProgram(ctx, t, c, fmt.Sprintf(ofSchedulerPlugins, c.SchedulerKubeconfig))
	p.inspection(ctx, t) // it has logged its notes on the configuration by then
	for _, said := range []string{`points="preFilter,preScore,preBind,bind"`,
		`argument="cacheResyncPeriodSeconds: no effect`, `argument="cache.foreignPodsDetect: no effect`} {
		if n := strings.Count(p.said(t), said); n != 1 {
			t.Errorf("the scheduler says %s %d times, want once", said, n)
		}
	}

	w := &world{Cluster: c, client: kubernetes.NewForConfigOrDie(c.RESTConfig())}
	if w.pods, err = workload.Follow(ctx, w.client); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.pods.Stop)
	loud := named(cores("loud", 20), "topo-aware-scheduler")
	loud.Annotations = map[string]string{report.LogAnnotation: "6"}
	w.runs(ctx, t, loud)
	w.runs(ctx, t, named(cores("quiet", 20), "topo-aware-scheduler"))
	w.create(ctx, t, named(cores("third", 20), "topo-aware-scheduler"))
	_, why := w.await(ctx, t, "third", workload.Pending)
	contains(
		t,
		"pod third",
		why,
		`1 cannot align container "c" (wants 20 cpu on one NUMA node; best NUMA node has 10 free)`,
	)

	p.inspected(ctx, t)
	p.await(ctx, t, regexp.MustCompile(`"Reserved" .*pod="default/loud" node="halves"`))
	if strings.Contains(p.said(t), `pod="default/quiet" node=`) {
		t.Error("lines about a pod are logged that are below the verbosity")
	}
	code, text := ask(ctx, t, http.MethodPut, "https://"+p.secure+"/debug/flags/v", p.token, "2")
	if code != http.StatusOK {
		t.Errorf("PUT /debug/flags/v: %d %s", code, text)
	}
	w.runs(ctx, t, named(cores("heard", 2), "topo-aware-scheduler"))
	p.await(ctx, t, regexp.MustCompile(`"Reserved" .*pod="default/heard" node="halves"`))
	metrics := p.get(ctx, t, p.secure, "/metrics")
	for _, want := range []string{"tenon_predictions_made_total 3\n", `tenon_nodes{quality="exact"} 1`,
		`tenon_nodes{quality="none"} 0`,
		"tenon_oldest_prediction_seconds "} {
		if !strings.Contains(metrics, want) {
			t.Errorf("/metrics has no %q", want)
		}
	}

	// The next scheduler learns the workload profile from the existing pods.
	p.kill()
	next := startProgram(ctx, t, c, fmt.Sprintf(ofSchedulerPlugins, c.SchedulerKubeconfig))
	at, mix := next.inspection(ctx, t), ""
	if err := wait.PollUntilContextCancel(ctx, tick, true, func(context.Context) (bool, error) {
		mix = next.get(ctx, t, at, inspect.Prefix+"mix?format=text")
		return strings.Contains(mix, "20 cpu, 1Gi memory\n") && strings.Contains(mix, "2 cpu, 1Gi memory\n"), nil
	}); err != nil {
		t.Errorf("the mix of a new scheduler is\n%s: %v", mix, err)
	}
}

func named(p *v1.Pod, scheduler string) *v1.Pod {
	p.Spec.SchedulerName = scheduler
	return p
}

// inspected requests the node and the pods, with and without the right to.
func (p *program) inspected(ctx context.Context, t *testing.T) {
	t.Helper()
	at := p.inspection(ctx, t)
	for _, path := range []string{"nodes", "nodes/halves", "pods/default/quiet", "mix"} {
		url := "https://" + at + inspect.Prefix + path
		if code, _ := ask(ctx, t, http.MethodGet, url, "", ""); code != http.StatusForbidden {
			t.Errorf("%s without a token: %d", path, code)
		}
		if code, _ := ask(ctx, t, http.MethodGet, url, "no token of anybody", ""); code != http.StatusUnauthorized {
			t.Errorf("%s with a wrong token: %d", path, code)
		}
	}
	var node document.Node
	if err := json.Unmarshal([]byte(p.get(ctx, t, at, inspect.Prefix+"nodes/halves")), &node); err != nil {
		t.Error(err)
	}
	if node.Quality != "exact" || node.Summary.FreeCPUs != 20 || len(node.Holdings) != 2 ||
		node.Rules.TopologyManagerPolicy != "single-numa-node" {
		t.Errorf("node halves: %+v", node)
	}
	var pod document.PodDecisions
	err := wait.PollUntilContextCancel(ctx, tick, true, func(context.Context) (bool, error) {
		err := json.Unmarshal([]byte(p.get(ctx, t, at, inspect.Prefix+"pods/default/quiet")), &pod)
		return err == nil && pod.Decisions[0].Stage == document.Confirmed, err
	})
	if err != nil || pod.Decisions[0].Node != "halves" || pod.Decisions[0].Seen[0].CPUs == "" {
		t.Errorf("pod quiet: %v, %+v", err, pod)
	}
	text := p.get(ctx, t, at, inspect.Prefix+"pods/default/third?format=text")
	contains(
		t,
		"the decision on pod third",
		text,
		`cannot align container "c" (wants 20 cpu on one NUMA node; best NUMA node has 10 free)`,
	)
}
