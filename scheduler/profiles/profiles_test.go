package profiles

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/klog/v2"
	schedapi "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/tenon-numa/tenon/scheduler/profiles/profilestest"
)

// at lists the extension points at which a plugin runs, and those where it is the last.
func at(pl *schedapi.Plugins, name string) string {
	var out []string
	for _, p := range []point{{"preFilter", &pl.PreFilter}, {"filter", &pl.Filter}, {"preScore", &pl.PreScore},
		{"score", &pl.Score},
		{"reserve", &pl.Reserve}, {"preBind", &pl.PreBind}, {"bind", &pl.Bind}, {"postBind", &pl.PostBind}} {
		if enabledAt(pl, p.set, name) {
			out = append(out, p.name)
		}
	}
	return strings.Join(out, " ")
}

// The profiles are from the manifests of scheduler-plugins, its deployer and its operators.
func TestProfilesGetThePointsThatThePluginNeeds(t *testing.T) {
	const all = "preFilter filter preScore score reserve preBind bind"
	for name, c := range map[string]struct{ plugins, plugin, want, says string }{
		"filter and score": {"{filter: {enabled: [{name: NodeResourceTopologyMatch}]}, score: {enabled: [{name: " +
			"NodeResourceTopologyMatch}]}}",
			"NodeResourceTopologyMatch", all, `points="preFilter,preScore,reserve,preBind,bind"`},
		"filter, reserve and score": {"{filter: {enabled: [{name: NodeResourceTopologyMatch}]}, reserve: {enabled: " +
			"[{name: NodeResourceTopologyMatch}]}, " +
			"score: {enabled: [{name: NodeResourceTopologyMatch, weight: 5}]}}", "NodeResourceTopologyMatch", all, `points="preFilter,preScore,preBind,bind"`},
		"postBind, too": {"{filter: {enabled: [{name: NodeResourceTopologyMatch}]}, postBind: {enabled: [{name: " +
			"NodeResourceTopologyMatch}]}}",
			"NodeResourceTopologyMatch", "preFilter filter reserve preBind bind postBind", `points="preFilter,reserve,preBind,bind"`},
		"filter, and no other filters": {"{filter: {enabled: [{name: NodeResourceTopologyMatch}], disabled: [{name: '*'}]}}",
			"NodeResourceTopologyMatch", "preFilter filter reserve preBind bind", `points="preFilter,reserve,preBind,bind"`},
		"multiPoint": {"{multiPoint: {enabled: [{name: NodeResourceTopologyMatch}]}}",
			"NodeResourceTopologyMatch", all + " postBind", ""},
		"multiPoint, own name": {"{multiPoint: {enabled: [{name: Tenon, weight: 10}]}}", "Tenon", all + " postBind", ""},
		"own name, filter":     {"{filter: {enabled: [{name: Tenon}]}}", "Tenon", "preFilter filter reserve preBind bind", `points="preFilter,reserve,preBind,bind"`},
		"multiPoint without score": {"{multiPoint: {enabled: [{name: Tenon}]}, score: {disabled: [{name: Tenon}]}}", "Tenon",
			"preFilter filter preScore reserve preBind bind postBind", ""},
		"multiPoint, and no reservations at all": {"{multiPoint: {enabled: [{name: Tenon}]}, reserve: {disabled: " +
			"[{name: '*'}]}}", "Tenon",
			all + " postBind", `points="reserve"`},
		"reserve disabled by name": {"{multiPoint: {enabled: [{name: Tenon}]}, reserve: {disabled: [{name: " +
			"Tenon}]}}", "Tenon",
			"preFilter filter preScore score preBind bind postBind", `Plugin disabled at extension points that it needs: kubelets may refuse pods of this profile`},
		"score only": {"{score: {enabled: [{name: NodeResourceTopologyMatch}]}}", "NodeResourceTopologyMatch",
			"preFilter preScore score", "Plugin only scores nodes"},
		"another plugin": {"{filter: {enabled: [{name: Other}]}}", "Tenon", "", ""},
	} {
		list := profilestest.Profiles(t, "- schedulerName: one\n  plugins: "+c.plugins+"\n")
		logger, text := profilestest.Logger(t, 0)
		if err := Complete(list, logger); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := at(list[0].Plugins, c.plugin); got != c.want {
			t.Errorf("%s: the plugin runs at %s, want %s", name, got, c.want)
		}
		if said := text(); (c.says == "") != (said == "") || !strings.Contains(said, c.says) {
			t.Errorf("%s: logged %q, want %q", name, said, c.says)
		}
		again := fmt.Sprintf("%+v", list[0].Plugins)
		if err := Complete(list, klog.Background()); err != nil || fmt.Sprintf("%+v", list[0].Plugins) != again {
			t.Errorf("%s: a complete profile is changed (%v)", name, err)
		}
	}
}

// Added points come after the points of other plugins: a pod that waits for its turn has its volumes by then.
func TestAddedPointsAreTheLast(t *testing.T) {
	list := profilestest.Profiles(
		t,
		"- plugins: {preBind: {enabled: [{name: Other}]}, filter: {enabled: [{name: NodeResourceTopologyMatch}]}}\n",
	)
	if err := Complete(list, klog.Background()); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range list[0].Plugins.PreBind.Enabled {
		names = append(names, p.Name)
	}
	if !slices.Equal(names, []string{"Other", "NodeResourceTopologyMatch"}) {
		t.Errorf("preBind runs %v", names)
	}
}

func TestOneProfileHasThePluginOnce(t *testing.T) {
	list := profilestest.Profiles(t, `
- schedulerName: one
  plugins: {multiPoint: {enabled: [{name: Tenon}]}}
- schedulerName: both
  plugins: {multiPoint: {enabled: [{name: Tenon}]}, score: {enabled: [{name: NodeResourceTopologyMatch}]}}
`)
	err := Complete(list, klog.Background())
	if want := `profile "both" enables the plugins Tenon and NodeResourceTopologyMatch: they are the same plugin under two names: remove one`; err == nil ||
		err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if err := Complete(profilestest.Profiles(t, `
- schedulerName: one
  plugins: {multiPoint: {enabled: [{name: Tenon}]}}
- schedulerName: two
  plugins: {multiPoint: {enabled: [{name: NodeResourceTopologyMatch}]}}
`), klog.Background()); err != nil {
		t.Errorf("one name each: %v", err)
	}
}

func TestWhoPreempts(t *testing.T) {
	const in = "- plugins: "
	for name, c := range map[string]struct {
		plugins, plugin string
		by, enqueue     string // who runs at postFilter, and whether the plugin runs at preEnqueue
	}{
		"multiPoint": {"{multiPoint: {enabled: [{name: Tenon}]}}", "Tenon", "Tenon", "Tenon"},
		"filter": {"{filter: {enabled: [{name: NodeResourceTopologyMatch}]}}",
			"NodeResourceTopologyMatch", "NodeResourceTopologyMatch", "NodeResourceTopologyMatch"},
		"score only": {"{score: {enabled: [{name: Tenon}]}}", "Tenon", "DefaultPreemption", ""},
		"no preemption": {"{multiPoint: {enabled: [{name: Tenon}]}, postFilter: {disabled: [{name: " +
			"DefaultPreemption}]}}", "Tenon", "", ""},
		"no preemption at all": {"{filter: {enabled: [{name: Tenon}]}, postFilter: {disabled: [{name: " +
			"'*'}]}}", "Tenon", "", ""},
		"kube-scheduler's": {"{multiPoint: {enabled: [{name: Tenon}]}, postFilter: {disabled: [{name: " +
			"Tenon}]}}", "Tenon", "DefaultPreemption", ""},
		"instead of the default's": {"{multiPoint: {enabled: [{name: Tenon}]}, postFilter: {enabled: [{name: " +
			"DefaultPreemption}], disabled: [{name: '*'}]}}", "Tenon", "Tenon", "Tenon"},
		"without the plugin": {"{}", "Tenon", "DefaultPreemption", ""},
	} {
		list := profilestest.Profiles(t, in+c.plugins+"\n")
		if err := Complete(list, klog.Background()); err != nil {
			t.Fatal(err)
		}
		args := Preemptors(list, klog.Background())
		pl := list[0].Plugins
		preempts := args["default-scheduler"] != nil
		if preempts != (c.by == c.plugin) {
			t.Errorf("%s: the plugin preempts: %v", name, preempts)
		}
		if theirs := enabledAt(pl, &pl.PostFilter, "DefaultPreemption"); theirs != (c.by == "DefaultPreemption") {
			t.Errorf("%s: DefaultPreemption preempts: %v", name, theirs)
		}
		if preempts && (!enabledAt(pl, &pl.PostFilter, c.plugin) || !enabledAt(pl, &pl.PreEnqueue, c.enqueue)) {
			t.Errorf("%s: the plugin preempts, and runs at %+v and %+v", name, pl.PostFilter, pl.PreEnqueue)
		}
		if preempts && args["default-scheduler"].MinCandidateNodesAbsolute != 100 {
			t.Errorf("%s: arguments %+v", name, args["default-scheduler"])
		}
	}
	list := profilestest.Profiles(
		t,
		"- plugins: {multiPoint: {enabled: [{name: Tenon}]}}\n  pluginConfig: [{name: DefaultPreemption, args: "+
			"{minCandidateNodesAbsolute: 7}}]\n",
	)
	if a := Preemptors(list, klog.Background())["default-scheduler"]; a == nil || a.MinCandidateNodesAbsolute != 7 {
		t.Errorf("the profile's arguments for preemption are lost: %+v", a)
	}
}
