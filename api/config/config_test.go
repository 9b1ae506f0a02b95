package config

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func raw(text string) *runtime.Unknown { return &runtime.Unknown{Raw: []byte(text)} }

func TestDecode(t *testing.T) {
	for text, want := range map[string]Args{
		`{}`: {UnknownNodes: Allow, CoarseNodes: Allow, TurnTimeoutSeconds: 30},
		`{"unknownNodes":"Refuse","turnTimeoutSeconds":5}`: {UnknownNodes: Refuse, CoarseNodes: Allow,
			TurnTimeoutSeconds: 5},
		"unknownNodes: AllowWithoutDemand\ncoarseNodes: Refuse\n": {UnknownNodes: AllowWithoutDemand, CoarseNodes: Refuse,
			TurnTimeoutSeconds: 30},
		`{"apiVersion":"tenon.sh/v1alpha1","kind":"TenonArgs"}`: {APIVersion: "tenon.sh/v1alpha1", Kind: "TenonArgs",
			UnknownNodes: Allow, CoarseNodes: Allow, TurnTimeoutSeconds: 30},
		`{"unknownNodes":"","coarseNodes":"Allow","apiVersion":""}`: {UnknownNodes: Allow, CoarseNodes: Allow,
			TurnTimeoutSeconds: 30},
		`{"layoutSelector":"tenon.sh/shard in (a, b)"}`: {UnknownNodes: Allow, CoarseNodes: Allow, TurnTimeoutSeconds: 30,
			LayoutSelector: "tenon.sh/shard in (a, b)"},
		`{"inexactNodes":"Refuse","keepRestartable":true,"podLogs":"Deny"}`: {UnknownNodes: Allow, CoarseNodes: Allow,
			TurnTimeoutSeconds: 30,
			InexactNodes:       Refuse, KeepRestartable: true, PodLogs: Deny},
		`{"fittingShapes":["cpu=4,memory=8Gi,a.com/gpu=1"]}`: {UnknownNodes: Allow, CoarseNodes: Allow,
			TurnTimeoutSeconds: 30, FittingShapes: []string{"cpu=4,memory=8Gi,a.com/gpu=1"}},
		`{"silentNodes":"Refuse"}`: {UnknownNodes: Allow, CoarseNodes: Allow, SilentNodes: Refuse, TurnTimeoutSeconds: 30},
		"scoringStrategy:\n  type: MostAllocated\n  resources: [{name: cpu, weight: 3}, {name: memory, weight: 0}]\n": {
			UnknownNodes: Allow,
			CoarseNodes:  Allow, TurnTimeoutSeconds: 30, Strategy: Strategy{"MostAllocated",
				[]Weight{{"cpu", 3}, {"memory", 1}}}},
		`{"scoringStrategy":{"type":"Tenon"}}`: {UnknownNodes: Allow, CoarseNodes: Allow, TurnTimeoutSeconds: 30},
	} {
		for _, field := range []*string{&want.SilentNodes, &want.InexactNodes, &want.PodLogs} {
			*field = cmp.Or(*field, Allow)
		}
		want.Claims = AsPolicy
		if want.Strategy.Type == "" {
			want.Strategy.Type = "Tenon"
		}
		if got, err := Decode(Tenon, raw(text)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("Decode(%s) = %+v, %v; want %+v", text, got, err, want)
		}
	}
	if a, err := Decode(Tenon, nil); err != nil || a.UnknownNodes != Allow {
		t.Errorf("Decode(nil) = %+v, %v", a, err)
	}
	for text, names := range map[string]string{
		`{"unknownNode":"Refuse"}`:                               "unknownNode",
		`{"unknownNodes":"Maybe"}`:                               `unknownNodes: unknown value "Maybe": want one of Allow, Refuse, AllowWithoutDemand`,
		`{"coarseNodes":"AllowWithoutDemand"}`:                   `coarseNodes: unknown value "AllowWithoutDemand": want one of Allow, Refuse`,
		`{"inexactNodes":"Deny"}`:                                `inexactNodes: unknown value "Deny": want one of Allow, Refuse`,
		`{"claims":"Always"}`:                                    `claims: unknown value "Always": want one of AsPolicy, Require, Prefer, Ignore`,
		`{"podLogs":"Refuse"}`:                                   `podLogs: unknown value "Refuse": want one of Allow, Deny`,
		`{"keepRestartable":"yes"}`:                              "keepRestartable",
		`{"fittingShapes":["cpu=4,gpu=1"]}`:                      `"gpu" is no resource`,
		`{"fittingShapes":["cpu=-1"]}`:                           "want RESOURCE=AMOUNT",
		`{"fittingShapes":["cpu=1,cpu=2"]}`:                      "cpu is given twice",
		`{"fittingPool":"a b"}`:                                  `fittingPool: "a b" is not the name of a label`,
		`{"silentNodes":"Maybe"}`:                                `silentNodes: unknown value "Maybe": want one of Allow, Refuse`,
		`{"unknownNodes":"Allow","unknownNodes":"Refuse"}`:       "unknownNodes",
		`{"turnTimeoutSeconds":-1}`:                              "-1",
		`{"turnTimeoutSeconds":99999}`:                           "99999",
		`{"kind":"NodeResourceTopologyMatchArgs"}`:               `unknown value "NodeResourceTopologyMatchArgs": want TenonArgs`,
		`{"layoutSelector":"a=b=c"}`:                             `layoutSelector: "a=b=c"`,
		`{"layoutSelector":"size>3"}`:                            `layoutSelector: "size>3": operator gt is not supported`,
		`{"layoutSelector":"` + strings.Repeat("a,", 16) + `a"}`: "layoutSelector: 17 requirements are more than 16",
		`{"layoutSelector":"` + strings.Repeat("a", 1025) + `"}`: "layoutSelector: 1025 bytes",
		`{"strategy":{}}`:                                        "strategy",
		`{"scoringStrategy":{"type":"Least"}}`:                   `scoringStrategy.type: unknown value "Least": want one of Tenon, LeastAllocated, MostAllocated, BalancedAllocation, LeastNUMANodes`,
		`{"scoringStrategy":{"weight":1}}`:                       "weight",
		`{"scoringStrategy":{"resources":[` + strings.Repeat(`{"name":"cpu"},`, 256) +
			`{"name":"cpu"}]}}`: "TenonArgs: scoringStrategy.resources: 257 resources",
		`{"notes":[]}`: "notes",
		`[`:            "TenonArgs",
	} {
		if _, err := Decode(Tenon, raw(text)); err == nil || !strings.Contains(err.Error(), names) {
			t.Errorf("Decode(%s): error %v does not name %q", text, err, names)
		}
	}
	if _, err := Decode("Tenons", nil); err == nil || !strings.Contains(err.Error(), `unknown plugin "Tenons"`) {
		t.Errorf("another plugin's arguments: %v", err)
	}
	if _, err := Decode(Tenon, &metav1.Status{}); err == nil || !strings.Contains(err.Error(), "unexpected type") {
		t.Errorf("arguments of another type: %v", err)
	}
}

// Every field of scheduler-plugins, as its deployments write them.
const everything = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: NodeResourceTopologyMatchArgs
scoringStrategy:
  type: LeastNUMANodes
  resources:
  - {name: cpu, weight: 2}
  - {name: memory, weight: 0}
cacheResyncPeriodSeconds: 5
discardReservedNodes: false
cache:
  foreignPodsDetect: OnlyExclusiveResources
  resyncMethod: Autodetect
  informerMode: Dedicated
  resyncScope: All
preemptionMode: Enabled
`

func TestArgumentsOfSchedulerPlugins(t *testing.T) {
	a, err := Decode(Match, raw(everything))
	if err != nil {
		t.Fatal(err)
	}
	if want := (Strategy{"LeastNUMANodes", []Weight{{"cpu", 2}, {"memory", 1}}}); !reflect.DeepEqual(a.Strategy, want) {
		t.Errorf("strategy %+v, want %+v", a.Strategy, want)
	}
	if a.UnknownNodes != Allow || a.CoarseNodes != Allow || a.TurnTimeoutSeconds != 30 {
		t.Errorf("%+v are not the defaults", a)
	}
	var fields []string
	for _, n := range a.Notes {
		field, says, _ := strings.Cut(n, ": ")
		fields = append(fields, field)
		if says == "" {
			t.Errorf("nothing is said of %s", field)
		}
	}
	want := []string{"cacheResyncPeriodSeconds", "discardReservedNodes", "cache.foreignPodsDetect",
		"cache.resyncMethod", "cache.informerMode", "cache.resyncScope", "preemptionMode"}
	if !slices.Equal(fields, want) {
		t.Errorf("notes on %q, want %q", fields, want)
	}
	if a.KeepVictims {
		t.Error("preemptionMode: Enabled lets nobody be evicted")
	}
	a, err = Decode(Match, raw("preemptionMode: Disabled"))
	if err != nil || !a.KeepVictims || len(a.Notes) != 1 || !strings.Contains(a.Notes[0], "nobody is evicted") {
		t.Errorf("preemptionMode: Disabled: %+v, %v", a, err)
	}
	for _, obj := range []runtime.Object{nil, raw(`{}`), raw(`{"scoringStrategy":null,"cache":{}}`)} {
		a, err := Decode(Match, obj)
		if err != nil || len(a.Notes) > 0 || a.Strategy.Type != "LeastAllocated" {
			t.Errorf("Decode(%v) = %+v, %v", obj, a, err)
		}
	}
	for _, kind := range []string{"LeastAllocated", "MostAllocated", "BalancedAllocation", "LeastNUMANodes"} {
		if a, err := Decode(Match, raw(`{"scoringStrategy":{"type":"`+kind+`"}}`)); err != nil || a.Strategy.Type != kind {
			t.Errorf("%s: %+v, %v", kind, a, err)
		}
	}
}

func TestArgumentsThatSchedulerPluginsRefuses(t *testing.T) {
	for text, names := range map[string]string{
		`{"unknownNodes":"Refuse"}`:                                        "unknownNodes",
		`{"namespaces":["default"]}`:                                       "namespaces",
		`{"cache":{"resync":"All"}}`:                                       "resync",
		`{"cacheResyncPeriodSeconds":"5"}`:                                 "cacheResyncPeriodSeconds",
		`{"kind":"TenonArgs"}`:                                             `want NodeResourceTopologyMatchArgs`,
		`{"apiVersion":"kubescheduler.config.k8s.io/v1beta3"}`:             `want kubescheduler.config.k8s.io/v1`,
		`{"scoringStrategy":{"type":"Tenon"}}`:                             `scoringStrategy.type: Invalid value: "Tenon"`,
		`{"scoringStrategy":{"type":"LeastAllocatable"}}`:                  `scoringStrategy.type: Invalid value: "LeastAllocatable": invalid ScoringStrategyType: want one of LeastAllocated, MostAllocated, BalancedAllocation, LeastNUMANodes`,
		`{"scoringStrategy":{"resources":[{"name":"cpu","weight":-1}]}}`:   `weight of "cpu": -1 is outside`,
		`{"scoringStrategy":{"resources":[{"name":"cpu","weight":1e10}]}}`: "weight",
		`{"scoringStrategy":{"resources":[{"weight":1}]}}`:                 "resources[0]: name is empty",
		`{`: "NodeResourceTopologyMatchArgs",
	} {
		if _, err := Decode(Match, raw(text)); err == nil || !strings.Contains(err.Error(), names) {
			t.Errorf("Decode(%s): error %v does not name %q", text, err, names)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"unknownNodes":"Refuse"}`))
	f.Add([]byte(everything))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, plugin := range []string{Tenon, Match} {
			a, err := Decode(plugin, &runtime.Unknown{Raw: text})
			if err == nil && (a.TurnTimeoutSeconds < 1 || a.UnknownNodes == "" || a.CoarseNodes == "" || a.Strategy.Type == "") {
				t.Fatalf("Decode(%s, %q) = %+v", plugin, text, a)
			}
		}
	})
}
