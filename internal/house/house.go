// Package house measures this repository: the size of each part, the number of its packages, and the language of its
// comments. Run it before and after a change of the folders or packages, to compare.
//
// Invariant: equal trees give equal reports. It reads Go files, go.mod files and the Makefile of a tree, and refuses Go
// files that do not parse. Generated files and testdata do not count.
package house

import (
	"cmp"
	"go/ast"
	"go/scanner"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Report is the result of Measure.
type Report struct {
	// Areas are the folders of the root, largest first; the root's own files are the area ".".
	Areas []Area `json:"areas"`
	// Modules counts the files whose names end in .mod. MakeTargets counts the Makefile's targets that have a help
	// text.
	Modules     int `json:"modules"`
	MakeTargets int `json:"makeTargets"`
	// Largest is the struct with the most fields.
	Largest Struct `json:"largest"`
	// Doubled are the names of exported types that occur in several packages, the most frequent first.
	Doubled []Doubled `json:"doubled"`
}

// Area is one part of the tree. Code and Tests count lines that have more than comments; Tests counts the lines of
// _test.go files, and Code all others.
type Area struct {
	Name     string `json:"name"`
	Code     int    `json:"code"`
	Tests    int    `json:"tests"`
	Packages int    `json:"packages"`
	// Exported counts exported names of package level, and exported methods.
	Exported int `json:"exported"`
	// Comments counts lines of comments, and Phrases the matches of Banned in them.
	Comments int `json:"comments"`
	Phrases  int `json:"phrases"`
}

// Struct is a struct type and how many fields it has.
type Struct struct {
	Name   string `json:"name"`
	Fields int    `json:"fields"`
}

// Doubled is a name of an exported type, and the packages that declare it.
type Doubled struct {
	Name     string   `json:"name"`
	Packages []string `json:"packages"`
}

// Banned matches phrases that make readers go back, because they refer to a thing that was named earlier instead of
// naming it again.
var Banned = regexp.MustCompile(`(?i)\b(of which|those of|says|told|nobody)\b`)

// documented matches a Makefile target with a help text.
var documented = regexp.MustCompile(`(?m)^[a-z][a-z-]*:.*## `)

// Measure returns the report on the files of a tree. It fails if a Go file does not parse.
func Measure(tree fs.FS) (Report, error) {
	m := &measurement{tree: tree, fset: token.NewFileSet(), areas: map[string]*Area{}, folders: map[string]bool{},
		types: map[string][]string{}}
	err := Walk(tree, func(string) bool { return false }, func(name string) error {
		switch {
		case path.Ext(name) == ".mod":
			m.report.Modules++
		case name == "Makefile":
			return m.countTargets(name)
		case path.Ext(name) == ".go":
			return m.measureFile(name)
		}
		return nil
	})
	if err != nil {
		return Report{}, err
	}
	return m.result(), nil
}

type measurement struct {
	tree    fs.FS
	fset    *token.FileSet
	report  Report
	areas   map[string]*Area
	folders map[string]bool     // folders with code
	types   map[string][]string // packages by exported type
}

func (m *measurement) countTargets(name string) error {
	text, err := fs.ReadFile(m.tree, name)
	m.report.MakeTargets = len(documented.FindAll(text, -1))
	return err
}

func (m *measurement) measureFile(name string) error {
	f, text, err := Parse(m.tree, m.fset, name)
	if err != nil {
		return err
	}
	if ast.IsGenerated(f) {
		return nil
	}
	area := m.areaOf(name)
	for _, group := range f.Comments {
		for _, c := range group.List {
			area.Comments += 1 + strings.Count(c.Text, "\n")
			area.Phrases += len(Banned.FindAllString(c.Text, -1))
		}
	}
	lines := codeLines(name, text)
	if strings.HasSuffix(name, "_test.go") {
		area.Tests += lines
		return nil
	}
	area.Code += lines
	if folder := path.Dir(name); !m.folders[folder] {
		m.folders[folder] = true
		area.Packages++
	}
	m.countDeclarations(path.Dir(name), f, area)
	return nil
}

func (m *measurement) areaOf(name string) *Area {
	first, _, below := strings.Cut(name, "/")
	if !below {
		first = "."
	}
	if m.areas[first] == nil {
		m.areas[first] = &Area{Name: first}
	}
	return m.areas[first]
}

// codeLines counts the lines of a file that have at least a part of a token other than a comment.
func codeLines(name string, text []byte) int {
	var s scanner.Scanner
	file := token.NewFileSet().AddFile(name, -1, len(text))
	s.Init(file, text, nil, 0)
	lines := map[int]bool{}
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return len(lines)
		}
		if tok == token.SEMICOLON && lit == "\n" {
			continue
		}
		first := file.Line(pos)
		for i := range 1 + strings.Count(lit, "\n") {
			lines[first+i] = true
		}
	}
}

// countDeclarations counts the declarations of a file.
func (m *measurement) countDeclarations(folder string, f *ast.File, area *Area) {
	count := func(id *ast.Ident) {
		if id.IsExported() {
			area.Exported++
		}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			count(d.Name)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.ValueSpec:
					for _, id := range s.Names {
						count(id)
					}
				case *ast.TypeSpec:
					count(s.Name)
					m.recordType(folder, f.Name.Name, s)
				}
			}
		}
	}
}

// recordType records an exported type for Doubled, and a struct for Largest.
func (m *measurement) recordType(folder, pkg string, s *ast.TypeSpec) {
	if s.Name.IsExported() {
		m.types[s.Name.Name] = append(m.types[s.Name.Name], folder)
	}
	if t, ok := s.Type.(*ast.StructType); ok && t.Fields.NumFields() > m.report.Largest.Fields {
		m.report.Largest = Struct{pkg + "." + s.Name.Name, t.Fields.NumFields()}
	}
}

func (m *measurement) result() Report {
	out := m.report
	for _, a := range m.areas {
		out.Areas = append(out.Areas, *a)
	}
	slices.SortFunc(out.Areas, func(a, b Area) int {
		return cmp.Or(b.Code-a.Code, cmp.Compare(a.Name, b.Name))
	})
	for name, packages := range m.types {
		slices.Sort(packages)
		if packages = slices.Compact(packages); len(packages) > 1 {
			out.Doubled = append(out.Doubled, Doubled{name, packages})
		}
	}
	slices.SortFunc(out.Doubled, func(a, b Doubled) int {
		return cmp.Or(len(b.Packages)-len(a.Packages), cmp.Compare(a.Name, b.Name))
	})
	return out
}
