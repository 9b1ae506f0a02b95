package tenon_test

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	"github.com/tenon-numa/tenon/api/config"
)

// Lengths beyond which nobody reads to the end.
const (
	maxFileLines         = 600
	maxCoreFuncLines     = 80
	maxArchitectureLines = 150
)

// meaningless are names of packages that say nothing of what is in them.
var meaningless = words(`util utils common manager managers helper helpers base impl misc shared`)

var sentenceEnd = regexp.MustCompile(`[.!?](\s|$)`)

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	for _, p := range packages(t) {
		var comments []string
		code := false
		for _, f := range p.files {
			if name := strings.TrimSuffix(f.syntax.Name.Name, "_test"); slices.Contains(meaningless, name) {
				t.Errorf("%s: package %s: the name says nothing", f.name, name)
			}
			if f.test {
				continue
			}
			code = true
			if d := f.syntax.Doc; d != nil {
				comments = append(comments, d.Text())
			}
		}
		if !code {
			continue
		}
		if len(comments) != 1 {
			t.Errorf("package %s has %d package comments, want one", p.path, len(comments))
			continue
		}
		if n := len(sentenceEnd.FindAllString(comments[0], -1)); n < 2 {
			t.Errorf("package %s: its comment has %d sentence: say what it is, its invariant, and what it refuses", p.path, n)
		}
	}
}

func TestNothingIsTooLong(t *testing.T) {
	for _, p := range packages(t) {
		for _, f := range p.files {
			if !f.generated() && f.lines > maxFileLines {
				t.Errorf("%s has %d lines, at most %d", f.name, f.lines, maxFileLines)
			}
			if f.test || !match("core/...", p.path) {
				continue
			}
			for _, d := range f.syntax.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok {
					continue
				}
				n := p.fset.Position(fn.End()).Line - p.fset.Position(fn.Pos()).Line + 1
				if n > maxCoreFuncLines {
					t.Errorf("%s: function %s has %d lines, at most %d in core", p.at(fn), fn.Name.Name, n, maxCoreFuncLines)
				}
			}
		}
	}
	if n := strings.Count(document(t, "ARCHITECTURE.md"), "\n"); n > maxArchitectureLines {
		t.Errorf("ARCHITECTURE.md has %d lines, at most %d", n, maxArchitectureLines)
	}
}

// The picture in the README is what the program draws.
func TestReadmeShowsTheGoldenMap(t *testing.T) {
	golden := document(t, "face/draw/testdata/xeon.txt")
	for _, b := range blocks(document(t, "README.md"), "text") {
		if strings.TrimSpace(b) == strings.TrimSpace(golden) {
			return
		}
	}
	t.Error("README.md: no ```text block equals face/draw/testdata/xeon.txt: copy the file there")
}

func TestLinksLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#]+)(#[^)]*)?\)`)
	for _, name := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(document(t, name), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(name), m[1])); err != nil {
				t.Errorf("%s: link to %s: %v", name, m[1], err)
			}
		}
	}
}

// Every path in the table "Where do I change" is there.
func TestArchitectureNamesFilesThatExist(t *testing.T) {
	_, table, ok := strings.Cut(document(t, "ARCHITECTURE.md"), "## Where do I change")
	if !ok {
		t.Fatal(`ARCHITECTURE.md has no section "Where do I change"`)
	}
	quoted, rows := regexp.MustCompile("`([^`]+)`"), 0
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || strings.HasPrefix(cells[1], "--") {
			continue
		}
		for _, m := range quoted.FindAllStringSubmatch(cells[2], -1) {
			rows++
			if _, err := os.Stat(m[1]); err != nil {
				t.Errorf("ARCHITECTURE.md: %s: %v", strings.TrimSpace(cells[1]), err)
			}
		}
	}
	if rows < 10 {
		t.Errorf("ARCHITECTURE.md: %d files in the table, want at least 10", rows)
	}
}

// Every KubeSchedulerConfiguration in the documents is one that the scheduler and the plugin take.
func TestSchedulerConfigurationsDecode(t *testing.T) {
	seen := 0
	for _, name := range documents(t) {
		for _, b := range blocks(document(t, name), "yaml") {
			if !strings.Contains(b, "kind: KubeSchedulerConfiguration") {
				continue
			}
			seen++
			var c schedulerv1.KubeSchedulerConfiguration
			if err := yaml.UnmarshalStrict([]byte(b), &c); err != nil {
				t.Errorf("%s: %v in:\n%s", name, err, b)
			}
			for _, p := range c.Profiles {
				for _, pc := range p.PluginConfig {
					if _, err := config.Decode(pc.Name, &runtime.Unknown{Raw: pc.Args.Raw}); err != nil {
						t.Errorf("%s: arguments of %s: %v", name, pc.Name, err)
					}
				}
			}
		}
	}
	if seen == 0 {
		t.Error("no document shows a KubeSchedulerConfiguration")
	}
}

// Every command in a ```sh block of a document exists, with its subcommand, flags, targets and files.
func TestCommandsInDocumentsExist(t *testing.T) {
	known := commands{t: t, targets: makeTargets(t), words: literals(t)}
	seen := 0
	for _, name := range documents(t) {
		for _, b := range blocks(document(t, name), "sh") {
			for line := range strings.Lines(strings.ReplaceAll(b, "\\\n", " ")) {
				line, _, _ = strings.Cut(line, " #")
				if w := strings.Fields(line); len(w) > 0 && !strings.HasPrefix(w[0], "#") {
					seen++
					if why := known.refuse(w); why != "" {
						t.Errorf("%s: %q: %s", name, strings.Join(w, " "), why)
					}
				}
			}
		}
	}
	if seen == 0 {
		t.Error("no document shows a command")
	}
}

// commands knows what a command line may say.
type commands struct {
	t       *testing.T
	targets []string
	words   map[string]map[string]bool // program under cmd/ -> first words of its string literals
}

// refuse says why a command line cannot be run in the root of the module, or "".
func (c commands) refuse(w []string) string {
	switch w[0] {
	case "make":
		for _, a := range w[1:] {
			if !strings.Contains(a, "=") && !slices.Contains(c.targets, a) {
				return "no target " + a
			}
		}
		return ""
	case "go":
		return c.refuseGo(w[1:])
	case "kubectl":
		if len(w) > 1 && w[1] == "tenon" {
			return c.refuseProgram("kubectl-tenon", w[2:])
		}
		return missingFile(w[1:])
	case "export", "git", "cd":
		return ""
	}
	return c.refuseProgram(filepath.Base(w[0]), w[1:])
}

func (c commands) refuseGo(w []string) string {
	for i, a := range w {
		path, ok := strings.CutPrefix(a, "./")
		if !ok {
			continue
		}
		path = strings.TrimSuffix(strings.TrimSuffix(path, "..."), "/")
		if _, err := os.Stat(filepath.Join(".", path)); err != nil {
			return err.Error()
		}
		if program, ok := strings.CutPrefix(path, "cmd/"); ok && w[0] == "run" {
			return c.refuseProgram(program, w[i+1:])
		}
	}
	return ""
}

// refuseProgram looks for the first argument and the long flags among what the program's code says.
// The flags of tenon-scheduler are kube-scheduler's and are not looked for.
func (c commands) refuseProgram(name string, args []string) string {
	said, ok := c.words[name]
	if !ok {
		return "no program cmd/" + name
	}
	for i, a := range args {
		flag, isFlag := strings.CutPrefix(a, "--")
		flag, _, _ = strings.Cut(flag, "=")
		switch {
		case isFlag && name != "tenon-scheduler" && !said[flag]:
			return "no flag --" + flag
		case i == 0 && !strings.HasPrefix(a, "-") && !said[subcommand+a]:
			return "no subcommand " + a
		}
	}
	return ""
}

// missingFile looks for the file of kubectl -f, or the directory of -k.
func missingFile(args []string) string {
	i := slices.IndexFunc(args, func(a string) bool { return a == "-f" || a == "-k" })
	if i < 0 || i+1 == len(args) || args[i+1] == "-" {
		return ""
	}
	if _, err := os.Stat(args[i+1]); err != nil {
		return err.Error()
	}
	return ""
}

// subcommand marks the first word of a cobra command's Use among the literals.
const subcommand = "subcommand "

// literals returns, for every program under cmd/, the first word of every string literal in its own
// code and in the packages of this module that it is made of: names of subcommands and flags are there.
func literals(t *testing.T) map[string]map[string]bool {
	t.Helper()
	byPath := map[string]pkg{}
	for _, p := range packages(t) {
		byPath[p.path] = p
	}
	out := map[string]map[string]bool{}
	for path := range byPath {
		if program, ok := strings.CutPrefix(path, "cmd/"); ok {
			out[program] = map[string]bool{}
			collect(byPath, path, out[program], map[string]bool{})
		}
	}
	return out
}

func collect(byPath map[string]pkg, path string, words, seen map[string]bool) {
	if seen[path] {
		return
	}
	seen[path] = true
	p := byPath[path]
	for _, f := range p.files {
		if f.test {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				words[firstWord(n)] = true
			case *ast.KeyValueExpr:
				key, isName := n.Key.(*ast.Ident)
				if lit, ok := n.Value.(*ast.BasicLit); ok && isName && key.Name == "Use" {
					words[subcommand+firstWord(lit)] = true
				}
			}
			return true
		})
	}
	for _, imp := range p.imports(false) {
		if own, ok := inside(imp); ok {
			collect(byPath, own, words, seen)
		}
	}
}

// firstWord returns what a string literal begins with.
func firstWord(lit *ast.BasicLit) string {
	if lit.Kind != token.STRING {
		return ""
	}
	s, err := strconv.Unquote(lit.Value)
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(s, " ")
	return first
}

func makeTargets(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, m := range regexp.MustCompile(`(?m)^([a-z-]+):`).FindAllStringSubmatch(document(t, "Makefile"), -1) {
		out = append(out, m[1])
	}
	return out
}

// documents returns the module's Markdown files.
func documents(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, pattern := range []string{"*.md", "docs/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, found...)
	}
	return out
}

func document(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// blocks returns the fenced blocks of a document that are marked with a language.
func blocks(text, language string) []string {
	var out []string
	for _, m := range regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
		if m[1] == language {
			out = append(out, m[2])
		}
	}
	return out
}
