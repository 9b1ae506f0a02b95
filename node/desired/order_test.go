package desired

import (
	"strings"
	"testing"
	"time"

	"github.com/tenon-numa/tenon/core/state"
)

func TestOrderOfAdmission(t *testing.T) {
	when := map[string]int64{"a": 30, "b": 10, "c": 20}
	var o order
	sorted := func(names ...string) string {
		var in []state.Entry
		for _, n := range names {
			in = append(in, state.Entry{Pod: state.PodID{UID: n, Name: n}})
		}
		o = o.sort(in, func(id state.PodID) (started, created time.Time) {
			if s, ok := when[id.UID]; ok {
				started = time.Unix(s, 0)
			}
			return
		})
		out := ""
		for _, e := range in {
			out += e.Pod.Name
		}
		return out
	}
	for _, step := range []struct{ in, want string }{
		{"abc", "bca"}, {"cbadx", "bcadx"}, {"xba", "bax"}, {"cxba", "baxc"},
	} {
		if got := sorted(strings.Split(step.in, "")...); got != step.want {
			t.Errorf("%s is sorted %s, want %s", step.in, got, step.want)
		}
	}
}
