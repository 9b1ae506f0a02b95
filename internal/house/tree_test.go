package house_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tenon-numa/tenon/internal/house"
)

// pkg is one folder with Go files, as parsed.
type pkg struct {
	path  string // from the root of the repository
	fset  *token.FileSet
	files []file
}

type file struct {
	name   string // from the root of the repository
	text   []byte
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

// rootFolder is the root of this repository, from where these tests run.
const rootFolder = "../.."

// root is the tree of this repository. All tests name files from there. They do not go there instead, because the go
// command would not learn which files they read, and take results from its cache though these have changed.
var root = os.DirFS(rootFolder)

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
	work, err := fs.ReadFile(root, "go.work")
	if err != nil {
		return nil, err
	}
	modules := used(string(work))
	skip := func(folder string) bool { return folder == "bin" || apart(folder, modules) }
	err = house.Walk(root, skip, func(name string) error {
		if path.Ext(name) != ".go" {
			return nil
		}
		f, text, err := house.Parse(root, fset, name)
		if err != nil {
			return err
		}
		at := path.Dir(name)
		if byPath[at] == nil {
			byPath[at] = &pkg{path: at, fset: fset}
		}
		byPath[at].files = append(byPath[at].files, file{name: name, text: text,
			test: strings.HasSuffix(name, "_test.go"), lines: fset.File(f.Pos()).LineCount(), syntax: f})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the workspace's packages: %w", err)
	}
	out := make([]pkg, 0, len(byPath))
	for _, at := range slices.Sorted(maps.Keys(byPath)) {
		out = append(out, *byPath[at])
	}
	return out, nil
}

// apart reports whether a folder is a module that go.work does not use, such as one for another release of Kubernetes.
func apart(folder string, modules []string) bool {
	_, err := fs.Stat(root, path.Join(folder, "go.mod"))
	return err == nil && !slices.Contains(modules, folder)
}
