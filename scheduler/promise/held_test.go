package promise

import (
	"fmt"
	"testing"
	"time"
)

// Only later pods of the owner wait, until the request has its room or its time is over, and others of other
// namespaces never.
func TestOnlyLaterPodsOfTheOwnerAreHeldBack(t *testing.T) {
	c := newCluster(t)
	now := time.Unix(1000, 0)
	if c.keeper.HoldsAny() || (*Keeper)(nil).HoldsAny() {
		t.Error("pods are held back without a request")
	}
	if c.keeper.Hold(Request{Name: "ml/none"}, now.Add(time.Hour)) {
		t.Error("a request without an owner holds back pods")
	}
	r := Request{Name: "ml/r", Owner: "ml/set", Since: 900}
	if !c.keeper.Hold(r, now.Add(time.Minute)) || !c.keeper.Hold(r, now.Add(time.Minute)) || !c.keeper.HoldsAny() {
		t.Error("the request holds back nothing")
	}
	for name, x := range map[string]struct {
		owner   string
		created int64
		at      time.Time
		want    string
	}{
		"later":                {"ml/set", 900, now, "ml/r"},
		"earlier":              {"ml/set", 899, now, ""},
		"another controller":   {"ml/other", 950, now, ""},
		"another namespace":    {"evil/set", 950, now, ""},
		"without a controller": {"", 950, now, ""},
		"the time is over":     {"ml/set", 950, now.Add(time.Minute), ""},
	} {
		if got := c.keeper.Holds(x.owner, x.created, x.at); got != x.want {
			t.Errorf("%s: held back for %q, want %q", name, got, x.want)
		}
	}
	c.keeper.Release("ml/other")
	// Another request of the same name holds back fewer pods: the others are tried again.
	c.keeper.Hold(Request{Name: "ml/r", Owner: "ml/set", Since: 940}, now.Add(time.Minute))
	c.keeper.Release("ml/r")
	if len(c.released) != 2 || c.released[0] != "ml/set" || len(c.freed) > 0 {
		t.Errorf("released %v, freed %v; want the owner twice, and no node", c.released, c.freed)
	}
	if c.keeper.HoldsAny() || c.keeper.Holds("ml/set", 950, now) != "" || len(c.keeper.Holding()) > 0 {
		t.Error("pods are held back for a request that was released")
	}
	for i := range MaxHeld + 3 {
		if got := c.keeper.Hold(Request{Name: fmt.Sprint("ml/r", i), Owner: "ml/set"}, now); got != (i < MaxHeld) {
			t.Fatalf("request %d holds back pods: %t", i, got)
		}
	}
}
