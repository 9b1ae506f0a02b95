package house_test

import (
	"context"
	"go/ast"
	"go/token"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/tenon-numa/tenon/face/cli"
)

// Every command in a ```sh block of a document exists, with its subcommand, flags, targets and files.
func TestCommandsInDocumentsExist(t *testing.T) {
	known := knownCommands(t)
	seen := 0
	for _, name := range documents(t) {
		text := document(t, name)
		for _, m := range inline.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
			seen++
			if why := known.refuse(strings.Fields(m[1])); why != "" {
				t.Errorf("%s: %q: %s", name, m[1], why)
			}
		}
		for _, b := range blocks(text, "sh") {
			for line := range strings.Lines(strings.ReplaceAll(b, "\\\n", " ")) {
				line, _, _ = strings.Cut(line, " #")
				line = assigned.ReplaceAllString(line, "")
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

// inline is a command in the middle of a sentence: a target of make, or a part of the tests.
var inline = regexp.MustCompile("`((?:make|go run \\./test)\\s[^`]+)`")

// assigned is the assignment of what a command prints; the command remains.
var assigned = regexp.MustCompile(`^[A-Z]+=[^$ ]*\$\(`)

// The test of commands is worth what it refuses.
func TestCommandsThatDoNotExistAreRefused(t *testing.T) {
	known := knownCommands(t)
	for _, line := range []string{
		"make no-such-target",
		"make test LAYERS=core",
		"make bench LAYER=cores",
		"make test ONLY=lab/command",
		"go run ./test consoles -run X",
		".ci/run units",
		"tools/run no-such-program",
		"go test ./no/such/package",
		"go run ./cmd/tenon-lab up --machine x",
		"go run ./cmd/tenon-lab down",
		"go run ./try down",
		"kind create cluster --config no-such-file.yaml",
		"kind load image-archive dist/images/tenon-agents.tar",
		"kubectl tenon map --map",
		"kubectl tenon simulate --machine x",
		"kubectl tenon draw",
		"kubectl apply -f no-such-file.yaml",
		"tenon-agent --metrics-addr :1",
		"tenon-agent measure",
		"no-such-program",
	} {
		if known.refuse(strings.Fields(line)) == "" {
			t.Errorf("%q is taken for a command", line)
		}
	}
}

// Whoever asks for help learns every layer that can be measured.
func TestMakeHelpListsEveryLayer(t *testing.T) {
	listed := matches(`(?m)^## ([a-z]+)  +[a-zA-Z0-9]`, document(t, "Makefile"))
	layers := knownCommands(t).layers
	slices.Sort(listed)
	slices.Sort(layers)
	if !slices.Equal(listed, layers) {
		t.Errorf("the help of make bench lists %q, and can measure %q", listed, layers)
	}
}

// The help of make fits a terminal of 100 columns, in groups.
func TestMakeHelpFitsATerminal(t *testing.T) {
	const before = 12 // columns before a text
	groups := 0
	for line := range strings.Lines(document(t, "Makefile")) {
		if strings.HasPrefix(line, "##@ ") {
			groups++
			continue
		}
		if _, text, ok := strings.Cut(line, "## "); ok && before+len(strings.TrimSpace(text)) > 100 {
			t.Errorf("a line of the help takes %d columns: %s", before+len(strings.TrimSpace(text)), text)
		}
	}
	if groups < 3 {
		t.Errorf("the help has %d groups", groups)
	}
}

// Workflows of the forge are YAML, and run what is there.
func TestWorkflowsRunWhatExists(t *testing.T) {
	known := knownCommands(t)
	matrix := regexp.MustCompile(`\$\{\{[^}]*\}\}`)
	seen := 0
	for _, pattern := range []string{".github/*.yml", ".github/*/*.y*ml"} {
		names, err := fs.Glob(root, pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			var w struct {
				Permissions map[string]string
				Jobs        map[string]struct {
					Strategy struct{ Matrix map[string][]string }
					Steps    []struct{ Run, Uses string }
				}
			}
			if err := yaml.Unmarshal([]byte(document(t, name)), &w); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if w.Jobs != nil && w.Permissions == nil {
				t.Errorf("%s: permissions: want those that all jobs need, or {}", name)
			}
			for _, job := range w.Jobs {
				var lines []string
				for _, s := range job.Steps {
					if s.Uses != "" && !pinned.MatchString(s.Uses) {
						t.Errorf("%s: action %s is not pinned by a commit's hash", name, s.Uses)
					}
					lines = append(lines, matrix.ReplaceAllString(s.Run, ""))
				}
				lines = append(lines, job.Strategy.Matrix["command"]...)
				for _, part := range job.Strategy.Matrix["part"] {
					lines = append(lines, ".ci/run "+part)
				}
				for _, line := range lines {
					if words := strings.Fields(line); len(words) > 0 {
						seen++
						if why := known.refuse(words); why != "" {
							t.Errorf("%s: %q: %s", name, line, why)
						}
					}
				}
			}
		}
	}
	if seen < 3 {
		t.Errorf("workflows have %d commands, want at least 3", seen)
	}
}

// pinned is an action with the hash of a commit. A tag can be moved to another commit, and a hash cannot.
var pinned = regexp.MustCompile(`^[a-z-]+/[a-z-]+@[0-9a-f]{40}$`)

// commands knows what a command line may say.
type commands struct {
	targets  []string           // of make
	given    []string           // parameters of make
	layers   []string           // what make bench measures
	parts    []string           // of the tests: go run ./test PART
	tools    []string           // that go.mod files below tools/ pin
	programs map[string]program // below cmd/
}

// program is what a program takes, read from its source.
type program struct{ subcommands, flags map[string]bool }

func knownCommands(t *testing.T) commands {
	makefile, bench := document(t, "Makefile"), document(t, "test/bench/main.go")
	return commands{
		targets: matches(`(?m)^([a-z-]+):`, makefile),
		given:   matches(`(?m)^([A-Z]+) \??=`, makefile),
		layers: slices.Concat(words("docs"), matches(`(?m)^\t\{"([a-z]+)", "`, bench),
			matches(`(?m)^bench-([a-z]+) =`, makefile)),
		parts: matches(`(?m)^  ([a-z]+)  +only`, document(t, "test/main.go")),
		tools: matches(`(?m)^(?:tool |\t)[a-z0-9./-]+/cmd/([a-z-]+)$`,
			document(t, "tools/go.mod")+document(t, "tools/lint/go.mod")),
		programs: programs(t),
	}
}

// refuse returns why a command line cannot be run in the root of the module, or "".
func (c commands) refuse(w []string) string {
	switch w[0] {
	case "make":
		return c.refuseMake(w[1:])
	case "go":
		return c.refuseGo(w[1:])
	case "kubectl":
		if len(w) > 1 && w[1] == "tenon" {
			return refuseKubectl(w[2:])
		}
		return missingFile(w[1:])
	case ".ci/run", "tools/run", "tools/tidy", "tools/release/run":
		switch {
		case w[0] == ".ci/run" && len(w) > 1 && !slices.Contains(c.parts, w[1]):
			return "no part " + w[1]
		case w[0] == "tools/run" && !slices.Contains(c.tools, w[1]):
			return "no tool " + w[1]
		}
		return missingFile([]string{"-f", w[0]})
	case "promtool":
		return missingFile([]string{"-f", w[len(w)-1]})
	case "sed":
		return missingFile([]string{"-f", w[slices.Index(w, "|")-1]})
	case "export", "git", "cd", "diff", "echo", "gh", "sh", "az", "ctr", "curl", "helm", "rm", "skopeo", "systemctl", "vi":
		return ""
	case "kind":
		return c.refuseKind(w[1:])
	}
	return c.refuseProgram(filepath.Base(w[0]), w[1:])
}

func (c commands) refuseMake(w []string) string {
	for _, a := range w {
		name, value, isGiven := strings.Cut(a, "=")
		switch {
		case !isGiven && !slices.Contains(c.targets, a):
			return "no target " + a
		case isGiven && !slices.Contains(c.given, name):
			return "no parameter " + name
		case name == "LAYER" && !slices.Contains(c.layers, value):
			return "no layer " + value
		case name == "ONLY" && !slices.Contains(c.parts, value):
			return "no part " + value
		}
	}
	return ""
}

func (c commands) refuseGo(w []string) string {
	if len(w) > 2 && w[0] == "run" && w[1] == "./test" && !strings.HasPrefix(w[2], "-") &&
		!slices.Contains(c.parts, w[2]) {
		return "no part " + w[2]
	}
	for i, a := range w {
		path, ok := strings.CutPrefix(a, "./")
		if !ok {
			continue
		}
		path = strings.TrimSuffix(strings.TrimSuffix(path, "..."), "/")
		if _, err := fs.Stat(root, filepath.Clean(path)); err != nil {
			return err.Error()
		}
		if program, ok := strings.CutPrefix(path, "cmd/"); ok && w[0] == "run" {
			return c.refuseProgram(program, w[i+1:])
		}
		if path == "try" && w[0] == "run" {
			return c.refuseProgram("tenon-lab", w[i+1:])
		}
	}
	return ""
}

// refuseKubectl returns what kubectl tenon prints about arguments that it does not take, or "". With --help it parses
// them and runs nothing.
func refuseKubectl(args []string) string {
	var stderr strings.Builder
	if code := cli.Run(context.Background(), append(slices.Clone(args), "--help"), io.Discard, &stderr,
		cli.Setup{}); code != 0 {
		return stderr.String()
	}
	return ""
}

// refuseProgram returns why a program does not take its arguments, or "": its source declares no such first argument or
// long flag. The flags of tenon-scheduler are kube-scheduler's and are not checked.
func (c commands) refuseProgram(name string, args []string) string {
	if name == "kubectl-tenon" {
		return refuseKubectl(args)
	}
	p, ok := c.programs[name]
	if !ok {
		return "no program cmd/" + name
	}
	for i, a := range args {
		flag, isFlag := strings.CutPrefix(a, "--")
		flag, _, _ = strings.Cut(flag, "=")
		switch {
		case isFlag && name != "tenon-scheduler" && !p.flags[flag]:
			return "no flag --" + flag
		case i == 0 && !strings.HasPrefix(a, "-") && !p.subcommands[a]:
			return "no subcommand " + a
		}
	}
	return ""
}

// refuseKind returns why a command of kind names a file that does not exist, or "". The files of dist come from make.
func (c commands) refuseKind(w []string) string {
	if i := slices.Index(w, "--config"); i >= 0 && i+1 < len(w) {
		return missingFile([]string{"-f", w[i+1]})
	}
	if len(w) == 3 && w[0] == "load" && w[1] == "image-archive" {
		program := strings.TrimSuffix(path.Base(w[2]), ".tar")
		if _, ok := c.programs[program]; !ok || path.Dir(w[2]) != "dist/images" {
			return "make images does not write " + w[2]
		}
	}
	return ""
}

// missingFile returns the error about the file of kubectl -f, or the directory of -k, if it does not exist; otherwise
// "".
func missingFile(args []string) string {
	i := slices.IndexFunc(args, func(a string) bool { return a == "-f" || a == "-k" })
	if i < 0 || i+1 == len(args) || args[i+1] == "-" {
		return ""
	}
	if args[i] == "-k" && args[i+1] == "dist" {
		return "" // make chart writes it
	}
	if _, err := fs.Stat(root, filepath.Clean(args[i+1])); err != nil {
		return err.Error()
	}
	return ""
}

// programs reads the programs below cmd/: what their own code, and that of the packages that it imports, declares.
func programs(t *testing.T) map[string]program {
	t.Helper()
	byPath := map[string]pkg{}
	for _, p := range packages(t) {
		byPath[p.path] = p
	}
	out := map[string]program{}
	for path, p := range byPath {
		name, ok := strings.CutPrefix(path, "cmd/")
		if !ok {
			continue
		}
		found := program{subcommands: map[string]bool{}, flags: map[string]bool{}}
		found.add(p)
		for _, imp := range p.imports(false) {
			// tenon-lab runs commands of kubectl tenon in its demonstration, and does not have them itself.
			if own, ok := inside(imp); ok && (own != "face/cli" || name == "kubectl-tenon") {
				found.add(byPath[own])
			}
		}
		out[name] = found
	}
	return out
}

// registers are the functions of packages flag and pflag that declare a flag; with Var in the name, the flag's name
// is the second argument.
var registers = regexp.MustCompile(
	`^(Bool|Duration|Float64|Func|BoolFunc|Int|Int64|String|StringArray|StringSlice|Text|Uint|Uint64)?(Var)?P?$`)

// add adds what a package's code declares.
func (found program) add(p pkg) {
	for _, f := range p.files {
		if f.test {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Use" {
					first, _, _ := strings.Cut(text(n.Value), " ")
					found.subcommands[first] = true
				}
			case *ast.CallExpr:
				fn, ok := n.Fun.(*ast.SelectorExpr)
				if !ok || !registers.MatchString(fn.Sel.Name) || len(n.Args) < 3 {
					return true
				}
				name := n.Args[0]
				if strings.Contains(fn.Sel.Name, "Var") {
					name = n.Args[1]
				}
				found.flags[text(name)] = true
			}
			return true
		})
	}
}

// text returns the value of a string literal, or "".
func text(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	s, err := strconv.Unquote(lit.Value)
	if err != nil {
		return ""
	}
	return s
}

// matches returns what the first group of an expression finds.
func matches(expression, text string) (out []string) {
	for _, m := range regexp.MustCompile(expression).FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}
