package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/api/document"
)

// diagnosed runs doctor on a cluster with these findings.
func diagnosed(t *testing.T, findings []document.Finding, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	limits := []document.Limit{{Resource: "leases", Reason: "you may not read them"}}
	return diagnosedWithin(t, limits, findings, args...)
}

func diagnosedWithin(t *testing.T, limits []document.Limit, findings []document.Finding, args ...string) (stdout,
	stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Run(t.Context(), append([]string{"doctor"}, args...), &out, &errs, Setup{
		Doctor: func(_ context.Context, _ Kubeconfig, o DoctorOptions) (document.Diagnosis, error) {
			if o.Node == "gone" {
				return document.Diagnosis{}, errors.New("no connection")
			}
			return document.Diagnosis{Kind: "Diagnosis", Findings: findings, Nodes: 2, Pods: 1,
				Limits: limits}, nil
		}})
	return out.String(), errs.String(), code
}

func TestDoctorSaysWhatMendsIt(t *testing.T) {
	all := []document.Finding{
		{ID: "agent-missing", Severity: document.Broken, Text: "no agent reports of the node", Remedy: "see why",
			Commands: []string{"kubectl get pods"}, Page: document.Docs + "reference/findings.md#agent-missing",
			Objects: []document.FindingObject{{Kind: "Node", Name: "a"}, {Kind: "Node", Name: "b"}, {Kind: "Node", Name: "c"},
				{Kind: "Node", Name: "d"}}},
		{ID: "misaligned", Severity: document.Warned, Text: "it holds more than it needs", Remedy: "create it again",
			Objects: []document.FindingObject{{Kind: "ReplicaSet", Namespace: "ml", Name: "t",
				Pods:     []string{"ml/t-1", "ml/t-2"},
				Evidence: []string{"one", "two", "three"}}}},
		{ID: "release-order", Severity: document.Noted, Text: "wait", Remedy: "none"},
	}
	out, _, code := diagnosed(t, all)
	for _, want := range []string{"error   agent-missing: no agent reports of the node.", "Node a\n", "and 1 more",
		"Remedy: see why.\n          kubectl get pods\n",
		"warning misaligned", "ReplicaSet ml/t (2 pods): one",
		"2 nodes and 1 pod examined: 1 error, 1 warning, 1 info.\nEach is explained by its name:\nhttps://github.com/",
		"Not examined: leases"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	if code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	for _, line := range strings.Split(out, "\n") {
		if len(line) > 100 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
}

func TestDoctorTellsPipelinesByItsExitCode(t *testing.T) {
	of := func(s document.Severity) []document.Finding { return []document.Finding{{ID: "x", Severity: s}} }
	for _, c := range []struct {
		findings []document.Finding
		args     []string
		code     int
	}{
		{nil, nil, 0},
		{of(document.Noted), nil, 0},
		{of(document.Warned), nil, 1},
		{of(document.Warned), []string{"--severity", "error"}, 0},
		{of(document.Broken), []string{"--severity=error", "-o", "json"}, 1},
		{nil, []string{"--node", "gone"}, 2},
		{nil, []string{"--severity", "bad"}, 2},
		{nil, []string{"--pod", "A/b"}, 2},
		{nil, []string{"--flag"}, 2},
	} {
		out, errs, code := diagnosedWithin(t, nil, c.findings, c.args...)
		if code != c.code || (code == 2) != (errs != "") {
			t.Errorf("doctor %v of %v: exit code %d, want %d; stderr %q", c.args, c.findings, code, c.code, errs)
		}
		var d document.Diagnosis
		if len(c.args) == 3 && json.Unmarshal([]byte(out), &d) != nil {
			t.Errorf("doctor %v writes no JSON: %s", c.args, out)
		}
	}
}

// An incomplete diagnosis without findings is not reported as "nothing is wrong".
func TestDoctorSaysThatItDidNotExamineAll(t *testing.T) {
	whole, errs, code := diagnosedWithin(t, nil, nil)
	if code != 0 || errs != "" || !strings.Contains(whole, "examined; nothing is wrong.") {
		t.Errorf("of a whole answer: exit code %d, %s%s", code, whole, errs)
	}
	warned := []document.Finding{{ID: "x", Severity: document.Warned}}
	for _, c := range []struct {
		findings []document.Finding
		args     []string
	}{{nil, nil}, {warned, []string{"--severity", "error"}}, {nil, []string{"-o", "json"}}} {
		out, errs, code := diagnosed(t, c.findings, c.args...)
		if code != 3 || errs != "" || strings.Contains(out, "nothing is wrong") || !strings.Contains(out, "leases") {
			t.Errorf("doctor %v: exit code %d, %s%s", c.args, code, out, errs)
		}
	}
}

// "Nothing is wrong" is not written about what the flags leave out.
func TestDoctorSaysWhereNothingIsWrong(t *testing.T) {
	warned := []document.Finding{{ID: "x", Severity: document.Warned}}
	for _, c := range []struct {
		findings []document.Finding
		args     string
		want     string
	}{
		{warned, "--severity error", "; nothing is as bad as error."},
		{nil, "--severity warning", "; nothing is as bad as warning."},
		{nil, "--node a", "; nothing is wrong with node a."},
		{nil, "--pod ml/b", "; nothing is wrong with pod ml/b."},
		{warned, "--node a --severity error", "; nothing is as bad as error with node a."},
		{nil, "--severity info", "; nothing is wrong."},
	} {
		out, errs, code := diagnosedWithin(t, nil, c.findings, strings.Fields(c.args)...)
		if code != ExitYes || !strings.Contains(out, c.want) {
			t.Errorf("doctor %s: exit code %d, %s%s; want %q", c.args, code, out, errs, c.want)
		}
	}
}
