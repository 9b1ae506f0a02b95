package main

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/lab/rights"
)

// described returns the operations in the console's description: ids by method and path.
func (s *site) described(t *testing.T) map[string]map[string]string {
	t.Helper()
	_, body, _ := s.ask(t, "GET", "/api/v1/openapi.json", "", "")
	var d struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	if err := json.Unmarshal([]byte(body), &d); err != nil || len(d.Paths) < 12 {
		t.Fatalf("description %v: %.200s", err, body)
	}
	out := map[string]map[string]string{}
	for path, all := range d.Paths {
		out[path] = map[string]string{}
		for method, o := range all {
			out[path][strings.ToUpper(method)] = o.OperationID
		}
	}
	return out
}

// everyOperation calls each operation of the description as anna, for objects that she may not read. No answer has any
// of their data, and she can write nothing. Without a token each operation returns 401.
func (s *site) everyOperation(t *testing.T) {
	const pod = "kind: Pod\napiVersion: v1\nmetadata: {name: mine}\n" +
		"spec: {containers: [{name: c, image: x, resources: {limits: {cpu: 2, memory: 1Gi}}}]}\n"
	fill := strings.NewReplacer("{node}", "node-7", "{namespace}", "web", "{pod}", "hidden-payroll")
	queries := map[string]string{"listPods": "?namespace=web", "getDiagnosis": "?pod=web/hidden-payroll",
		"simulate": "?pending=true", "getNUMAAware": "?scheduler=tenon-system/conf",
		"setNUMAAware": "?scheduler=tenon-system/conf", "setArguments": "?scheduler=tenon-system/conf"}
	bodies := map[string][2]string{"simulate": {"application/yaml", pod}, "check": {"application/yaml", pod},
		"setNUMAAware": {"application/json", `{"status":"close"}`},
		"setArguments": {"application/json", `{"arguments":{"unknownNodes":"Refuse"}}`}, "signIn": {"text/plain", "x"},
		"planKubelets": {"application/json", `{"topologyManagerPolicy":"none"}`}, "beginRollout": {"application/json", ofNode7}}
	want := map[string]int{"getNode": 404, "getNodeUse": 404, "getNodeAffinity": 404, "getPod": 404,
		"getNUMAAware": 403, "setNUMAAware": 403, "setArguments": 403, "planKubelets": 403, "beginRollout": 403,
		"stopRollout": 409, "signIn": 401, "signOut": 204}
	before := s.admin(t, "/api/v1/namespaces/tenon-system/configmaps/conf")
	for path, all := range s.described(t) {
		for method, id := range all {
			if id == "followChanges" { // it does not end; its changes come from the same view
				continue
			}
			media, body := "Content-Type: "+bodies[id][0], bodies[id][1]
			at := fill.Replace(path) + queries[id]
			code, got, _ := s.ask(t, method, at, body, "", s.bearer("anna"), media)
			if allowed := want[id]; allowed != 0 && code != allowed || code >= 500 {
				t.Errorf("%s answers anna %d %.300s, want %d", id, code, got, allowed)
			}
			said := strings.NewReplacer("web/hidden-payroll", "", `"namespace":"web","name":"hidden-payroll"`, "").Replace(got)
			for _, hidden := range []string{"payroll", "pods ask for it", "Ours: ask", s.tokens["anna"]} {
				if strings.Contains(said, hidden) && id != "getPod" && id != "listDecisions" {
					t.Errorf("%s shows anna %q: %.400s", id, hidden, got)
				}
			}
			code, got, _ = s.ask(t, method, at, body, "", media)
			if id != "signOut" && id != "getOpenAPI" && code != http.StatusUnauthorized {
				t.Errorf("%s answers %d without a token: %.200s", id, code, got)
			}
		}
	}
	if after := s.admin(t, "/api/v1/namespaces/tenon-system/configmaps/conf"); after != before {
		t.Errorf("the configuration was %s and is %s", before, after)
	}
}

// steps grants the users cordons and evicts some steps of a change of kubelets.
const steps = `
{apiVersion: v1, kind: ServiceAccount, metadata: {name: cordons, namespace: web}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: evicts, namespace: web}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: cordon}
rules:
- {apiGroups: ["*"], resources: ["*"], verbs: [get, list, watch]}
- {apiGroups: [""], resources: [nodes], verbs: [patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: evict}
rules:
- {apiGroups: [""], resources: [pods/eviction], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: cordon}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cordon}
subjects:
- {kind: ServiceAccount, name: cordons, namespace: web}
- {kind: ServiceAccount, name: evicts, namespace: web}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: evict}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: evict}
subjects: [{kind: ServiceAccount, name: evicts, namespace: web}]
`

// deputies may change Tenon's configuration, but may neither restart it nor write events.
const deputies = `
{apiVersion: v1, kind: ServiceAccount, metadata: {name: deputy, namespace: tenon-system}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: configure}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [get, list, update]}
- {apiGroups: [apps], resources: [deployments], verbs: [get, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: deputy}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: configure}
subjects: [{kind: ServiceAccount, name: deputy, namespace: tenon-system}]
`

// notAllowedToRestart changes a configuration without further rights. The answer names what is left to do, and that no
// event was written. A dry run writes nothing.
func (s *site) notAllowedToRestart(t *testing.T) {
	const path, tenon = "/api/v1/scheduling/arguments?scheduler=tenon-system/conf", "/api/v1/namespaces/tenon-system"
	const deployment = "/apis/apps/v1/namespaces/tenon-system/deployments/tenon-scheduler"
	change := func(query string) string {
		code, body, _ := s.ask(t, "PATCH", path+query, `{"arguments":{"turnTimeoutSeconds":77}}`, "", s.bearer("deputy"),
			"Content-Type: application/json")
		if code != http.StatusOK || !strings.Contains(body, `"changed":true`) {
			t.Fatalf("the change answers %d %s", code, body)
		}
		return body
	}
	read := func() string {
		return s.admin(t, tenon+"/configmaps/conf") + s.admin(t, tenon+"/events") + s.admin(t, deployment)
	}
	events := strings.Count(s.admin(t, tenon+"/events"), "SchedulingPolicyChanged")
	if before := s.admin(t, deployment) + s.admin(t, tenon+"/configmaps/conf"); !strings.Contains(before, "Tenon") {
		t.Fatalf("no configuration: %s", before)
	}
	change("&dryRun=true")
	if got := read(); strings.Contains(got, "turnTimeoutSeconds") ||
		strings.Count(got, "SchedulingPolicyChanged") != events {
		t.Errorf("a dry run writes: %s", got)
	}
	body := change("")
	for _, want := range []string{"restart it: kubectl -n tenon-system rollout restart deployment/tenon-scheduler",
		"the scheduler could not be restarted", "no event of the change could be written"} {
		if !strings.Contains(body, want) {
			t.Errorf("the answer lacks %q: %s", want, body)
		}
	}
	if got := read(); !strings.Contains(got, "turnTimeoutSeconds: 77") ||
		strings.Count(got, "SchedulingPolicyChanged") != events {
		t.Errorf("after the change there is %s", got)
	}
}

// ofNode7 is a plan for the node of the world, and layout7 its layout.
const (
	ofNode7 = `{"plan":{"kind":"KubeletPlan","nodes":[{"name":"node-7","before":{"topologyManagerPolicy":"none",` +
		`"topologyManagerScope":"container","cpuManagerPolicy":"none","memoryManagerPolicy":"None"}}]},"force":true}`
	layout7 = `
{apiVersion: v1, kind: Node, metadata: {name: node-7}}
---
apiVersion: tenon.sh/v1alpha1
kind: NodeLayout
metadata: {name: node-7}
machine:
  numas: [{id: 0, memory: 8589934592}]
  cpus: [{numa: 0, socket: 0, l3: 0, cpus: ["0-3"]}]
rules: {topologyManagerPolicy: none, topologyManagerScope: container, cpuManagerPolicy: none, memoryManagerPolicy: None}
---
apiVersion: v1
kind: Pod
metadata: {name: on-node-7, namespace: ml}
spec: {nodeName: node-7, containers: [{name: c, image: x, resources: {limits: {cpu: 2, memory: 1Gi}}}]}
`
)

// notAllowedToChangeKubelets applies a plan without the right to one of its steps. Nothing is changed.
func (s *site) notAllowedToChangeKubelets(t *testing.T) {
	const node, pod = "/api/v1/nodes/node-7", "/api/v1/namespaces/ml/pods/on-node-7"
	if err := rights.Apply(t.Context(), s.plane.Admin, []byte(layout7)); err != nil {
		t.Fatal(err)
	}
	before := s.admin(t, node) + s.admin(t, pod)
	s.until(t, "/api/v1/cluster", "node-7", s.bearer("root"))
	for _, c := range []struct{ who, query, want string }{
		{"root", "", "you may not change node node-7"}, {"root", "?dryRun=true", "you may not change node node-7"},
		{"cordons", "", "you may not evict pod ml/on-node-7"},
		{"evicts", "", "the privileged pod kube-system/tenon-kubelet-node-7-"},
	} {
		code, body, _ := s.ask(t, "POST", "/api/v1/kubelets/rollout"+c.query, ofNode7, "", s.bearer(c.who),
			"Content-Type: application/json")
		if code != http.StatusForbidden || !strings.Contains(body, c.want) {
			t.Errorf("%s%s: answers %d %s, want 403 and %q", c.who, c.query, code, body, c.want)
		}
	}
	if after := s.admin(t, node) + s.admin(t, pod); after != before {
		t.Errorf("node and pod were %s and are %s", before, after)
	}
	_, body, _ := s.ask(t, "GET", "/api/v1/kubelets/rollout", "", "", s.bearer("root"))
	if !strings.Contains(body, `"running":false`) || strings.Contains(body, "began") {
		t.Errorf("a change has begun: %s", body)
	}
}

// admin reads a path of the API server as its administrator.
func (s *site) admin(t *testing.T, path string) string {
	t.Helper()
	client, err := rest.HTTPClientFor(s.plane.Admin)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.plane.Admin.Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
