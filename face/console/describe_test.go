package console_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/tenon-numa/tenon/internal/golden"
)

// Clients in any language are generated from this file: it is what the server answers.
func TestTheDescriptionOnFile(t *testing.T) {
	s := open(t)
	_, body, _ := s.ask(t, "GET", "/api/v1/openapi.json", "")
	var out bytes.Buffer
	if err := json.Indent(&out, []byte(body), "", " "); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "openapi.json", out.String()+"\n")
}
