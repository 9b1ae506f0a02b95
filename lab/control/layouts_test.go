package control_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	layouts "github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	definition "github.com/tenon-numa/tenon/deploy/crd"
	"github.com/tenon-numa/tenon/lab/control"
	"github.com/tenon-numa/tenon/lab/machines"
)

// reporter writes the layouts of one node, as its agent does.
type reporter struct {
	t        *testing.T
	client   *layouts.Client
	machine  machines.Machine
	base     *v1alpha1.LayoutBase
	sequence int64
}

func newReporter(ctx context.Context, t *testing.T) *reporter {
	p, err := control.Start(ctx, control.Options{Dir: t.TempDir(), CRDs: definition.Layouts()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	r := &reporter{t: t}
	if r.client, err = layouts.New(p.Admin); err != nil {
		t.Fatal(err)
	}
	if r.machine, err = machines.Load("laptop"); err != nil {
		t.Fatal(err)
	}
	return r
}

// whole returns a complete layout with these pods.
func (r *reporter) whole(pods ...string) *v1alpha1.NodeLayout {
	var entries []state.Entry
	for _, name := range pods {
		entries = append(entries, state.Entry{Pod: state.PodID{Namespace: "default", Name: name, UID: "uid-" + name}})
	}
	r.sequence++
	l := v1alpha1.FromCore("node", r.machine.Topo, place.Rules{}, entries, nil)
	l.Sequence, l.Agent = r.sequence, v1alpha1.Agent{ID: "a", Since: metav1.NewMicroTime(time.Unix(1e9, 123000))}
	return l
}

// renew writes a base with these pods.
func (r *reporter) renew(ctx context.Context, pods ...string) {
	r.t.Helper()
	r.base = v1alpha1.BaseOf(r.whole(pods...))
	stored, err := r.client.ApplyBase(ctx, r.base)
	if err != nil {
		r.t.Fatal(err)
	}
	if !r.base.Same(stored) {
		r.t.Errorf("the API server returns another base than was written: %+v", stored)
	}
}

// report writes a layout that continues the base.
func (r *reporter) report(ctx context.Context, pods ...string) {
	r.t.Helper()
	d, ok := r.whole(pods...).Since(r.base)
	if !ok {
		r.t.Fatal("no difference")
	}
	if _, err := r.client.Apply(ctx, d); err != nil {
		r.t.Fatal(err)
	}
}

// want compares the pods that readers have.
func (r *reporter) want(ctx context.Context, what, pod string) {
	r.t.Helper()
	got, err := r.client.Get(ctx, "node", metav1.GetOptions{})
	if err != nil || got.Malformed != "" || len(got.Holdings) != 1 || got.Holdings[0].Name != pod {
		r.t.Errorf("%s: readers have %v, want %s (%v, %q)", what, got.Holdings, pod, err, got.Malformed)
	}
}

// forge writes fields as somebody else.
func forge[T any](ctx context.Context, t *testing.T, patch func(context.Context, string, types.PatchType, []byte,
	metav1.PatchOptions) (T, error), fields map[string]any) {
	t.Helper()
	data, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := patch(ctx, "node", types.MergePatchType, data, metav1.PatchOptions{FieldManager: "edit"}); err != nil {
		t.Fatal(err)
	}
}

// The scheduler writes the conditions of a layout that continues a base. What the agent writes afterwards is what
// readers have: the write of the status has taken no field from it.
func TestAStatusWriteTakesNothingFromTheAgent(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	r := newReporter(ctx, t)
	r.renew(ctx, "p")
	r.report(ctx, "q")
	l, err := r.client.Get(ctx, "node", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	meta.SetStatusCondition(&l.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionAccepted,
		Status: metav1.ConditionTrue, Reason: "Understood"})
	if _, err := r.client.UpdateStatus(ctx, l, metav1.UpdateOptions{FieldManager: "tenon-scheduler"}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r.report(ctx, "p")
		r.want(ctx, "after a status", "p")
	}
	if l, err = r.client.Get(ctx, "node", metav1.GetOptions{}); err != nil || len(l.Status.Conditions) != 1 {
		t.Errorf("conditions are %v (%v)", l.Status.Conditions, err)
	}
	if _, err := r.client.Apply(ctx, r.whole("p")); err != nil {
		t.Fatal(err)
	}
	if l, err = r.client.Layouts.Get(ctx, "node", metav1.GetOptions{}); err != nil || l.Base != 0 {
		t.Errorf("a whole layout continues base %d (%v)", l.Base, err)
	}
}

// What somebody else has put into a field that the agent leaves empty is gone once the agent has written again.
func TestFieldsOfOthersGoWithTheNextReport(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	r := newReporter(ctx, t)
	r.renew(ctx, "p")
	r.report(ctx, "p")
	for name, value := range map[string]any{"ended": []string{"uid-p"},
		"holdings": []v1alpha1.PodHoldings{{Namespace: "x", Name: "x", UID: "x"}}} {
		forge(ctx, t, r.client.Layouts.Patch, map[string]any{name: value})
		r.report(ctx, "p")
		r.want(ctx, name, "p")
	}
	forge(ctx, t, r.client.Bases.Patch, map[string]any{"inexact": []v1alpha1.Inexact{{Code: "x", Message: "x"}},
		"memoryGroups": []v1alpha1.MemoryGroup{{NUMA: 0, Group: "0"}}})
	r.renew(ctx, "p") // compares what is stored
	forge(ctx, t, r.client.Layouts.Patch, map[string]any{"base": 50})
	if l, err := r.client.Apply(ctx, r.whole("p")); err != nil || l.Base != 0 {
		t.Errorf("a whole layout continues base %d (%v)", l.Base, err)
	}
}
