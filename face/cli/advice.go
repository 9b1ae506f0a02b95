package cli

import (
	"bufio"

	"github.com/tenon-numa/tenon/core/whatif"
)

// writeAdvice writes which small change would give the pod CPUs of its own and aligned memory, as check does. It writes
// nothing if no such change is known.
func (e *explanation) writeAdvice(b *bufio.Writer) {
	var nodes []whatif.Node
	for _, v := range e.verdicts {
		nodes = append(nodes, e.on(v.name, v.node))
	}
	said := e.pod.Pod.Plain() || e.pod.Pod.PodLevel // the text before it names what is wrong
	for _, a := range whatif.NearlyGuaranteed(e.pod.Pod, nil, nodes) {
		if said {
			writeWrapped(b, "  ", "Remedy: "+a.Remedy+".")
		} else {
			writeWrapped(b, "", "Warning: "+a.String()+".")
		}
	}
}
