package report_test

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tenon-numa/tenon/lab/conformance"
	"github.com/tenon-numa/tenon/lab/conformance/judge"
	"github.com/tenon-numa/tenon/lab/conformance/report"
)

func result(name string, l conformance.Level, kinds ...judge.Kind) *conformance.Result {
	r := &conformance.Result{Case: &conformance.Case{Name: name, Level: l, Why: "because"}, Pods: 2,
		BindTimes: []time.Duration{5 * time.Millisecond}}
	for _, k := range kinds {
		r.Findings = append(r.Findings, judge.Finding{Kind: k, Pod: "app", Node: "a",
			Text: strings.Repeat("Resources cannot be allocated ", 5)})
	}
	return r
}

// A level is reached if all of its cases and all cases of lower levels passed. Misalignment does not count for a case
// of level live, nor a wait for one of level safe.
func TestLevelsIncludeTheLevelsBefore(t *testing.T) {
	for name, c := range map[string]struct {
		results []*conformance.Result
		want    conformance.Level
	}{
		"all": {[]*conformance.Result{result("s", conformance.Safe), result("l", conformance.Live),
			result("a", conformance.Aligned), result("e", conformance.Exact)}, conformance.Exact},
		"a refusal": {[]*conformance.Result{result("s", conformance.Safe, judge.AvoidableRefusal),
			result("l", conformance.Live)}, ""},
		"a wait in a case of level safe": {[]*conformance.Result{result("s", conformance.Safe, judge.AvoidableWait),
			result("l", conformance.Live)}, conformance.Live},
		"a wait": {[]*conformance.Result{result("s", conformance.Safe), result("l", conformance.Live, judge.AvoidableWait),
			result("a", conformance.Aligned)}, conformance.Safe},
		"misalignment in a case of level live": {[]*conformance.Result{
			result("l", conformance.Live, judge.AvoidableMisalignment)}, conformance.Live},
		"misalignment": {[]*conformance.Result{result("l", conformance.Live),
			result("a", conformance.Aligned, judge.AvoidableMisalignment)}, conformance.Live},
		"none": {nil, ""},
	} {
		if got := report.New(c.results).Reached; got != c.want {
			t.Errorf("%s: level %q, want %q", name, got, c.want)
		}
	}
}

// Cases of an area have a score of their own, and change no level.
func TestAreasCountForNoLevel(t *testing.T) {
	claims := result("c", conformance.Exact, judge.AvoidableMisalignment)
	claims.Case.Area = conformance.AreaClaims
	r := report.New([]*conformance.Result{result("s", conformance.Safe), result("e", conformance.Exact), claims})
	if r.Reached != conformance.Exact || len(r.Areas) != 1 || r.Areas[0].Passed != 0 || r.Areas[0].Cases != 1 {
		t.Errorf("report %+v, want the level exact, and one failed case of claims", r)
	}
	if !strings.HasSuffix(r.Badge(), "exact 1/1, claims 0/1)") {
		t.Errorf("line %q lacks the score of claims", r.Badge())
	}
}

// A report of a running cluster has the nodes and what was not judged, and counts no misalignment.
func TestReportsOfRunningClusters(t *testing.T) {
	r := report.New([]*conformance.Result{result("s", conformance.Safe)})
	r.Scheduler, r.Nodes, r.NotJudged = "mine", []string{"n1", "n2"}, []string{"misalignment"}
	var b strings.Builder
	if err := r.Table(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Not judged: misalignment", "0 avoidable waits\n", "mine, on n1 and n2: safe"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, b.String())
		}
	}
}

// A case that could not be judged is no success, and differs from a failure.
func TestUnjudgedCasesArePassedNowhere(t *testing.T) {
	bad := result("s", conformance.Safe)
	bad.Err = errors.New("the lab ended")
	r := report.New([]*conformance.Result{bad, result("l", conformance.Live, judge.AvoidableRefusal)})
	if r.Reached != "" || r.Errors() != 1 || r.Cases[0].Passed {
		t.Errorf("report %+v, want no level and one error", r)
	}
	var junit struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Errors   int `xml:"errors,attr"`
	}
	var b strings.Builder
	if err := r.JUnit(&b); err != nil {
		t.Fatal(err)
	}
	if err := xml.Unmarshal([]byte(b.String()), &junit); err != nil {
		t.Fatal(err)
	}
	if junit.Tests != 2 || junit.Failures != 1 || junit.Errors != 1 {
		t.Errorf("JUnit %+v, want 2 tests, a failure and an error", junit)
	}
}

// The table fits on 100 columns, and all forms have the finding.
func TestReportsHaveTheFindings(t *testing.T) {
	r := report.New([]*conformance.Result{result("s", conformance.Safe, judge.AvoidableRefusal),
		result("l", conformance.Live, judge.AvoidableMisalignment)})
	r.Scheduler, r.Settle = "mine", 5
	var table, text strings.Builder
	if err := r.Table(&table); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(table.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 100 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, want := range []string{"app refused: Resources", "safe      0 of  1", "1 avoidable refusals", "lasted 20s",
		"NUMA conformance of mine: no level (safe 0/1, live 1/1, aligned 0/0, exact 0/0)"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, table.String())
		}
	}
	if err := r.JSON(&text); err != nil {
		t.Fatal(err)
	}
	var back report.Report
	if err := json.Unmarshal([]byte(text.String()), &back); err != nil {
		t.Fatal(err)
	}
	if len(back.Cases) != 2 || len(back.Cases[0].Findings) != 1 || len(back.Cases[1].Others) != 1 {
		t.Errorf("cases %+v, want a finding that counts, and one that does not", back.Cases)
	}
}

// A page keeps the scores of other schedulers, and has one row for each.
func TestPagesKeepTheScoresOfOthers(t *testing.T) {
	page := "# Scores\n\n<!-- scores: written by tenon-conformance --page -->\n<!-- end of scores -->\n\nMore.\n"
	gang := result("g", conformance.Exact, judge.HalfGang)
	gang.Case.Area = conformance.AreaGangs
	for _, run := range []struct {
		scheduler, kubernetes string
		results               []*conformance.Result
	}{
		{"mine", "1.37", []*conformance.Result{result("s", conformance.Safe, judge.AvoidableRefusal)}},
		{"yours", "1.37", []*conformance.Result{result("s", conformance.Safe)}},
		{"mine", "1.36", []*conformance.Result{result("s", conformance.Safe)}},
		{"mine", "1.37", []*conformance.Result{result("s", conformance.Safe),
			result("l", conformance.Live, judge.AvoidableWait), gang}},
	} {
		r := report.New(run.results)
		r.Scheduler, r.Date, r.Kubernetes = run.scheduler, "2026-11-30", run.kubernetes
		var err error
		if page, err = r.WritePage(page); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{
		"\n| mine | 1.36 | 2026-11-30 | safe | 1/1 | 0/0 | 0/0 | 0/0 | – | – | 0 | 0 | 0 | 0 | 0 |\n" +
			"| mine | 1.37 | 2026-11-30 | safe | 1/1 | 0/1 | 0/0 | 0/0 | – | 0/1 | 0 | 0 | 1 | 1 | 0 |\n" +
			"| yours | 1.37 | 2026-11-30 | safe | 1/1 | 0/0 |",
		"\n- mine, 1.36: none\n- mine, 1.37: live (l); gangs (g)\n- yours, 1.37: none\n<!-- end of scores -->\n\nMore.\n",
		"# Scores\n\n<!-- scores",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	if strings.Count(page, "| scheduler |") != 1 {
		t.Errorf("the page has the head of the table more than once:\n%s", page)
	}
	part := report.New(nil)
	part.Part = true
	if _, err := part.WritePage(page); err == nil || !strings.Contains(part.Badge(), "in a part of the cases") {
		t.Errorf("a part of the cases is written as scores (error %v), or its line is %q", err, part.Badge())
	}
	if _, err := report.New(nil).WritePage("no lines"); err == nil {
		t.Error("a page without the lines is no error")
	}
}
