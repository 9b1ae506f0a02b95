package install_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// shell runs commands as an administrator who has a clone of the repository, and the releases in dist.
type shell struct {
	dir     string // the clone: links to the folders that the pages name
	env     []string
	exports []string // variables that were set
}

func (w *world) newShell(t *testing.T) *shell {
	t.Helper()
	s := &shell{dir: filepath.Join(w.dir, "clone")}
	home := filepath.Join(w.dir, "home")
	for _, dir := range []string{s.dir, home} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"dist": filepath.Join(w.dir, "dist"),
		"docs": filepath.Join(w.root, "docs"), "deploy": filepath.Join(w.root, "deploy")} {
		if err := os.Symlink(target, filepath.Join(s.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	s.env = append(os.Environ(), "KUBECONFIG="+w.plane.Kubeconfig, "HOME="+home, "TERM=dumb",
		"PATH="+w.tools+":"+os.Getenv("PATH"))
	return s
}

// run runs a script and returns what it printed.
func (s *shell) run(ctx context.Context, script string) (string, error) {
	cmd := exec.CommandContext(ctx, "sh", "-ec", strings.Join(append(s.exports, script), "\n"))
	cmd.Dir, cmd.Env = s.dir, s.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// must runs a script that has to succeed.
func (w *world) must(ctx context.Context, t *testing.T, script string) string {
	t.Helper()
	w.played[script] = true
	out, err := w.shell.run(ctx, script)
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	t.Logf("$ %s\n%s", script, out)
	return out
}

// command is one command of a page.
type command struct {
	text   string
	onNode bool
}

// heading matches the marks of a heading below a page's title, and the space after them; a match is one character
// longer than the heading's level.
var heading = regexp.MustCompile("(?m)^##+ ")

var fence = regexp.MustCompile("(?m)^```([a-z]*)\n((?s:.*?))^```$")

// commands returns the commands of a section of a page, in order: the commands of sh blocks, and the commands for the
// node's container runtime, which run on the node.
func commands(page, section string) (out []command, err error) {
	_, rest, found := strings.Cut("\n"+page, "\n"+section+"\n")
	if !found {
		return nil, fmt.Errorf("no section %q", section)
	}
	level := strings.Index(section, " ")
	next := heading.FindAllStringIndex(rest, -1)
	if i := slices.IndexFunc(next, func(at []int) bool { return at[1]-at[0] <= level+1 }); i >= 0 {
		rest = rest[:next[i][0]]
	}
	for _, m := range fence.FindAllStringSubmatch(rest, -1) {
		out = append(out, lines(m[1], m[2])...)
	}
	return out, nil
}

// lines returns the commands of a block in a language.
func lines(language, block string) (out []command) {
	for line := range strings.Lines(strings.ReplaceAll(block, "\\\n", " ")) {
		line = strings.Join(strings.Fields(line), " ")
		switch {
		case line == "":
		case strings.HasPrefix(line, "ctr "):
			out = append(out, command{line, true})
		case language == "sh":
			out = append(out, command{line, false})
		}
	}
	return out
}

// claim marks a block that these tests play, according to the page.
var claim = regexp.MustCompile("(?m)^ *<!-- not in the lab: played on a virtual machine -->\n" +
	" *```sh\n((?s:.*?))^ *```$")

// claimed returns the commands that a test plays, according to a page.
func claimed(page string) (out []command) {
	for _, m := range claim.FindAllStringSubmatch(page, -1) {
		out = append(out, lines("sh", m[1])...)
	}
	return out
}

// whole fails if the page marks a command as tested, and no test ran it.
func whole(_ context.Context, t *testing.T, w *world) {
	pages, err := filepath.Glob(filepath.Join(w.root, "docs", "howto", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	pages = slices.DeleteFunc(pages, func(path string) bool { return strings.HasSuffix(path, pinPage) }) // TestPin's
	for _, path := range append(pages, filepath.Join(w.root, "docs", "quickstart.md")) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range claimed(string(data)) {
			if n++; !w.played[c.text] {
				t.Errorf("%s: did not run: %s", filepath.Base(path), c.text)
			}
		}
	}
	t.Logf("%d commands of the pages have run", n)
}

// done are commands that the test has run already in another way: they build.
var done = regexp.MustCompile(`^(make (images|chart)|go install) `)

// play runs the commands of a section of a page, and fails if one fails.
func (w *world) play(ctx context.Context, t *testing.T, page, section string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(w.root, filepath.FromSlash(page)))
	if err != nil {
		t.Fatal(err)
	}
	all, err := commands(string(data), section)
	if err != nil || len(all) == 0 {
		t.Fatalf("%s: %d commands, %v", page, len(all), err)
	}
	for _, c := range all {
		w.played[c.text] = true
		switch {
		case done.MatchString(c.text):
		case strings.HasPrefix(c.text, "export "):
			w.shell.exports = append(w.shell.exports, c.text)
		case c.onNode:
			out, err := w.node.Run(ctx, "cd /root && "+c.text)
			if err != nil {
				t.Fatalf("%s: %s: %v", page, c.text, err)
			}
			t.Logf("%s# %s\n%s", nodeName, c.text, out)
		default:
			w.must(ctx, t, c.text)
		}
	}
}

func TestCommands(t *testing.T) {
	page := "# A\n\n## B\n\n```sh\none \\\n  two\n```\n\n### C\n\n" +
		"```text\nNAME\nctr three\n```\n\n## D\n\n```sh\nfour\n```\n"
	got, err := commands(page, "## B")
	if err != nil || len(got) != 2 || got[0] != (command{"one two", false}) || got[1] != (command{"ctr three", true}) {
		t.Errorf("commands are %v (%v)", got, err)
	}
	if got, err := commands(page, "# A"); err != nil || len(got) != 3 || got[2] != (command{"four", false}) {
		t.Errorf("commands of the whole page are %v (%v)", got, err)
	}
	const marked = "<!-- not in the lab: played on a virtual machine -->\n```sh\nfive\n```\n\n```sh\nsix\n```\n"
	if got := claimed(page + marked); len(got) != 1 || got[0].text != "five" {
		t.Errorf("commands that are said to be played: %v, want five", got)
	}
	if _, err := commands(page, "## E"); err == nil {
		t.Error("a section that is not there has commands")
	}
}
