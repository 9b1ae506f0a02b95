package plugin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/descheduler/pkg/api"
	"sigs.k8s.io/descheduler/pkg/descheduler"
	"sigs.k8s.io/descheduler/pkg/framework/pluginregistry"
)

// load reads a policy with arguments of the plugin as the descheduler does.
func load(t *testing.T, limits, args string) (*api.DeschedulerPolicy, error) {
	t.Helper()
	descheduler.SetupPlugins()
	Register(pluginregistry.PluginRegistry, Host{})
	file := filepath.Join(t.TempDir(), "policy.yaml")
	err := os.WriteFile(file, []byte(`apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
`+limits+`
profiles:
- name: room
  pluginConfig: [{name: TenonMakeRoom, args: `+args+`}]
  plugins: {balance: {enabled: [TenonMakeRoom]}}
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	return descheduler.LoadPolicyConfig(file, fake.NewClientset(), pluginregistry.PluginRegistry)
}

// argsIn returns the plugin's arguments in a policy.
func argsIn(t *testing.T, p *api.DeschedulerPolicy) *MakeRoomArgs {
	t.Helper()
	for _, c := range p.Profiles[0].PluginConfigs {
		if a, ok := c.Args.(*MakeRoomArgs); ok {
			return a
		}
	}
	t.Fatal("the policy has no arguments of the plugin")
	return nil
}

func TestArgumentsHaveDefaults(t *testing.T) {
	for _, given := range []string{"{}", "null"} {
		p, err := load(t, "", given)
		if err != nil {
			t.Fatal(err)
		}
		a := argsIn(t, p)
		if a.PendingFor.Duration != 5*time.Minute || *a.Most != 3 || a.Keep != KeepAlways || a.MinAge.Duration != 0 ||
			a.AnswerTimeout.Duration != time.Minute || a.EvictTimeout.Duration != 2*time.Minute ||
			a.RunTimeout.Duration != 5*time.Minute || a.MaxPriority != nil || a.Namespaces != nil ||
			a.PendingNamespaces != nil {
			t.Errorf("%s: the arguments are %+v", given, a)
		}
	}
}

func TestArgumentsAreRead(t *testing.T) {
	p, err := load(t, "maxNoOfPodsToEvictTotal: 2", `{pendingFor: 0s, most: 7, keep: Never, minAge: 30m, maxPriority: -5,
      namespaces: {include: [ml]}, pendingNamespaces: {exclude: [web]}, answerTimeout: 1s, evictTimeout: 2s,
      runTimeout: 1h}`)
	if err != nil {
		t.Fatal(err)
	}
	a := argsIn(t, p)
	if a.PendingFor.Duration != 0 || *a.Most != 7 || a.Keep != KeepNever || a.MinAge.Duration != 30*time.Minute ||
		*a.MaxPriority != -5 || !selects(a.Namespaces, "ml") || selects(a.Namespaces, "web") ||
		!selects(a.PendingNamespaces, "ml") || selects(a.PendingNamespaces, "web") ||
		a.RunTimeout.Duration != time.Hour {
		t.Errorf("the arguments are %+v", a)
	}
	q := (&makeRoom{args: a, most: 2}).question(waitingPod("ml", "wide", 0, 0))
	if q.Most != 2 || len(q.Namespaces) != 1 || q.Namespaces[0] != "ml" || *q.MaxPriority != -5 ||
		q.For[0] != "ml/wide" {
		t.Errorf("the question is %+v", q)
	}
	if q := (&makeRoom{args: a, most: 2}).question(waitingPod("ml", "low", -7, 0)); *q.MaxPriority != -7 {
		t.Errorf("for a pod of priority -7, pods of priority %d may move", *q.MaxPriority)
	}
}

// Wrong arguments stop the descheduler with one error, which names the argument.
func TestWrongArgumentsAreNamed(t *testing.T) {
	for args, want := range map[string]string{
		"{most: 0}":           "TenonMakeRoom: most: 0 is not in 1..100",
		"{most: 101}":         "TenonMakeRoom: most: 101 is not in 1..100",
		"{most: few}":         "most",
		"{keep: sometimes}":   `TenonMakeRoom: keep: "sometimes" is none of Always, IfPossible and Never`,
		"{pendingFor: -1s}":   "TenonMakeRoom: pendingFor: -1s is negative",
		"{minAge: -1m}":       "TenonMakeRoom: minAge: -1m0s is negative",
		"{minAge: soon}":      "soon",
		"{answerTimeout: 0s}": "TenonMakeRoom: answerTimeout: 0s is not",
		"{evictTimeout: 2h}":  "TenonMakeRoom: evictTimeout: 2h0m0s is not",
		"{runTimeout: -1s}":   "TenonMakeRoom: runTimeout: -1s is not",
		"{namespaces: {include: [a], exclude: [b]}}":        "TenonMakeRoom: namespaces: give include or exclude",
		"{pendingNamespaces: {include: [a], exclude: [b]}}": "TenonMakeRoom: pendingNamespaces: give include or exclude",
		"{kubeconfig: x}": `unknown field "kubeconfig"`,
	} {
		_, err := load(t, "", args)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), Name) > 1 {
			t.Errorf("%s: the error is %v, want %q", args, err, want)
		}
	}
}

func TestACopyOfArgumentsIsApart(t *testing.T) {
	p, err := load(t, "", "{namespaces: {include: [ml]}, maxPriority: 1}")
	if err != nil {
		t.Fatal(err)
	}
	a := argsIn(t, p)
	b, ok := a.DeepCopyObject().(*MakeRoomArgs)
	if !ok {
		t.Fatal("the copy has another type")
	}
	b.Namespaces.Include[0], *b.MaxPriority, *b.Most, b.PendingFor.Duration = "web", 2, 9, 0
	if a.Namespaces.Include[0] != "ml" || *a.MaxPriority != 1 || *a.Most != 3 || a.PendingFor.Duration == 0 {
		t.Errorf("a change of the copy changed the arguments: %+v", a)
	}
}
