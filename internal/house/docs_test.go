package house_test

import (
	"go/ast"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	"github.com/tenon-numa/tenon/api/config"
)

// Lengths beyond which readers give up.
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

// A link leads to a file that exists, and to a heading that the file has.
func TestLinksLeadSomewhere(t *testing.T) {
	for _, name := range documents(t) {
		for _, l := range links(t, name) {
			if _, err := fs.Stat(root, l.file); err != nil {
				t.Errorf("%s: link to %s: %v", name, l.file, err)
			} else if l.heading != "" && !slices.Contains(headings(document(t, l.file)), l.heading) {
				t.Errorf("%s: %s has no heading #%s", name, l.file, l.heading)
			}
		}
	}
}

// Every page begins with a title and a sentence that names its readers, and the index leads to it.
func TestPagesSayForWhomAndAreReachable(t *testing.T) {
	const index = "docs/README.md"
	opening := regexp.MustCompile(`^# .+\n\nFor [a-z]+`)
	reached := map[string]bool{index: true}
	for queue := []string{index}; len(queue) > 0; queue = queue[1:] {
		for _, l := range links(t, queue[0]) {
			if strings.HasPrefix(l.file, "docs/") && strings.HasSuffix(l.file, ".md") && !reached[l.file] {
				reached[l.file] = true
				queue = append(queue, l.file)
			}
		}
	}
	pages := 0
	for _, name := range documents(t) {
		if !strings.HasPrefix(name, "docs/") {
			continue
		}
		pages++
		if !reached[name] {
			t.Errorf("%s: no links lead from %s to it", name, index)
		}
		if !opening.MatchString(document(t, name)) {
			t.Errorf("%s does not begin with a title and a sentence that says for whom it is: want %s", name, opening)
		}
	}
	if pages < 20 {
		t.Errorf("%d pages were found, want at least 20", pages)
	}
}

// Every code that users meet is explained on its page: the constants of these types in core.
func TestCodesAreExplained(t *testing.T) {
	for kind, page := range map[string]string{
		"Code":        "docs/reference/scheduler.md",
		"Outcome":     "docs/howto/affinity.md",
		"InexactCode": "docs/reference/agent.md",
		"HazardCode":  "docs/design/kubelet.md",
	} {
		text, codes := document(t, page), constants(t, kind)
		if len(codes) < 5 {
			t.Errorf("core has %d constants of a type %s, want at least 5", len(codes), kind)
		}
		for _, code := range codes {
			if !strings.Contains(text, "`"+code+"`") {
				t.Errorf("%s does not explain %s", page, code)
			}
		}
	}
}

// constants returns the texts of the constants in core and guests/affinity whose declaration names the type.
func constants(t *testing.T, kind string) (out []string) {
	t.Helper()
	for _, p := range packages(t) {
		if !match("core/...", p.path) && p.path != "guests/affinity" {
			continue
		}
		for _, f := range p.files {
			ast.Inspect(f.syntax, func(n ast.Node) bool {
				spec, ok := n.(*ast.ValueSpec)
				if !ok || len(spec.Values) != 1 {
					return true
				}
				if id, ok := spec.Type.(*ast.Ident); ok && id.Name == kind {
					if lit, ok := spec.Values[0].(*ast.BasicLit); ok {
						out = append(out, strings.Trim(lit.Value, `"`))
					}
				}
				return true
			})
		}
	}
	return out
}

// link is a link to a file of this repository, by its path from the root, and to a heading in it or "".
type link struct{ file, heading string }

var markdownLink = regexp.MustCompile(`\]\(([^)#]*)(?:#([^)]*))?\)`)

// links returns the links of a document outside fenced blocks; links to other sites are left out.
func links(t *testing.T, name string) []link {
	t.Helper()
	var out []link
	for _, m := range markdownLink.FindAllStringSubmatch(fenced.ReplaceAllString(document(t, name), ""), -1) {
		if strings.Contains(m[1], "://") {
			continue
		}
		file := name
		if m[1] != "" {
			file = path.Join(path.Dir(name), m[1])
		}
		out = append(out, link{file, m[2]})
	}
	return out
}

var (
	headingLine = regexp.MustCompile(`(?m)^#+ (.+)$`)
	punctuation = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// headings returns the names by which the headings of a document are linked to: lower case, without punctuation,
// hyphens for spaces.
func headings(text string) []string {
	var out []string
	for _, m := range headingLine.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		name := punctuation.ReplaceAllString(strings.ToLower(m[1]), "")
		out = append(out, strings.ReplaceAll(name, " ", "-"))
	}
	return out
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
			if _, err := fs.Stat(root, m[1]); err != nil {
				t.Errorf("ARCHITECTURE.md: %s: %v", strings.TrimSpace(cells[1]), err)
			}
		}
	}
	if rows < 10 {
		t.Errorf("ARCHITECTURE.md: %d files in the table, want at least 10", rows)
	}
}

// Tenon's own words are few, and each is defined once.
func TestOwnWordsAreFew(t *testing.T) {
	const most = 15
	_, section, ok := strings.Cut(document(t, "ARCHITECTURE.md"), "\n## Words\n")
	if !ok {
		t.Fatal("ARCHITECTURE.md has no section Words")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var defined []string
	for _, m := range regexp.MustCompile(`(?m)^\| ([a-z ]+) \|`).FindAllStringSubmatch(section, -1) {
		if m[1] != "word" {
			defined = append(defined, m[1])
		}
	}
	if n := len(defined); n == 0 || n > most {
		t.Errorf("ARCHITECTURE.md defines %d words, want 1 to %d: %q", n, most, defined)
	}
	slices.Sort(defined)
	if n := len(slices.Compact(slices.Clone(defined))); n != len(defined) {
		t.Errorf("ARCHITECTURE.md defines a word twice: %q", defined)
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

// documents returns the module's Markdown files.
func documents(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", ".github/*.md"} {
		found, err := fs.Glob(root, pattern)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, found...)
	}
	return out
}

func document(t *testing.T, name string) string {
	t.Helper()
	data, err := fs.ReadFile(root, name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// fenced is a fenced block: its language and its text.
var fenced = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")

// blocks returns the fenced blocks of a document that are marked with a language.
func blocks(text, language string) []string {
	var out []string
	for _, m := range fenced.FindAllStringSubmatch(text, -1) {
		if m[1] == language {
			out = append(out, m[2])
		}
	}
	return out
}
