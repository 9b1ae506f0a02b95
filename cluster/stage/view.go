package stage

import (
	"slices"
	"sync"
	"time"

	"github.com/tenon-numa/tenon/cluster/allocate"
	claimed "github.com/tenon-numa/tenon/cluster/held"
	"github.com/tenon-numa/tenon/cluster/kube"
)

// Of makes a stage of a view. The stage keeps the view's nodes and pods, which must not be changed any more.
func Of(v *kube.View) (*Stage, error) { return OfAgain(v, &Requests{}) }

// OfAgain is Of for callers that make many stages of one cluster: of has what pods request from the stage before.
func OfAgain(v *kube.View, of *Requests) (*Stage, error) {
	s, err := assemble(v.Nodes, v.States, v.Pods, of)
	if err != nil {
		return nil, err
	}
	s.seen, s.partial = v.Seen, v.Partial()
	s.addUnseen()
	s.storage, s.namespaces = newStorage(v.Storage), v.Namespaces
	s.admission = v.Admission
	s.served, s.claims, s.published = v.Served, claimed.Of(v), v.Devices
	if v.Devices != nil && v.Classes != nil {
		s.allocator = func(released map[string]bool) *allocate.Cluster {
			return allocate.New(without(v, released), time.Now)
		}
		s.allocate()
	}
	for i := range s.nodes {
		s.nodes[i].Served = v.Served
		if k := v.Kept[s.nodes[i].Name]; k != nil {
			s.nodes[i].Kept = k.Amounts
		}
	}
	return s, nil
}

// allocate has the stage judge devices of claims, without those that are kept for released requests.
func (s *Stage) allocate() {
	of, released := s.allocator, s.released
	s.allocates = sync.OnceValue(func() *allocate.Cluster { return of(released) })
}

// without returns a view in which no devices are kept for some requests.
func without(v *kube.View, requests map[string]bool) *kube.View {
	if len(requests) == 0 {
		return v
	}
	out := *v
	out.Kept = map[string]*kube.Kept{}
	for node, k := range v.Kept {
		with := *k
		with.Devices = slices.DeleteFunc(slices.Clone(k.Devices), func(d kube.KeptDevice) bool { return requests[d.Request] })
		out.Kept[node] = &with
	}
	return &out
}
