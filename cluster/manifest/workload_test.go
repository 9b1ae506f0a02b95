package manifest

import (
	"strings"
	"testing"
)

// The API server refuses these objects, whatever their pods are (checked by kubectl apply --dry-run=server).
func TestObjectsThatTheAPIServerRefuses(t *testing.T) {
	const containers = `"containers": [{"name": "c", "image": "i"}]`
	object := func(api, kind, spec, labels, pod string) string {
		return `{"apiVersion": "` + api + `", "kind": "` + kind + `", "metadata": {"name": "x"}, "spec": {` + spec +
			`"template": {"metadata": {"labels": {` + labels + `}}, "spec": {` + pod + containers + `}}}}`
	}
	const selects, web = `"selector": {"matchLabels": {"app": "web"}}, `, `"app": "web"`
	for _, c := range []struct{ text, why string }{
		{object("apps/v1", "Deployment", selects, web, ""), ""},
		{object("apps/v1", "Deployment", selects, web, `"restartPolicy": "Always", `), ""},
		{object("apps/v1", "Deployment", "", web, ""), "spec.selector is missing or empty"},
		{object("apps/v1", "ReplicaSet", `"selector": {}, `, web, ""), "spec.selector is missing or empty"},
		{object("apps/v1", "StatefulSet", selects, `"app": "api"`, ""), "does not match spec.template.metadata.labels"},
		{object("apps/v1", "DaemonSet", selects, web, `"restartPolicy": "Never", `), "spec.template.spec.restartPolicy: Never"},
		{object("batch/v1", "Job", "", web, `"restartPolicy": "Never", `), ""},
		{object("batch/v1", "Job", "", web, ""), "restartPolicy: Always is not one of [OnFailure Never]"},
	} {
		f, err := Read([]byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if got := f.Templates[0].Refused; (got == "") != (c.why == "") || !strings.Contains(got, c.why) {
			t.Errorf("%s: refused %q, want %q", c.text, got, c.why)
		}
	}
}

// A Deployment of a group that is not known has pods, so a file with it does not pass for its other objects.
func TestKnownKindsOfUnknownGroupsAreNotJudged(t *testing.T) {
	f, err := Read([]byte("apiVersion: app/v1\nkind: Deployment\nmetadata: {name: x}\nspec: {replicas: 3}\n---\n" +
		"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}]}\n"))
	if err != nil || len(f.Templates) != 1 || len(f.Unjudged) != 1 ||
		!strings.Contains(f.Unjudged[0], "Deployment x (app/v1)") {
		t.Errorf("%+v, %v; want the pod judged and the Deployment named", f, err)
	}
}
