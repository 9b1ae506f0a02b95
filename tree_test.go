package tenon_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// pkg is one folder with Go files, as parsed.
type pkg struct {
	path  string // from the root of the module; "." is the root
	fset  *token.FileSet
	files []file
}

type file struct {
	name   string // from the root of the module
	test   bool
	lines  int
	syntax *ast.File
}

// generated reports whether a program wrote the file.
func (f file) generated() bool { return ast.IsGenerated(f.syntax) }

// imports returns the imports of a package's files in ascending order.
func (p pkg) imports(tests bool) []string {
	var out []string
	for _, f := range p.files {
		if f.test && !tests {
			continue
		}
		for _, spec := range f.syntax.Imports {
			if s, err := strconv.Unquote(spec.Path.Value); err == nil {
				out = append(out, s)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// at names the place of a node as "file:line".
func (p pkg) at(n ast.Node) string {
	pos := p.fset.Position(n.Pos())
	return fmt.Sprintf("%s:%d", pos.Filename, pos.Line)
}

var tree = sync.OnceValues(parseTree)

// packages returns every package of the workspace in ascending order of path.
func packages(t *testing.T) []pkg {
	t.Helper()
	out, err := tree()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func parseTree() ([]pkg, error) {
	fset := token.NewFileSet()
	byPath := map[string]*pkg{}
	work, err := os.ReadFile("go.work")
	if err != nil {
		return nil, err
	}
	modules := used(string(work))
	err = filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			hidden := name != "." && strings.HasPrefix(d.Name(), ".")
			if hidden || d.Name() == "testdata" || d.Name() == "node_modules" || name == "bin" || apart(name, modules) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			return fmt.Errorf("parse %s: %w", name, err)
		}
		at := path.Dir(filepath.ToSlash(name))
		if byPath[at] == nil {
			byPath[at] = &pkg{path: at, fset: fset}
		}
		byPath[at].files = append(byPath[at].files, file{name: filepath.ToSlash(name),
			test: strings.HasSuffix(name, "_test.go"), lines: fset.File(f.Pos()).LineCount(), syntax: f})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the module's packages: %w", err)
	}
	out := make([]pkg, 0, len(byPath))
	for _, p := range byPath {
		out = append(out, *p)
	}
	slices.SortFunc(out, func(a, b pkg) int { return strings.Compare(a.path, b.path) })
	return out, nil
}

// apart reports whether a folder is a module that go.work does not use, such as one for another release of Kubernetes.
func apart(folder string, modules []string) bool {
	if _, err := os.Stat(filepath.Join(folder, "go.mod")); err != nil {
		return false
	}
	return !slices.Contains(modules, filepath.ToSlash(folder))
}
