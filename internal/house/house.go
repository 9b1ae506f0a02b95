// Package house is the room of the house's rules. It measures this repository: how large each part is, how many rooms
// it has, and how it is written. Whoever changes the layout runs that before and after. Its tests hold the rules:
// floors_test.go has which package may import which, deps_test.go the modules, docs_test.go and commands_test.go what
// the documents must have.
//
// Invariant: equal trees give equal reports. It reads Go files, go.mod files and the Makefile of a tree, and refuses Go
// files that do not parse. Generated files and testdata count nowhere.
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

// Report is what Measure finds.
type Report struct {
	// Areas are the folders of the root, largest first; the root's own files are the area ".".
	Areas []Area `json:"areas"`
	// Modules counts go.mod files and other files of modules, MakeTargets the documented targets of the Makefile.
	Modules     int `json:"modules"`
	MakeTargets int `json:"makeTargets"`
	// Largest is the struct with most fields.
	Largest Struct `json:"largest"`
	// Doubled are names of exported types that several packages have. A name of more packages comes first.
	Doubled []Doubled `json:"doubled"`
}

// Area is one part of the tree. Code and Tests are lines with something other than comments.
type Area struct {
	Name     string `json:"name"`
	Code     int    `json:"code"`
	Tests    int    `json:"tests"`
	Packages int    `json:"packages"`
	// Exported counts names of package level and methods.
	Exported int `json:"exported"`
	// Comments counts lines of comments, and Phrases how often Banned matches in them.
	Comments int `json:"comments"`
	Phrases  int `json:"phrases"`
}

// Struct is a struct type and how many fields it has.
type Struct struct {
	Name   string `json:"name"`
	Fields int    `json:"fields"`
}

// Doubled is a name of an exported type, and the packages that have it.
type Doubled struct {
	Name     string   `json:"name"`
	Packages []string `json:"packages"`
}

// Banned are phrases that make readers go back: they stand for a thing that was named long before.
var Banned = regexp.MustCompile(`(?i)\b(of which|those of|says|told|nobody)\b`)

// documented matches a target of a Makefile with its help.
var documented = regexp.MustCompile(`(?m)^[a-z][a-z-]*:.*## `)

// Measure measures a tree.
func Measure(tree fs.FS) (Report, error) {
	m := &measuring{tree: tree, fset: token.NewFileSet(), areas: map[string]*Area{}, rooms: map[string]bool{},
		types: map[string][]string{}}
	err := Walk(tree, func(string) bool { return false }, func(name string) error {
		switch {
		case path.Ext(name) == ".mod":
			m.report.Modules++
		case name == "Makefile":
			return m.makefile(name)
		case path.Ext(name) == ".go":
			return m.file(name)
		}
		return nil
	})
	if err != nil {
		return Report{}, err
	}
	return m.result(), nil
}

type measuring struct {
	tree   fs.FS
	fset   *token.FileSet
	report Report
	areas  map[string]*Area
	rooms  map[string]bool     // folders with code
	types  map[string][]string // packages by exported type
}

func (m *measuring) makefile(name string) error {
	text, err := fs.ReadFile(m.tree, name)
	m.report.MakeTargets = len(documented.FindAll(text, -1))
	return err
}

func (m *measuring) file(name string) error {
	f, text, err := Parse(m.tree, m.fset, name)
	if err != nil {
		return err
	}
	if ast.IsGenerated(f) {
		return nil
	}
	area := m.area(name)
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
	if room := path.Dir(name); !m.rooms[room] {
		m.rooms[room] = true
		area.Packages++
	}
	m.declarations(path.Dir(name), f, area)
	return nil
}

func (m *measuring) area(name string) *Area {
	first, _, below := strings.Cut(name, "/")
	if !below {
		first = "."
	}
	if m.areas[first] == nil {
		m.areas[first] = &Area{Name: first}
	}
	return m.areas[first]
}

// codeLines counts the lines of a file with a part of a token that is no comment.
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

// declarations counts what a file of a package declares.
func (m *measuring) declarations(room string, f *ast.File, area *Area) {
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
					m.declared(room, f.Name.Name, s)
				}
			}
		}
	}
}

// declared counts a type.
func (m *measuring) declared(room, pkg string, s *ast.TypeSpec) {
	if s.Name.IsExported() {
		m.types[s.Name.Name] = append(m.types[s.Name.Name], room)
	}
	if t, ok := s.Type.(*ast.StructType); ok && t.Fields.NumFields() > m.report.Largest.Fields {
		m.report.Largest = Struct{pkg + "." + s.Name.Name, t.Fields.NumFields()}
	}
}

func (m *measuring) result() Report {
	out := m.report
	for _, a := range m.areas {
		out.Areas = append(out.Areas, *a)
	}
	slices.SortFunc(out.Areas, func(a, b Area) int {
		return cmp.Or(b.Code-a.Code, cmp.Compare(a.Name, b.Name))
	})
	for name, rooms := range m.types {
		slices.Sort(rooms)
		if rooms = slices.Compact(rooms); len(rooms) > 1 {
			out.Doubled = append(out.Doubled, Doubled{name, rooms})
		}
	}
	slices.SortFunc(out.Doubled, func(a, b Doubled) int {
		return cmp.Or(len(b.Packages)-len(a.Packages), cmp.Compare(a.Name, b.Name))
	})
	return out
}
