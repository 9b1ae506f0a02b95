package console_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/tenon-numa/tenon/internal/golden"
)

// The generated client comes from this file: it equals the description that the server returns.
func TestTheDescriptionOnFile(t *testing.T) {
	s := open(t)
	_, body, _ := s.ask(t, "GET", "/api/v1/openapi.json", "")
	var out bytes.Buffer
	if err := json.Indent(&out, []byte(body), "", " "); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "openapi.json", out.String()+"\n")
}
