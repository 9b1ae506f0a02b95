package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// The plan for the usual workload is carried out if places are kept on the nodes that it names.
func TestRoomForTheUsualWorkloadIsCarriedOut(t *testing.T) {
	for name, c := range map[string]struct {
		booked string // the node where the scheduler keeps the place
		args   []string
		want   string
		code   int
	}{
		"nothing is kept yet":   {"", nil, "All pods run.", ExitYes},
		"kept as planned":       {"gpu-b", nil, "All pods run.", ExitYes},
		"kept on another node":  {"gpu-a", nil, "and by now node gpu-b is better", ExitError},
		"nothing is to be kept": {"", []string{"--keep=false"}, "would move pods for nothing", ExitError},
	} {
		w := &recorded{}
		s := Setup{Stages: stages([]byte(scattered(t, nil))),
			Move: func(Kubeconfig, MoveOptions) (Mover, error) { return w, nil }}
		with := *s.Stages.Moving
		with.Booked = func(_ Stage, uids []string) map[string]string {
			if c.booked == "" {
				return nil
			}
			return map[string]string{uids[0]: c.booked}
		}
		s.Stages.Moving = &with
		plan, errs, code := runWith(t, s, "", "defrag", "--usual", "--most", "1", "-o", "json")
		if code != 0 {
			t.Fatal(errs)
		}
		file := filepath.Join(t.TempDir(), "plan.json")
		if err := os.WriteFile(file, []byte(plan), 0o600); err != nil {
			t.Fatal(err)
		}
		out, errs, code := runWith(t, s, "", append([]string{"defrag", "apply", file, "--yes"}, c.args...)...)
		if code != c.code || !strings.Contains(out+errs, c.want) {
			t.Errorf("%s: exit code %d, want %d and %q\n%s%s", name, code, c.code, c.want, out, errs)
		}
		if len(c.args) == 0 && (!w.plan.Pinned || len(w.plan.Moves) != 1 || len(w.plan.Goals) > 0) {
			t.Errorf("%s: carried out is %+v", name, w.plan)
		}
	}
}

// On a cordoned node no room is made for the usual workload, and other goals are refused beside it.
func TestWhatCountsForTheUsualWorkload(t *testing.T) {
	var list map[string]any
	if err := json.Unmarshal([]byte(scattered(t, nil)), &list); err != nil {
		t.Fatal(err)
	}
	for _, x := range list["items"].([]any) {
		if m := x.(map[string]any); m["kind"] == "Node" && m["metadata"].(map[string]any)["name"] == "gpu-a" {
			m["spec"] = map[string]any{"unschedulable": true}
		}
	}
	text, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	out, errs, code := runDefrag(t, string(text), "--usual", "-o", "json")
	var d defragDocument
	if err := json.Unmarshal([]byte(out), &d); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v: %s", code, err, errs)
	}
	shapes := map[string][2]int{}
	for _, x := range d.Usual {
		shapes[x.Shape] = [2]int{x.Before, x.After}
	}
	if len(d.Moves) > 0 || shapes["cpu=8,memory=10Gi,nvidia.com/gpu=1"] != [2]int{2, 2} {
		t.Errorf("with gpu-a cordoned, %d moves; fitting pods %v", len(d.Moves), shapes)
	}
	if _, errs, code := runDefrag(t, scattered(t, func(p *v1.Pod) { p.Spec.Containers[0].Resources.Limits = nil }),
		"--usual"); code != 0 {
		t.Errorf("without usual shapes: exit code %d, %s", code, errs)
	}
	for _, flag := range []string{"--for=ml/wide", "--pending", "--empty=gpu-a", "--any", "--like=ml/train-0"} {
		if _, errs, code := runDefrag(t, string(text), "--usual", flag); code != ExitError ||
			!strings.Contains(errs, "no other goal") {
			t.Errorf("--usual %s: exit code %d, %s", flag, code, errs)
		}
	}
}
