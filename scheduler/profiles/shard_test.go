package profiles

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
	schedapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/scheduler/fwk"
	"github.com/tenon-numa/tenon/scheduler/profiles/profilestest"
)

// withSelector returns a profile with the plugin, and with further lines.
func withSelector(name, selector string, more ...string) string {
	return "- schedulerName: " + name + "\n  plugins: {multiPoint: {enabled: [{name: Tenon}]" + strings.Join(
		more,
		"",
	) + "}\n" +
		"  pluginConfig:\n  - {name: Tenon, args: {layoutSelector: '" + selector + "'}}\n"
}

// filtersOf lists the plugins that a profile enables everywhere or at filter, in their order.
func filtersOf(p schedapi.KubeSchedulerProfile) (out []string) {
	for _, e := range append(p.Plugins.Filter.Enabled, p.Plugins.MultiPoint.Enabled...) {
		out = append(out, e.Name)
	}
	return out
}

// Pods of profiles with the plugin go only to nodes that the selector matches.
func TestProfilesAreConfinedToTheirShard(t *testing.T) {
	const selector = "shard in (b,a),zone!=z"
	list := profilestest.Profiles(
		t,
		withSelector(
			"one",
			selector,
			"}",
		)+withSelector(
			"two",
			selector,
			"}, filter: {disabled: [{name: '*'}]}",
		)+"- schedulerName: plain\n",
	)
	s, err := Confine(list)
	if err != nil || s.String() != "shard in (a,b),zone!=z" {
		t.Fatalf("selector %v, %v", s, err)
	}
	for i, want := range []bool{true, true, false} {
		if got := filtersOf(list[i]); (got[0] == ShardName) != want || slices.Contains(got, ShardName) != want {
			t.Errorf("profile %d has the filters %v", i, got)
		}
	}
	b := Shard{s}
	for labels, want := range map[string]bool{"shard=a": true, "shard=b,zone=y": true, "shard=b,zone=z": false,
		"shard=c": false, "": false} {
		info := framework.NewNodeInfo()
		info.SetNode(labelled(labels))
		status := b.Filter(t.Context(), nil, nil, info)
		if status.IsSuccess() != want ||
			!want && !strings.Contains(status.Message(), "not in this scheduler's shard, shard in (a,b),zone!=z") {
			t.Errorf("labels %q: %v", labels, status)
		}
	}
}

func labelled(labels string) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}}
	for l := range strings.SplitSeq(labels, ",") {
		key, value, _ := strings.Cut(l, "=")
		n.Labels[key] = value
	}
	return n
}

// A node that enters the shard wakes pods; one that was in it, or leaves it, wakes none.
func TestNodesThatEnterAShardWakePods(t *testing.T) {
	s, err := labels.Parse("shard=a")
	if err != nil {
		t.Fatal(err)
	}
	b := Shard{s}
	for _, c := range []struct {
		before, after any
		want          fwk.QueueingHint
	}{
		{nil, labelled("shard=a"), fwk.Queue}, {nil, labelled("shard=b"), fwk.QueueSkip},
		{labelled("shard=b"), labelled("shard=a"), fwk.Queue}, {labelled("shard=a"), labelled("shard=a,x=y"), fwk.QueueSkip},
		{labelled("shard=a"), labelled("shard=b"), fwk.QueueSkip},
	} {
		if got, err := b.entered(klog.Background(), nil, c.before, c.after); got != c.want || err != nil {
			t.Errorf("%v to %v: %v, %v", c.before, c.after, got, err)
		}
	}
}

func TestNobodyIsConfinedWithoutASelector(t *testing.T) {
	list := profilestest.Profiles(t, withSelector("one", "", "}"))
	s, err := Confine(list)
	if err != nil || !s.Empty() || slices.Contains(filtersOf(list[0]), ShardName) {
		t.Errorf("selector %v, %v, filters %v", s, err, filtersOf(list[0]))
	}
}

func TestSelectorsThatAreRefused(t *testing.T) {
	for list, want := range map[string]string{
		withSelector("one", "shard=a", "}") + withSelector("two", "shard=b", "}"): `profiles "one" and "two" have the layoutSelectors "shard=a" and "shard=b"`,
		withSelector("one", "shard=a", "}") + withSelector("two", "", "}"):        `layoutSelectors "shard=a" and ""`,
		withSelector("one", "=", "}"):                                             `profile "one": TenonArgs: layoutSelector`,
	} {
		if _, err := Confine(profilestest.Profiles(t, list)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\nerror %v does not say %q", list, err, want)
		}
	}
}
