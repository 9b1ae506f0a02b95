package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/internal/golden"
)

// compareFile is a trace that a reader can follow by hand.
const compareFile = "compare --trace testdata/compare.trace"

func TestCompareWritesATable(t *testing.T) {
	out, errs, code := run(t, nil, strings.Fields(compareFile)...)
	if code != 0 || !strings.Contains(errs, "run 1 of 1") {
		t.Fatalf("exit code %d, stderr %q", code, errs)
	}
	checkWidth(t, out)
	golden.Check(t, "testdata/compare.txt", out)
}

func TestCompareWritesJSON(t *testing.T) {
	out, _, code := run(t, nil, strings.Fields(compareFile+" -o json --runs 2")...)
	var doc struct {
		Kind        string
		Comparisons []struct {
			Machines, Runs int
			Scarce         string
			Columns        []struct {
				Contender   string
				Stay, Churn struct{ Pods, Placed, Refused int }
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v of\n%s", code, err, out)
	}
	c := doc.Comparisons[0]
	if doc.Kind != "Comparisons" || c.Machines != 1 || c.Runs != 2 || c.Scarce != "acme.com/gpu" || len(c.Columns) != 8 {
		t.Errorf("%+v", doc)
	}
	for _, k := range c.Columns {
		if k.Churn.Pods != 8 || k.Churn.Placed != 8 {
			t.Errorf("%s placed %d of %d pods of two runs, want all of 8", k.Contender, k.Churn.Placed, k.Churn.Pods)
		}
	}
	if k := c.Columns[0]; k.Contender != "Tenon" || k.Stay.Refused+k.Churn.Refused != 0 {
		t.Errorf("%+v", k)
	}
}

func TestCompareDraws(t *testing.T) {
	out, _, code := run(t, nil, strings.Fields(compareFile+" -o svg")...)
	if code != 0 || !strings.HasPrefix(out, "<svg ") || !strings.Contains(out, "Tenon") {
		t.Errorf("exit code %d, %s", code, out)
	}
}

// writePage keeps the text outside of the markers.
func TestCompareWritesAPage(t *testing.T) {
	trace, err := filepath.Abs("testdata/compare.trace")
	if err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(t.TempDir(), "page.md")
	begin, end := "<!-- begin "+trace+" -->", "<!-- end "+trace+" -->"
	if err := os.WriteFile(page, []byte("before\n"+begin+"\nold\n"+end+"\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"compare", "--trace", trace, "--page", page}
	if _, errs, code := run(t, nil, args...); code != 0 {
		t.Fatal(errs)
	}
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	got := string(data)
	if !strings.HasPrefix(got, "before\n"+begin+"\n```text\n") || !strings.HasSuffix(got, "```\n"+end+"\nafter\n") ||
		strings.Contains(got, "old") || !strings.Contains(got, "mean wait") {
		t.Errorf("the page is\n%s", got)
	}
	if _, err := os.Stat(strings.TrimSuffix(page, ".md") + ".svg"); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(page, []byte("no markers\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := run(t, nil, args...); code != ExitError || !strings.Contains(errs, "no lines") {
		t.Errorf("without markers: exit code %d, %q", code, errs)
	}
}

// The table of the README is what the command beside it prints today, and every row has a sentence on which
// numbers are good.
func TestTheREADMEHasTodaysNumbers(t *testing.T) {
	want, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(t.TempDir(), "README.md")
	if err := os.WriteFile(page, want, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := run(t, nil, "compare", "--trace", "gpu", "--summary", page); code != 0 {
		t.Fatal(errs)
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Error("the table is not current: go run ./cmd/kubectl-tenon compare --trace gpu --summary README.md")
	}
	_, table, _ := strings.Cut(string(got), "<!-- begin gpu summary -->")
	table, _, _ = strings.Cut(table, "<!-- end gpu summary -->")
	rows := 0
	for line := range strings.Lines(table) {
		if label, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | "); ok && strings.Contains(label, "<br>*") {
			rows++
			if !strings.Contains(label, "is better") && !strings.Contains(label, "no ranking") {
				t.Errorf("the row %q does not say which numbers are good", label)
			}
		}
	}
	if rows != 8 {
		t.Errorf("%d rows, want 8", rows)
	}
}

func TestCompareNamesWhatIsWrong(t *testing.T) {
	pages := regexp.MustCompile("--(page|summary)") // a wrong one is noticed before the simulation
	for line, want := range map[string]string{
		"compare --trace nowhere":                              `error: trace "nowhere" is none of alibaba, demo, gpu, telco, and no file`,
		"compare --trace testdata/version.txt":                 `error: read trace: testdata/version.txt:1: unknown word "kubectl-tenon"`,
		"compare -o xml":                                       `error: output format "xml" is not known: want one of table, json, yaml, svg`,
		"compare --nodes -1":                                   "error: --nodes -1 is outside 0..20000",
		"compare --runs 0":                                     "error: --runs 0 is outside 1..100",
		"compare --cases 10001":                                "error: --cases 10001 is outside 0..10000",
		"compare --trace alibaba --nodes 3":                    "3 machines: want 15, one of each kind, to 20000",
		"compare --trace testdata/compare.trace --page absent": "error: read page: open absent",
		"compare --summary a --page b":                         "error: --page and --summary cannot both be given",
		"compare --trace testdata/compare.trace --summary compare.go": "error: page compare.go: no lines " +
			`"<!-- begin testdata/compare.trace summary -->" and "<!-- end`,
	} {
		out, errs, code := run(t, nil, strings.Fields(line)...)
		simulated := strings.Contains(errs, ": run 1 of")
		if code != ExitError || out != "" || !strings.Contains(errs, want) || simulated && pages.MatchString(line) {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q; want %q", line, code, out, errs, want)
		}
	}
}
