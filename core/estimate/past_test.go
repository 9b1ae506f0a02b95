package estimate

import (
	"testing"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
)

// options returns the CPUs of every option of a pod.
func options(p *Past, u *place.Usage) (out string, only bool) {
	hs, only := p.Options(u)
	for _, h := range hs {
		out += h[0].CPUs.String() + " "
	}
	return out, only
}

func cpus(ids ...idset.CPU) []place.Holding {
	return []place.Holding{{Container: "c", CPUs: idset.Of(ids...)}}
}

// An allocation that was possible stays possible, whatever is predicted later, until another pod holds it.
func TestPastAllocationsStayPossible(t *testing.T) {
	u := newKubelet(place.SingleNUMA, place.PerContainer).empty
	var p Past
	if got, only := options(&p, u); got != "" || only || p.More() {
		t.Errorf("a pod without a past has options %q", got)
	}
	p.Keep([][]place.Holding{cpus(0, 1), cpus(2, 3)}, false, 2)
	p.Keep([][]place.Holding{cpus(0, 1)}, false, 2)
	if got, only := options(&p, u); got != "0-1 2-3 " || !only || p.More() {
		t.Errorf("remembered are %q, only %v, more %v", got, only, p.More())
	}
	if got, _ := options(&p, u.Hold(cpus(2)...)); got != "0-1 " {
		t.Errorf("CPU 2 is held, and possible are %q", got)
	}
	p.Keep([][]place.Holding{cpus(4)}, false, 2)
	if !p.More() {
		t.Error("a third option was dropped, and More is false")
	}
}

// An end beside an admission leaves both orders open, unless the admission was long ago.
func TestAnEndBesideAnAdmission(t *testing.T) {
	u := newKubelet(place.SingleNUMA, place.PerContainer).empty
	for name, c := range map[string]struct{ admitted, settled, only bool }{
		"not known to be admitted": {false, false, true}, // called only for such pods
		"admitted":                 {true, false, false},
		"admitted long ago":        {true, true, true},
	} {
		var p Past
		p.Keep([][]place.Holding{cpus(0)}, false, 2)
		if c.settled {
			p.Settle()
		}
		p.Widen(c.admitted)
		if _, only := options(&p, u); only != c.only {
			t.Errorf("%s: nothing else is possible: %v, want %v", name, only, c.only)
		}
		p.Close([][]place.Holding{cpus(0), cpus(5)}, false)
		if got, only := options(&p, u); !only || !c.only && got != "0 5 " || c.only && got != "0 " {
			t.Errorf("%s: then %q is possible, only %v", name, got, only)
		}
	}
}
