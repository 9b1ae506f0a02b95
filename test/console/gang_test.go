package console_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/cluster/live/livetest"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// The pods of a gang are one row. It has the group's numbers and what the group waits for, and opens to the pods, also
// by keys; it stays open while the list changes.
func TestAGangIsOneRow(t *testing.T) {
	b, api := open(t), livetest.New(t)
	api.List(livetest.Nodes, livetest.Node("a"))
	api.List(livetest.Layouts, livetest.Layout(t, "a", state.Entry{
		Pod: state.PodID{UID: "ml.trainer-0", Namespace: "ml", Name: "trainer-0"},
		Holdings: []place.Holding{{Container: "c", CPUs: idset.Of[idset.CPU](0, 1, 64, 65),
			Memory: []place.Block{{Kind: "memory", NUMAs: 1, Bytes: 8 << 30}}}}}))
	api.List(livetest.Events)
	api.List(livetest.EventsOf("ml"))
	trainer := func(name, node string) *corev1.Pod {
		group, p := "trainer", livetest.Pod("ml", name, node)
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
		return p
	}
	api.List(livetest.Pods, trainer("trainer-0", "a"), trainer("trainer-1", ""), trainer("trainer-2", ""),
		livetest.Pod("ml", "lone", ""))
	api.Object("/apis/scheduling.k8s.io/v1beta1/namespaces/ml/podgroups/trainer", map[string]any{
		"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
		"metadata": map[string]any{"namespace": "ml", "name": "trainer"},
		"spec":     map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": 5}}}})
	s := serve(t, &rest.Config{Host: api.URL})
	s.open(b)
	b.says("#waiting summary", "ml/trainer gang: 1 of 3 have nodes, 5 needed")
	b.says("#waiting td", "The group needs 5 pods, and has 3.")
	b.says("#waiting td", "The 2 pods that wait fit together: 2 on a.")
	var rows int
	b.do("count rows", chromedp.Evaluate(`document.querySelectorAll("#waiting tbody tr").length`, &rows))
	if rows != 2 {
		t.Errorf("the gang and the other pod have %d rows", rows)
	}
	b.do("open the gang by keys", focus("#waiting summary"), chromedp.KeyEvent(kb.Enter))
	b.says("#waiting details[open] a", "ml/trainer-2")
	b.looks("gang")
	added := trainer("trainer-3", "")
	added.ResourceVersion = "20"
	api.Send(livetest.Pods, "ADDED", added)
	b.says("#waiting details[open] a", "ml/trainer-3")
	var focus string
	b.do("look at the focus", chromedp.Evaluate(`document.activeElement.innerText`, &focus))
	if !strings.HasPrefix(focus, "ml/trainer") {
		t.Errorf("the focus is on %q", focus)
	}
}
