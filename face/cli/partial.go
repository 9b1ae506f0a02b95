package cli

import (
	"fmt"
	"io"
)

// Partial is a [Cluster] or a [Stage] that may lack a part of the cluster, because the person may not read it.
type Partial interface {
	// Partial describes what was not read, and what that means for answers; "" if everything was.
	Partial() string
}

// writePartial warns of what a source lacks. Commands write it after their output, because a source knows it only then.
func writePartial(w io.Writer, sources ...any) {
	for _, s := range sources {
		if p, ok := s.(Partial); ok && p.Partial() != "" {
			fmt.Fprintln(w, shown("Warning: "+p.Partial()))
			return
		}
	}
}
