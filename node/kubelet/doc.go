// Package kubelet reads a kubelet's view of its node: the configuration that decides on alignment, the podresources
// service, and the state files of its CPU, memory and device managers.
//
// No single source is enough. The service names pods by namespace and name, and omits init containers and memory blocks
// of zero bytes. The files have all of these, by UID, but keep pods that are gone until the kubelet next admits a pod.
// [Observation.Entries] joins the sources: it returns only pods that the service lists, with the holdings of the files
// if there are files.
//
// Invariant: the package writes nothing and guesses nothing. It refuses files and answers beyond its bounds with an
// error that names the file and the value. Contradictory data of one pod affects only that pod. The package reads the
// formats of Kubernetes 1.30 to 1.37.
package kubelet

import (
	"fmt"
	"io"
	"io/fs"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/printable"
	"github.com/tenon-numa/tenon/core/topo"
)

// Bounds on what is read.
const (
	maxFile       = 16 << 20                      // bytes of one state file, or one answer of the service
	maxConfig     = 1 << 20                       // bytes of a configuration
	maxPods       = 2048                          // pods in one source
	maxContainers = 8192                          // containers, or entries of one state file
	maxBlocks     = 4096                          // memory blocks, or devices, of one container
	maxBytes      = topo.MaxNUMAs * topo.MaxBytes // bytes of one memory block
)

// read returns the content of a file. A file of more than the given number of bytes is an error.
func read(fsys fs.FS, name string, limit int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("read %s: more than %d bytes", name, limit)
	}
	return data, nil
}

// within returns an error if a number is outside the bounds, 0 and the given maximum. what names the number.
func within(what string, n, limit int) error {
	if n < 0 || n > limit {
		return fmt.Errorf("%s: %d is outside 0..%d", what, n, limit)
	}
	return nil
}

// checkName returns an error if the name s is empty or longer than topo.MaxName bytes. what names its kind.
func checkName(what, s string) error {
	if s == "" || len(s) > topo.MaxName {
		return fmt.Errorf("%s of %d bytes is outside 1..%d", what, len(s), topo.MaxName)
	}
	return nil
}

// ids makes a set of the ids in a file or an answer. An id outside 0..idset.Max, or too many ids, are an error.
func ids[T ~int, N int | int64](in []N) (idset.Set[T], error) {
	out := make([]T, 0, min(len(in), idset.Max+1))
	for _, n := range in {
		if n < 0 || n > idset.Max {
			return idset.Set[T]{}, fmt.Errorf("id %d is outside 0..%d", n, idset.Max)
		}
		if len(out) > idset.Max {
			return idset.Set[T]{}, fmt.Errorf("more than %d ids", idset.Max+1)
		}
		out = append(out, T(n))
	}
	return idset.Of(out...), nil
}

// clip shortens a text of the kubelet or a person for an error.
func clip(s string) string { return printable.Clip(s, 60) }
