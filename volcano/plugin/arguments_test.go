package plugin

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/core/place"
)

// The error names an argument that cannot be read, and a correct value.
func TestArgumentsAreValidated(t *testing.T) {
	for _, x := range []struct {
		given framework.Arguments
		want  string // in the error, "" for none
	}{
		{nil, ""},
		{framework.Arguments{"weight": 1, "unknownNodes": "Refuse", "turnTimeoutSeconds": 60,
			"scoringStrategy": map[any]any{"type": "LeastNUMANodes"}}, ""},
		{framework.Arguments{"scoringStrategy": map[any]any{"type": "UnionSpan"}}, ""},
		{framework.Arguments{"weight": "10"}, "weight"},
		{framework.Arguments{"weight": -1}, "0..10000"},
		{framework.Arguments{"wieght": 1}, "wieght"},
		{framework.Arguments{"unknownNodes": "Maybe"}, "Allow"},
		{framework.Arguments{"layoutSelector": "a=b"}, "layoutSelector is for tenon-scheduler"},
	} {
		err := Validate(x.given)
		if x.want == "" && err != nil || x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)) {
			t.Errorf("%v: error %v, want %q", x.given, err, x.want)
		}
	}
}

// Under arguments that cannot be read, pods that need alignment wait, and other pods do not.
func TestInvalidArgumentsKeepAlignedPodsWaiting(t *testing.T) {
	c := newCluster(t)
	c.node("n", two, place.SingleNUMA)
	c.arguments = framework.Arguments{"unknownNodes": "Maybe"}
	c.job("aligned", "default", 1, "cpu=4")
	c.job("plain", "default", 1, "cpu=4", func(p *v1.Pod) { p.Spec.Containers[0].Resources.Limits = nil })
	o := c.session("allocate")
	if o.bound["aligned-0"] != "" || !strings.Contains(o.why["aligned-0"], "unknownNodes") {
		t.Errorf("bound %v, reasons %v", o.bound, o.why)
	}
	if o.bound["plain-0"] != "n" {
		t.Error("a pod that needs no alignment waits, too")
	}
}
