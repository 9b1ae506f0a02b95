package cli

import (
	"encoding/json"
	"strings"
	"testing"
)

// simulate computes without a flag how many nodes of a machine the pods take, and finds the least number on request.
func TestSimulateSaysHowManyNodesItTakes(t *testing.T) {
	line := "-f testdata/simulate-one.yaml --count 7 --kubelet-config testdata/simulate-kubelet.yaml --machines " +
		"testdata/simulate-pair.txt"
	for copies, want := range map[string]int{"": ExitNo, "=min": 0, "=3": ExitNo} {
		out, errs, code := simulate(t, nil, "", strings.Fields(line+copies)...)
		if code != want || !strings.Contains(out, "\nIt takes 4 nodes of machine simulate-pair.\n") {
			t.Errorf("%q: exit code %d, want %d:\n%s%s", copies, code, want, out, errs)
		}
	}
	out, _, code := simulate(t, nil, "", strings.Fields(line+"=min -o json")...)
	var doc struct {
		Fits  bool
		Needs *need
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil || code != 0 || !doc.Fits || doc.Needs == nil ||
		*doc.Needs != (need{"simulate-pair", 4, true}) {
		t.Errorf("exit code %d, %v: %+v", code, err, doc)
	}
	names := "node/simulate-pair-1\nnode/simulate-pair-2\nnode/simulate-pair-3\nnode/simulate-pair-4\n"
	if out, _, _ := simulate(t, nil, "", strings.Fields(line+"=min -o name")...); out != names {
		t.Errorf("-o name: %q", out)
	}
	never := "-f testdata/simulate-train.yaml --kubelet-config testdata/simulate-kubelet.yaml --machines " +
		"testdata/simulate-pair.txt=min"
	if out, _, code := simulate(t, nil, "", strings.Fields(never)...); code != ExitNo ||
		!strings.Contains(out, "More nodes of machine simulate-pair give no more of them a place.") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}

func TestVariationsAreChecked(t *testing.T) {
	for line, want := range map[string]string{
		"--pending --policy strict":                        `--policy "strict" is not known`,
		"--pending --option full":                          `--option "full" is not known: want one of align-by-socket`,
		"--pending --option scope=node":                    "want scope=container or scope=pod",
		"--pending --option full-pcpus-only=maybe":         "want full-pcpus-only, full-pcpus-only=true",
		"--pending -l a=b":                                 "--selector needs --policy or --option",
		"--pending --add node/none":                        `node "none" is not there`,
		"--pending --add node/a=0":                         "want FILE, FILE=COPIES",
		"-f x --machines a --add b":                        "--machines are in place of a cluster",
		"--pending --add node/n=min --add node/m=min":      "=min is for one machine",
		"--pending --topology-manager-policy best-effort":  "the kubelet's configuration is of --machines or --add",
		"--pending --policy restricted --selector pool=no": `no node matches the selector "pool=no"`,
	} {
		_, errs, code := simulate(t, gpuCluster(t), "", strings.Fields(line)...)
		if code != ExitError || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d, %q, want %q", line, code, errs, want)
		}
	}
}

// Pods without a place take the nodes that join the cluster. Pods on nodes with another policy are placed anew.
func TestSimulateVariesACluster(t *testing.T) {
	for line, want := range map[string]struct {
		code int
		says []string
	}{
		"--pod ml/wide-1 --count 9 --add node/gpu-a=min": {0, []string{"(the cluster), scored by Tenon:\n",
			"of them have joined.\n", "of machine gpu-a.\n"}},
		"-f testdata/simulate-one.yaml --add " + lab + "gpu-8.txt --kubelet-config " + lab + "gpu-8.yaml": {ExitNo,
			[]string{"On 5 nodes (the cluster)", "1 of them has joined."}},
		"--policy best-effort --option scope=pod": {0, []string{
			"With another configuration of 3 nodes, which has to be drained for it: 4 pods to be placed anew.\n"}},
	} {
		out, errs, code := simulate(t, gpuCluster(t), "", strings.Fields(line)...)
		checkWidth(t, out)
		for _, x := range want.says {
			if code != want.code || !strings.Contains(out, x) {
				t.Errorf("%s: exit code %d, want %d and %q:\n%s%s", line, code, want.code, x, out, errs)
			}
		}
	}
}
