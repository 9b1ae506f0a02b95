package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"strings"
)

// Walk calls visit for the files of a tree, in ascending order of their names. It does not enter hidden folders,
// testdata, node_modules, or folders for which skip returns true.
func Walk(tree fs.FS, skip func(folder string) bool, visit func(name string) error) error {
	return fs.WalkDir(tree, ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !e.IsDir():
			return visit(name)
		case name == ".":
			return nil
		case strings.HasPrefix(e.Name(), "."), e.Name() == "testdata", e.Name() == "node_modules", skip(name):
			return fs.SkipDir
		}
		return nil
	})
}

// Parse reads a Go file of a tree, with its comments. It returns the text, too.
func Parse(tree fs.FS, fset *token.FileSet, name string) (*ast.File, []byte, error) {
	text, err := fs.ReadFile(tree, name)
	if err != nil {
		return nil, nil, err
	}
	f, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, nil, fmt.Errorf("parse %s: %w", name, err)
	}
	return f, text, nil
}
