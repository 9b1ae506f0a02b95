// Package report writes the results of conformance cases: as a table, as JSON, as JUnit XML and as one line.
//
// Invariant: a case that could not be judged never counts as passed, and its level is not reached. The package does
// not judge: it counts what package judge found.
package report

import (
	"cmp"
	"slices"
	"time"

	"github.com/tenon-numa/tenon/lab/conformance"
	"github.com/tenon-numa/tenon/lab/conformance/judge"
)

// Report is the result of a run.
type Report struct {
	Scheduler string `json:"scheduler"`
	// Kubernetes is the release of the control plane and the kubelets.
	Kubernetes string `json:"kubernetes"`
	// Date is the day of the run, such as "2026-11-30".
	Date string `json:"date"`
	// Settle is how long nothing changed before a pod counted as waiting, in seconds. An avoidable wait lasted four times
	// as long.
	Settle float64 `json:"settleSeconds"`
	// Pause is how long nothing changed between two actions if no pod waited, in seconds.
	Pause float64 `json:"pauseSeconds"`
	// Reached is the highest level whose cases all passed, together with the cases of all lower levels; "" if none.
	Reached conformance.Level `json:"reached"`
	// Part is true if not all cases were played. Then Reached is about the played ones alone.
	Part bool `json:"part,omitempty"`
	// Nodes are the nodes of a running cluster on which the cases were played; none for a lab.
	Nodes []string `json:"nodes,omitempty"`
	// NotJudged are sentences about what the run did not judge.
	NotJudged []string `json:"notJudged,omitempty"`
	// Levels are the scores of the levels, and Areas the scores of cases that count for no level.
	Levels []Score `json:"levels"`
	Areas  []Score `json:"areas,omitempty"`
	// Findings counts the findings of each kind in all cases.
	Findings map[judge.Kind]int `json:"findings"`
	Cases    []Case             `json:"cases"`
	// Bind is how long pods took from their creation to their binding.
	Bind Bind `json:"bind"`
}

// Score is the score of one level or of one area.
type Score struct {
	Level  conformance.Level `json:"level,omitempty"`
	Area   string            `json:"area,omitempty"`
	Passed int               `json:"passed"`
	Cases  int               `json:"cases"`
	Errors int               `json:"errors"` // cases that could not be judged
}

// Case is the result of one case.
type Case struct {
	Name   string            `json:"name"`
	Level  conformance.Level `json:"level"`
	Area   string            `json:"area,omitempty"`
	Why    string            `json:"why"`
	Source string            `json:"source"`
	Passed bool              `json:"passed"`
	Pods   int               `json:"pods"`
	// Findings count against the scheduler on the level of the case, and Others do not.
	Findings []judge.Finding `json:"findings"`
	Others   []judge.Finding `json:"others,omitempty"`
	// Error is why the case could not be judged.
	Error string `json:"error,omitempty"`
}

// Bind has medians, in milliseconds. They are information, and count for no level.
type Bind struct {
	Cases float64 `json:"casesMilliseconds"` // of the pods of the cases
	// Alone and Plain are of the same pods without requests, under the scheduler and under kube-scheduler with its
	// defaults. They are zero if they were not measured.
	Alone float64 `json:"aloneMilliseconds,omitempty"`
	Plain float64 `json:"plainMilliseconds,omitempty"`
}

// New makes a report of results. The caller sets Scheduler, Kubernetes, Date, Settle, Pause and Part.
func New(results []*conformance.Result) *Report {
	out := &Report{Findings: map[judge.Kind]int{}}
	scores := map[conformance.Level]*Score{}
	for _, l := range conformance.Levels() {
		scores[l] = &Score{Level: l}
	}
	var times []time.Duration
	for _, r := range results {
		c := Case{Name: r.Case.Name, Level: r.Case.Level, Area: r.Case.Area, Why: r.Case.Why, Source: r.Case.Source,
			Passed: r.Passed(), Pods: r.Pods, Findings: []judge.Finding{}}
		s := scores[r.Case.Level]
		if r.Case.Area != "" {
			s = out.area(r.Case.Area)
		}
		s.Cases++
		switch {
		case r.Err != nil:
			c.Error = r.Err.Error()
			s.Errors++
		case c.Passed:
			s.Passed++
		}
		counted := r.Counts()
		for _, f := range r.Findings {
			out.Findings[f.Kind]++
			if slices.Contains(counted, f) {
				c.Findings = append(c.Findings, f)
			} else {
				c.Others = append(c.Others, f)
			}
		}
		out.Cases = append(out.Cases, c)
		times = append(times, r.BindTimes...)
	}
	out.Bind.Cases = Median(times)
	open := true
	for _, l := range conformance.Levels() {
		s := *scores[l]
		out.Levels = append(out.Levels, s)
		if open = open && s.Passed == s.Cases; open && s.Cases > 0 {
			out.Reached = l
		}
	}
	return out
}

// area returns the score of an area, which is added if it is missing.
func (r *Report) area(name string) *Score {
	i := slices.IndexFunc(r.Areas, func(s Score) bool { return s.Area == name })
	if i < 0 {
		i, r.Areas = len(r.Areas), append(r.Areas, Score{Area: name})
	}
	return &r.Areas[i]
}

// Median returns the median in milliseconds, or 0 of no times.
func Median(times []time.Duration) float64 {
	if len(times) == 0 {
		return 0
	}
	times = slices.SortedFunc(slices.Values(times), func(a, b time.Duration) int { return cmp.Compare(a, b) })
	return float64(times[len(times)/2].Microseconds()) / 1000
}

// Reaches reports whether a level was reached: all cases of it and of the levels before it passed.
func (r *Report) Reaches(l conformance.Level) bool {
	all := conformance.Levels()
	return r.Reached != "" && slices.Index(all, r.Reached) >= slices.Index(all, l)
}

// Errors returns the number of cases that could not be judged.
func (r *Report) Errors() (n int) {
	for _, s := range slices.Concat(r.Levels, r.Areas) {
		n += s.Errors
	}
	return n
}
