package chart_test

import (
	"fmt"
	"strings"
	"testing"
)

// The job that moves pods is off by default. Its bounds are values of the chart, and its rights are the roles for
// people.
func TestTheJobThatMovesPods(t *testing.T) {
	for name := range objects(t, nil) {
		if strings.Contains(name, "tenon-room") {
			t.Errorf("%s is there by default", name)
		}
	}
	all := objects(t, map[string]any{"room": map[string]any{"enabled": true, "most": 3, "maxPriority": -5,
		"namespaces": []any{"ml", "batch"}}})
	for _, want := range []string{"ServiceAccount tenon-room", "ClusterRoleBinding tenon-room-operator",
		"ClusterRoleBinding tenon-room-pod-mover", "CronJob tenon-room"} {
		if all[want] == nil {
			t.Fatalf("there is no %s", want)
		}
	}
	text := fmt.Sprint(all["CronJob tenon-room"].Object)
	for _, want := range []string{"args:[defrag --pending --any --apply --yes --most=3 --min-age=1h --max-priority=-5 " +
		"--from-namespace=ml --from-namespace=batch]", "concurrencyPolicy:Forbid", "schedule:17 3 * * *", "backoffLimit:0",
		"readOnlyRootFilesystem:true"} {
		if !strings.Contains(text, want) {
			t.Errorf("the CronJob lacks %s: %s", want, text)
		}
	}
	usual := fmt.Sprint(objects(t, map[string]any{"room": map[string]any{"enabled": true,
		"goal": "usual"}})["CronJob tenon-room"].Object)
	if want := "args:[defrag --usual --apply --yes --most=5 --min-age=1h --max-priority=0]"; !strings.Contains(usual, want) {
		t.Errorf("the CronJob for the usual workload lacks %s: %s", want, usual)
	}
	for name, room := range map[string]map[string]any{"too many": {"most": 101}, "none": {"most": 0},
		"no age": {"minAge": "soon"}, "no schedule": {"schedule": ""}, "no goal": {"goal": "all"}, "no namespace": {"namespaces": []any{"-A"}}} {
		room["enabled"] = true
		if _, err := render(t, map[string]any{"room": room}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := render(t, map[string]any{"room": map[string]any{"enabled": true},
		"people": map[string]any{"roles": false}}); err == nil {
		t.Error("the job is made without its roles")
	}
}
