package sysfs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

// Every code of a warning is in the documentation of the agent.
func TestCodesAreDocumented(t *testing.T) {
	docs, err := os.ReadFile("../../docs/reference/agent.md")
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), "warning.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	codes := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Type == nil || len(spec.Values) != 1 {
			return true
		}
		if id, ok := spec.Type.(*ast.Ident); !ok || id.Name != "Anomaly" {
			return true
		}
		code := strings.Trim(spec.Values[0].(*ast.BasicLit).Value, `"`)
		if codes++; !strings.Contains(string(docs), "`"+code+"`") {
			t.Errorf("docs/reference/agent.md does not explain %q", code)
		}
		return true
	})
	if codes < 15 {
		t.Errorf("%d codes were found", codes)
	}
}
