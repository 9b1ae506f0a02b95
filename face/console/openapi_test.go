package console_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// description is the part of an OpenAPI document that the tests read.
type description struct {
	OpenAPI    string                              `json:"openapi"`
	Paths      map[string]map[string]operation     `json:"paths"`
	Components struct{ Schemas map[string]schema } `json:"components"`
}

type operation struct {
	OperationID string
	Parameters  []struct {
		Name, In string
		Required bool
	}
	RequestBody *struct{ Content map[string]any }
	Responses   map[string]struct {
		Description string
		Content     map[string]struct{ Schema schema }
	}
}

type schema struct {
	Ref                  string `json:"$ref"`
	Type                 string
	Properties           map[string]schema
	Required             []string
	Items                *schema
	AnyOf                []schema
	AdditionalProperties any
}

func described(t *testing.T, s *site) (d description) {
	t.Helper()
	s.get(t, "/api/v1/openapi.json", &d)
	if d.OpenAPI != "3.1.0" {
		t.Fatalf("OpenAPI %q", d.OpenAPI)
	}
	return d
}

// matches returns where a value differs from a schema.
func (d *description) matches(where string, x schema, value any) (bad []string) {
	if x.Ref != "" {
		x = d.Components.Schemas[strings.TrimPrefix(x.Ref, "#/components/schemas/")]
	}
	if len(x.AnyOf) > 0 {
		for _, one := range x.AnyOf {
			if bad = d.matches(where, one, value); len(bad) == 0 {
				return nil
			}
		}
		return bad
	}
	is := fmt.Sprintf("%T", value)
	want := map[string]string{"object": "map[string]interface {}", "array": "[]interface {}", "string": "string",
		"integer": "float64", "number": "float64", "boolean": "bool", "null": "<nil>"}[x.Type]
	if is != want {
		return []string{fmt.Sprintf("%s is %s, not %s", where, is, x.Type)}
	}
	switch v := value.(type) {
	case []any:
		for i, one := range v {
			bad = append(bad, d.matches(fmt.Sprintf("%s[%d]", where, i), *x.Items, one)...)
		}
	case map[string]any:
		for _, name := range x.Required {
			if _, ok := v[name]; !ok {
				bad = append(bad, where+" lacks "+name)
			}
		}
		for name, one := range v {
			p, ok := x.Properties[name]
			if ok {
				bad = append(bad, d.matches(where+"."+name, p, one)...)
			} else if x.AdditionalProperties == false {
				bad = append(bad, where+" has "+name)
			}
		}
	}
	return bad
}

// The test calls every operation of the description, and compares the answer with the described schema.
func TestTheDescriptionIsWhatTheServerDoes(t *testing.T) {
	s := signedIn(t)
	d := described(t, s)
	calls := map[string][2]string{ // path with query, and body
		"getCluster":      {"/api/v1/cluster?label=zone&label=rack", ""},
		"getNode":         {"/api/v1/nodes/a", ""},
		"getNodeUse":      {"/api/v1/nodes/a/use?pod=ml%2Fp", ""},
		"getNodeAffinity": {"/api/v1/nodes/a/affinity", ""},
		"listPods":        {"/api/v1/pods?namespace=ml&node=a&waiting=false&limit=5&continue=a%2Fb", ""},
		"getPod":          {"/api/v1/pods/ml/wait", ""},
		"listDecisions":   {"/api/v1/pods/ml/wait/decisions", ""},
		"simulate": {"/api/v1/simulate?namespace=x&count=2&without=b&pending=true&add=a%3D2&policy=none" +
			"&option=scope%3Dpod&selector=kubernetes.io%2Fhostname%3Da", manifest},
		"check": {"/api/v1/check?namespace=x", manifest},
		"defrag": {"/api/v1/defrag?namespace=x&count=2&pending=true&for=ml%2Fwait&empty=b&from=ml&most=3" +
			"&align=ml%2Fp&any=true&usual=false",
			manifest},
		"getScheduling": {"/api/v1/scheduling", ""},
		"setArguments": {"/api/v1/scheduling/arguments?scheduler=tenon-system%2Ftenon-scheduler&profile=tenon&dryRun=true" +
			"&version=3", `{"arguments": {"unknownNodes": "Allow"}}`},
		"getNUMAAware": {"/rest/scheduling/v1/numaaware?scheduler=tenon-system%2Ftenon-scheduler", ""},
		"setNUMAAware": {"/rest/scheduling/v1/numaaware?scheduler=tenon-system%2Ftenon-scheduler&profile=tenon&dryRun=true" +
			"&version=3", `{"status": "close"}`},
		"getDiagnosis": {"/api/v1/doctor?node=a&pod=ml%2Fp", ""},
		"planKubelets": {"/api/v1/kubelets/plan", `{"topologyManagerPolicy":"restricted"}`},
		"getRollout":   {rollout, ""},
		"getFitting":   {"/api/v1/fitting?shape=cpu%3D4", ""},
		"getSession":   {"/api/v1/session", ""},
		"getOpenAPI":   {"/api/v1/openapi.json", ""},
	}
	// Other tests cover streams, sessions and rollouts.
	done := []string{"followChanges", "getPodGroup", "signIn", "signOut", "beginRollout", "stopRollout"}
	for path, all := range d.Paths {
		for method, o := range all {
			call, ok := calls[o.OperationID]
			if !ok {
				if !slices.Contains(done, o.OperationID) {
					t.Errorf("%s %s (%s) is not called here", method, path, o.OperationID)
				}
				continue
			}
			delete(calls, o.OperationID)
			for _, p := range o.Parameters {
				if p.In == "query" && !strings.Contains(call[0], p.Name+"=") {
					t.Errorf("%s is not called with %s", o.OperationID, p.Name)
				}
			}
			headers := []string{}
			for media := range o.RequestBodyTypes() {
				headers = append(headers, "Content-Type: "+media)
			}
			code, body, _ := s.ask(t, strings.ToUpper(method), call[0], call[1], headers...)
			var value any
			if err := json.Unmarshal([]byte(body), &value); err != nil || code != http.StatusOK {
				t.Errorf("%s answers %d: %v %.300s", o.OperationID, code, err, body)
			}
			answer := o.Responses["200"].Content["application/json"].Schema
			for _, bad := range d.matches(o.OperationID, answer, value) {
				t.Error(bad)
			}
		}
	}
	for id := range calls {
		t.Errorf("the server's operation %s is not described", id)
	}
	_, body, _ := s.ask(t, "GET", "/api/v1/nodes/nope", "")
	var value any
	if err := json.Unmarshal([]byte(body), &value); err != nil {
		t.Fatal(err)
	}
	failed := d.Paths["/api/v1/nodes/{node}"]["get"].Responses["default"].Content["application/problem+json"].Schema
	for _, bad := range d.matches("problem", failed, value) {
		t.Error(bad)
	}
}

// RequestBodyTypes are the media types of a body.
func (o operation) RequestBodyTypes() map[string]any {
	if o.RequestBody == nil {
		return nil
	}
	if len(o.RequestBody.Content) > 1 {
		delete(o.RequestBody.Content, "application/json")
	}
	return o.RequestBody.Content
}

func TestTheDescriptionIsWhole(t *testing.T) {
	s := open(t)
	d := described(t, s)
	ids := map[string]bool{}
	for path, all := range d.Paths {
		for method, o := range all {
			if o.OperationID == "" || ids[o.OperationID] || len(o.Responses) < 2 {
				t.Errorf("%s %s: operation %q with %d responses", method, path, o.OperationID, len(o.Responses))
			}
			ids[o.OperationID] = true
			for _, p := range o.Parameters {
				if p.In == "path" && (!p.Required || !strings.Contains(path, "{"+p.Name+"}")) {
					t.Errorf("%s: parameter %+v", path, p)
				}
			}
		}
	}
	for name, x := range d.Components.Schemas {
		if x.Type != "object" || len(x.Properties) == 0 {
			t.Errorf("schema %s is %+v", name, x)
		}
		for property, p := range x.Properties {
			for _, one := range append(p.AnyOf, p) {
				if _, ok := d.Components.Schemas[strings.TrimPrefix(one.Ref, "#/components/schemas/")]; one.Ref != "" && !ok {
					t.Errorf("%s.%s refers to %s", name, property, one.Ref)
				}
			}
		}
	}
}
