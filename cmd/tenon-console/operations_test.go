package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// described are the operations of the console's description: ids by method and path.
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

// everyOperation calls each operation of the description as anna, for what she may not read: nothing of it is in any
// answer, and she can write nothing. Without a token each answers 401.
func (s *site) everyOperation(t *testing.T) {
	const pod = "kind: Pod\napiVersion: v1\nmetadata: {name: mine}\n" +
		"spec: {containers: [{name: c, image: x, resources: {limits: {cpu: 2, memory: 1Gi}}}]}\n"
	fill := strings.NewReplacer("{node}", "node-7", "{namespace}", "web", "{pod}", "hidden-payroll")
	queries := map[string]string{"listPods": "?namespace=web", "getDiagnosis": "?pod=web/hidden-payroll",
		"simulate": "?pending=true", "getNUMAAware": "?scheduler=tenon-system/conf",
		"setNUMAAware": "?scheduler=tenon-system/conf", "setArguments": "?scheduler=tenon-system/conf"}
	bodies := map[string][2]string{"simulate": {"application/yaml", pod}, "check": {"application/yaml", pod},
		"setNUMAAware": {"application/json", `{"status":"close"}`},
		"setArguments": {"application/json", `{"arguments":{"unknownNodes":"Refuse"}}`}, "signIn": {"text/plain", "x"}}
	want := map[string]int{"getNode": 404, "getNodeUse": 404, "getPod": 404, "getNUMAAware": 403, "setNUMAAware": 403,
		"setArguments": 403, "signIn": 401, "signOut": 204}
	before := s.admin(t, "/api/v1/namespaces/tenon-system/configmaps/conf")
	for path, all := range s.described(t) {
		for method, id := range all {
			if id == "followChanges" { // it does not end; changes are of the same view
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

// deputies may change Tenon's configuration, and neither restart it nor write events.
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

// notAllowedToRestart changes a configuration with the right to do that alone: the answer says what is left to do, and
// that no event was written. A dry run writes nothing at all.
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
