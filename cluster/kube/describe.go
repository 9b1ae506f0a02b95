package kube

import (
	"fmt"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// Describe returns one line about an outcome. m is the machine of its node, or nil.
func Describe(m *topo.Machine, o state.Outcome) string {
	predicted := document.Text(m, o.Predicted)
	if o.Result == state.Rejected {
		return fmt.Sprintf("pod %s on node %s: refused (%s): predicted %s", o.Pod, o.Node, o.Error, predicted)
	}
	return fmt.Sprintf("pod %s on node %s: %s: predicted %s, seen %s", o.Pod, o.Node, o.Result, predicted,
		document.Text(m, o.Seen))
}
