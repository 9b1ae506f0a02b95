package inspect

import (
	"fmt"
	"io"
	"strings"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/score"
)

// mix is the mix of the workload profile, the largest share first.
type mix []document.Share

func (s Source) mix() mix {
	if s.Mix == nil {
		return mix{}
	}
	return shares(s.Mix())
}

// shares returns the shares of a mix in percent, rounded.
func shares(m *score.Mix) mix {
	out, total := mix{}, int64(0)
	shares := m.Shares()
	for _, x := range shares {
		total += x.Weight
	}
	for _, x := range shares {
		out = append(out, document.Share{Percent: (100*x.Weight + total/2) / total,
			Containers: document.Each(x.Pod.Containers, document.Demand)})
	}
	return out
}

func (m mix) text(w io.Writer) {
	if len(m) == 0 {
		fmt.Fprintln(w, "no pods that a node would align were asked for yet")
		return
	}
	for _, u := range m {
		printf(w, "%3d%%  %s\n", u.Percent, strings.Join(u.Containers, " + "))
	}
}

// Text renders a mix in one line, for logs.
func Text(m *score.Mix) string {
	var out []string
	for _, u := range shares(m) {
		out = append(out, fmt.Sprintf("%d%% %s", u.Percent, strings.Join(u.Containers, " + ")))
	}
	return strings.Join(out, "; ")
}
