package cli

import (
	"fmt"
	"io"
)

// Partial is a [Cluster] or a [Stage] that may lack a part of the cluster, because the user may not read that part.
type Partial interface {
	// Partial describes what was not read and how answers suffer from it; "" where everything was read.
	Partial() string
}

// writePartial warns of missing parts of a source. Commands call it after their output, because a source knows them
// only then.
func writePartial(w io.Writer, sources ...any) {
	for _, s := range sources {
		if p, ok := s.(Partial); ok && p.Partial() != "" {
			fmt.Fprintln(w, shown("Warning: "+p.Partial()))
			return
		}
	}
}
