package inspect

import (
	"fmt"
	"io"
	"strings"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/score"
	"github.com/tenon-numa/tenon/core/topo"
)

// Mix is what the cluster usually runs; first the shape that takes most of it.
type Mix []Usual

// Usual is one shape of pods.
type Usual struct {
	Percent int64 `json:"percent"` // of the pods that count
	// Containers are what each container asks for, init containers first.
	Containers []string `json:"containers"`
}

func (s Source) mix() Mix {
	out, total := Mix{}, int64(0)
	if s.Mix == nil {
		return out
	}
	shares := s.Mix().Shares()
	for _, x := range shares {
		total += x.Weight
	}
	for _, x := range shares {
		u := Usual{Percent: (100*x.Weight + total/2) / total}
		for i := range x.Pod.Containers {
			u.Containers = append(u.Containers, requests(&x.Pod.Containers[i]))
		}
		out = append(out, u)
	}
	return out
}

// requests renders what a container asks for, such as "4 cpu, 8Gi memory, 1 acme.com/gpu".
func requests(c *place.Container) string {
	var out []string
	if c.MilliCPU > 0 {
		out = append(out, strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%d.%03d", c.MilliCPU/1000, c.MilliCPU%1000), "0"), ".")+" cpu")
	}
	for _, a := range c.Memory {
		out = append(out, topo.FormatBytes(a.Bytes)+" "+a.Kind)
	}
	for _, d := range c.Devices {
		out = append(out, fmt.Sprintf("%d %s", d.N, d.Resource))
	}
	text := strings.Join(out, ", ")
	switch c.Kind {
	case place.Init:
		text = "init: " + text
	case place.Sidecar:
		text = "sidecar: " + text
	}
	return text
}

func (m Mix) text(w io.Writer) {
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
	for _, u := range (Source{Mix: func() *score.Mix { return m }}).mix() {
		out = append(out, fmt.Sprintf("%d%% %s", u.Percent, strings.Join(u.Containers, " + ")))
	}
	return strings.Join(out, "; ")
}
