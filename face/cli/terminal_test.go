package cli

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/place"
)

// onTerminal runs a command line as on a terminal with this look.
func onTerminal(t *testing.T, c Cluster, l look, line string) string {
	t.Helper()
	var out bytes.Buffer
	p := &printed{out: &out, look: l}
	s := whole(t, false)
	s.Connect = func(k Kubeconfig) (Cluster, string, error) { return c, k.Namespace(), nil }
	root := newApp(s).root()
	root.SetArgs(strings.Fields(line))
	root.SetOut(p)
	root.SetErr(p)
	if err := root.ExecuteContext(t.Context()); err != nil {
		if _, written := exitCode(err); !written {
			t.Fatalf("%s: %v", line, err)
		}
	}
	flush(p)
	return out.String()
}

// written are the letters of a text, without their order: tables put the rest of a cell below its beginning.
func written(text string) string {
	letters := []rune(strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || r == '·' {
			return -1
		}
		return r
	}, text))
	slices.Sort(letters)
	return string(letters)
}

var shown = []string{"explain pod ml/trainer-9", "explain pod ml/trainer-0 --all", "explain pod ml/refused",
	"explain statefulset ml/trainer", "map -o wide", "pods -A", "pods -n ml --misaligned", "top", "top --shape cpu=31",
	"simulate -f testdata/simulate-train.yaml", "simulate --without gpu-a", "affinity node-a", "doctor --node bad",
	"check -f testdata/simulate-one.yaml --machine testdata/simulate-pair.txt", "version"}

// A terminal with few columns gets the same words in narrower lines.
func TestTextsFitNarrowTerminals(t *testing.T) {
	c := small(t)
	for _, line := range shown {
		wide := onTerminal(t, c, look{}, line)
		for _, width := range []int{60, 72, 80, 99} {
			narrow := onTerminal(t, c, look{width: width}, line)
			for l := range strings.Lines(narrow) {
				if n := utf8.RuneCountInString(strings.TrimRight(l, "\n")); n > width {
					t.Errorf("%s at %d columns: a line of %d: %s", line, width, n, l)
				}
			}
			if written(wide) != written(narrow) {
				t.Errorf("%s at %d columns has other words:\n%s\nthan\n%s", line, width, narrow, wide)
			}
		}
	}
}

// A sentence may follow a table without an empty line between them.
func TestSentencesBehindTablesAreSentences(t *testing.T) {
	c := small(t)
	for i := range 40 {
		c.nodes = append(c.nodes, node(t, fmt.Sprintf("more-%02d", i), xeon, place.SingleNUMA))
	}
	for _, l := range []look{{color: true}, {width: 60}, {width: 99, color: true}} {
		out := onTerminal(t, c, l, "explain pod ml/trainer-9")
		if !strings.Contains(out, "\n... and on 32 more (--all shows them)\n") {
			t.Errorf("with %+v\n%s", l, out)
		}
	}
}

// Lines that are aligned with each other stay whole: the terminal breaks them itself.
func TestAlignedLinesAreNotBroken(t *testing.T) {
	const line = "compare --trace testdata/compare.trace"
	wide, narrow := onTerminal(t, small(t), look{}, line), onTerminal(t, small(t), look{width: 60}, line)
	if wide != narrow {
		t.Errorf("at 60 columns\n%s", narrow)
	}
}

// Colour adds nothing but colour, and programs get none.
func TestColourIsInTextsAlone(t *testing.T) {
	c := small(t)
	blanks := regexp.MustCompile(` +\n`)
	plain := func(text string) string {
		for _, code := range []string{bold, red, green, yellow, cyan, "0"} {
			text = strings.ReplaceAll(text, "\x1b["+code+"m", "")
		}
		return text
	}
	for _, line := range shown {
		without, with := onTerminal(t, c, look{}, line), onTerminal(t, c, look{color: true}, line)
		if strings.Contains(without, "\x1b") || plain(with) != blanks.ReplaceAllString(without, "\n") {
			t.Errorf("%s: with colour\n%q\nwithout\n%q", line, with, without)
		}
		if !strings.HasPrefix(line, "version") && !strings.HasPrefix(line, "check") && with == without {
			t.Errorf("%s has no colour", line)
		}
	}
	for _, line := range []string{"map -o json", "map -o name", "explain pod ml/trainer-9 -o yaml"} {
		if onTerminal(t, c, look{color: true, width: 60}, line) != onTerminal(t, c, look{}, line) {
			t.Errorf("%s: a terminal changes what programs read", line)
		}
	}
	for line, want := range map[string]string{
		"explain pod ml/trainer-9": "\x1b[32mRemedy:\x1b[0m",
		"explain pod ml/huge":      "  \x1b[31mNever\x1b[0m",
		"check --machine testdata/simulate-pair.txt -f testdata/simulate-train.yaml": "\x1b[31mcannot run on\x1b[0m the only",
		"doctor --node bad": "\x1b[31merror   \x1b[0mx: ",
		"pods -n ml":        "\x1b[1mPOD\x1b[0m",
	} {
		if got := onTerminal(t, c, look{color: true}, line); !strings.Contains(got, want) {
			t.Errorf("%s: no %q in\n%q", line, want, got)
		}
	}
}

// What nodes and users write cannot colour a text or move the cursor.
func TestTextsFromOutsideHaveNoColour(t *testing.T) {
	var out bytes.Buffer
	p := &printed{out: &out, look: look{color: true, width: 60}}
	fmt.Fprintln(p, "evil \x1b[31mred\x1b[0m and \x1b[2J")
	flush(p)
	if want := "evil ?[31mred?[0m and ?[2J\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

// Text reaches the terminal when the command waits, also without a line break.
func TestQuestionsAreShown(t *testing.T) {
	var out bytes.Buffer
	p := &printed{out: &out, look: look{width: 60}}
	fmt.Fprintln(p, "At most 1 at a time.")
	if got := out.String(); got != "At most 1 at a time.\n" {
		t.Errorf("%q is shown", got)
	}
	fmt.Fprint(p, "Go on? [y/N] ")
	if flush(p); !strings.HasSuffix(out.String(), "\nGo on? [y/N] ") {
		t.Errorf("%q is shown", out.String())
	}
}

// The maps of simulate have colour where map has it.
func TestMapsOfASimulationHaveColour(t *testing.T) {
	out, errs, code := simulate(t, nil, "", strings.Fields("-f testdata/simulate-one.yaml --map --color always "+
		"--machines testdata/simulate-pair.txt")...)
	if code != 0 || !strings.Contains(out, "\x1b[") || strings.Contains(out, "?[") {
		t.Errorf("exit code %d\n%q%s", code, out, errs)
	}
}

func TestFilesAndPipesAreNoTerminals(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if l := lookOf(file, "auto"); l != (look{}) {
		t.Errorf("a file has the look %+v", l)
	}
	if l := lookOf(file, "always"); !l.color {
		t.Error("--color always gives no colour")
	}
}

// Whatever lines commands write, a terminal gets all their letters. No line is wider than it unless a word is, or the
// line is not broken on purpose.
func TestAnyTextIsFitted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[A-Za-zé:/,-]{1,12}`)
		line := rapid.Custom(func(t *rapid.T) string {
			gap := rapid.SampledFrom([]string{" ", "  ", "   "}).Draw(t, "gap")
			text := strings.Join(rapid.SliceOfN(word, 0, 20).Draw(t, "words"), gap)
			if rapid.Bool().Draw(t, "heading") {
				text = "NODE   " + strings.ToUpper(text) + "   WHY"
			}
			return strings.TrimRight(strings.Repeat(" ", rapid.IntRange(0, 12).Draw(t, "indent"))+text, " ")
		})
		lines := rapid.SliceOfN(line, 1, 8).Draw(t, "lines")
		l := look{width: rapid.IntRange(leastWidth, textWidth).Draw(t, "width")}
		out := l.show(lines)
		if written(out) != written(strings.Join(lines, "\n")) {
			t.Fatalf("%q at %d columns is %q", lines, l.width, out)
		}
		for got := range strings.Lines(out) {
			got = strings.TrimRight(got, "\n")
			whole := !prose(got) || !strings.Contains(strings.TrimSpace(got), " ")
			if utf8.RuneCountInString(got) > l.width && !whole {
				t.Fatalf("%q at %d columns has the line %q", lines, l.width, got)
			}
		}
	})
}

// Text that comes in pieces, within words and runes too, is shown whole.
func TestPiecesOfTextAreShownWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`([a-zé·]{1,9}[ \n]{1,2}){0,40}`).Draw(t, "text")
		l := look{width: rapid.IntRange(leastWidth, textWidth).Draw(t, "width"), color: rapid.Bool().Draw(t, "color")}
		var out bytes.Buffer
		p := &printed{out: &out, look: l}
		for rest := []byte(text); len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			if _, err := p.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if flush(p); written(out.String()) != written(text) {
			t.Fatalf("%q is %q", text, out.String())
		}
	})
}

// A finding of any severity is wrapped, and the command of its remedy is a line of its own, which people can copy.
func TestFindingsFitNarrowTerminals(t *testing.T) {
	const command = "kubectl apply -k deploy/policy"
	for _, severity := range severities {
		for letters := range 30 { // so that lines end at each column
			var text strings.Builder
			b := bufio.NewWriter(&text)
			writeFinding(b, document.Finding{ID: "policy-missing", Severity: document.Severity(severity),
				Text: "no admission policy keeps the agents of nodes from writing the layouts of other nodes" +
					strings.Repeat("a", letters),
				Remedy:   "install the policy, or a node may write the layouts of other nodes" + strings.Repeat("a", letters),
				Commands: []string{command, command}}, false)
			if err := b.Flush(); err != nil {
				t.Fatal(err)
			}
			out := look{width: 80}.show(strings.Split(text.String(), "\n"))
			for l := range strings.Lines(out) {
				if n := utf8.RuneCountInString(strings.TrimRight(l, "\n")); n > 80 {
					t.Errorf("%d columns: %s", n, l)
				}
			}
			commands := strings.Repeat("          "+command+"\n", 2)
			if !strings.Contains(out, ".\n"+commands) || written(out) != written(text.String()) {
				t.Errorf("shown as\n%s", out)
			}
		}
	}
	// A sentence may go on with the word.
	lines := []string{strings.Repeat("x ", 46) + "and then", "  kubectl apply does the rest, if the file is there"}
	if out := (look{width: 80}).show(lines); strings.Contains(out, "\n  kubectl apply does the rest") {
		t.Errorf("shown as\n%s", out)
	}
}
