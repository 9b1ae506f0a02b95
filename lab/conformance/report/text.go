package report

import (
	"cmp"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/printable"
	"github.com/tenon-numa/tenon/lab/conformance/judge"
)

// columns is the width of the table.
const columns = 100

// Table writes the results as a table of at most 100 columns. Failed cases are followed by their findings.
func (r *Report) Table(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%-32s %-8s %5s  %s\n", "CASE", "LEVEL", "PODS", "RESULT")
	for _, c := range r.Cases {
		result := "pass"
		switch {
		case c.Error != "":
			result = "not judged"
		case !c.Passed:
			result = "FAIL"
		}
		fmt.Fprintf(&b, "%-32s %-8s %5d  %s\n", c.Name, cmp.Or(c.Area, string(c.Level)), c.Pods, result)
		if c.Error != "" {
			wrap(&b, c.Error)
		}
		for _, f := range c.Findings {
			wrap(&b, fmt.Sprintf("%s %s: %s", f.Pod, f.Kind, f.Text))
		}
	}
	fmt.Fprintln(&b)
	for _, s := range slices.Concat(r.Levels, r.Areas) {
		fmt.Fprintf(&b, "%-8s %2d of %2d cases passed", cmp.Or(s.Area, string(s.Level)), s.Passed, s.Cases)
		if s.Errors > 0 {
			fmt.Fprintf(&b, ", %d not judged", s.Errors)
		}
		fmt.Fprintln(&b)
	}
	fmt.Fprintf(&b, "\n%d avoidable refusals, %d pointless evictions, %d half gangs,\n%d avoidable waits",
		r.Findings[judge.AvoidableRefusal], r.Findings[judge.PointlessEviction], r.Findings[judge.HalfGang],
		r.Findings[judge.AvoidableWait])
	if len(r.Nodes) == 0 { // a running cluster does not show it
		fmt.Fprintf(&b, ", %d avoidable misalignments", r.Findings[judge.AvoidableMisalignment])
	}
	fmt.Fprintln(&b)
	fmt.Fprintf(&b, "Settled: nothing changed for %gs, and for %gs while a pod waited; an avoidable wait lasted %gs.\n",
		r.Pause, r.Settle, 4*r.Settle)
	if r.Bind.Plain > 0 {
		fmt.Fprintf(&b, "Time to bind a pod without requests: %.0f ms, plain kube-scheduler %.0f ms (%.1fx).\n", r.Bind.Alone,
			r.Bind.Plain, r.Bind.Alone/r.Bind.Plain)
	}
	for _, text := range r.NotJudged {
		wrap(&b, "Not judged: "+text)
	}
	fmt.Fprintln(&b, r.Badge())
	_, err := io.WriteString(w, b.String())
	return err
}

// wrap writes a text in lines that begin with two spaces.
func wrap(b *strings.Builder, text string) {
	line := " "
	for _, word := range strings.Fields(printable.Text(text)) {
		if len(line)+1+len(word) > columns && line != " " {
			fmt.Fprintln(b, line)
			line = " "
		}
		line += " " + word
	}
	fmt.Fprintln(b, line)
}

// Badge returns the level and the scores in one line.
func (r *Report) Badge() string {
	level := string(r.Reached)
	if level == "" {
		level = "no level"
	}
	var scores []string
	for _, s := range r.Levels {
		scores = append(scores, fmt.Sprintf("%s %d/%d", s.Level, s.Passed, s.Cases))
	}
	for _, s := range r.Areas {
		scores = append(scores, fmt.Sprintf("%s %d/%d", s.Area, s.Passed, s.Cases))
	}
	part := ""
	if r.Part {
		part = ", in a part of the cases"
	}
	if len(r.Nodes) > 0 {
		part += ", on " + strings.Join(r.Nodes, " and ")
	}
	return fmt.Sprintf("NUMA conformance of %s%s: %s (%s)", r.Scheduler, part, level, strings.Join(scores, ", "))
}

// JSON writes the report as JSON.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

type (
	suite struct {
		XMLName  xml.Name   `xml:"testsuite"`
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Errors   int        `xml:"errors,attr"`
		Cases    []testCase `xml:"testcase"`
	}
	testCase struct {
		Name    string   `xml:"name,attr"`
		Class   string   `xml:"classname,attr"`
		Failure *problem `xml:"failure,omitempty"`
		Error   *problem `xml:"error,omitempty"`
	}
	problem struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// JUnit writes the report as JUnit XML: a test case for each case, in the class of its level.
func (r *Report) JUnit(w io.Writer) error {
	out := suite{Name: "NUMA conformance of " + r.Scheduler, Tests: len(r.Cases), Errors: r.Errors()}
	for _, c := range r.Cases {
		t := testCase{Name: c.Name, Class: cmp.Or(c.Area, string(c.Level))}
		var lines []string
		for _, f := range c.Findings {
			lines = append(lines, fmt.Sprintf("%s %s: %s", f.Pod, f.Kind, f.Text))
		}
		switch {
		case c.Error != "":
			t.Error = &problem{Message: "not judged", Text: c.Error}
		case !c.Passed:
			t.Failure = &problem{Message: c.Why, Text: strings.Join(lines, "\n")}
			out.Failures++
		}
		out.Cases = append(out.Cases, t)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(out); err != nil {
		return fmt.Errorf("write JUnit report: %w", err)
	}
	_, err := io.WriteString(w, "\n")
	return err
}
