package cli

import (
	"fmt"
	"io"
)

// Partial is a [Cluster] or a [Stage] that may lack a part of the cluster, because the user may not read that part.
type Partial interface {
	// Partial describes what was not read and how that affects the answers; "" if everything was read.
	Partial() string
}

// writePartial warns of what the first incomplete source lacks. Run calls it after the command, because a source
// knows what it lacks only when it was read.
func writePartial(w io.Writer, sources ...any) {
	for _, s := range sources {
		if text := partialText(s); text != "" {
			fmt.Fprintln(w, sanitized("Warning: "+text))
			return
		}
	}
}

// partialText returns what a source lacks; "" if it lacks nothing, or does not describe that.
func partialText(source any) string {
	if p, ok := source.(Partial); ok {
		return p.Partial()
	}
	return ""
}
