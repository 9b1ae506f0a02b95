package cli

import (
	"bufio"
	"fmt"
	"io"
	"slices"
)

// This file writes what predictions about the devices of claims leave out.

// unreadRules is what they leave out.
const unreadRules = "DeviceTaintRules are not read: a device that one of them taints counts as free"

// warnRules warns once if the devices of some workload's claims are predicted.
func warnRules(w io.Writer, tasks []*task) {
	if slices.ContainsFunc(tasks, func(t *task) bool { return t.workload.Want != nil && t.workload.Want.Devices != nil }) {
		fmt.Fprintf(w, "Warning: %s\n", unreadRules)
	}
}

// writeRules writes what is left out, if the devices of the pod's claims are predicted.
func (e *explanation) writeRules(b *bufio.Writer) {
	if e.pod.Devices != nil && e.pod.Node == "" {
		fmt.Fprintln(b)
		writeWrapped(b, "", unreadRules+".")
	}
}
