package stage

import (
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
	s.served, s.claims = v.Served, claimed.Of(v)
	if v.Devices != nil && v.Classes != nil {
		s.allocates = sync.OnceValue(func() *allocate.Cluster { return allocate.New(v, time.Now) })
	}
	for i := range s.nodes {
		s.nodes[i].Served = v.Served
		if k := v.Kept[s.nodes[i].Name]; k != nil {
			s.nodes[i].Kept = k.Amounts
		}
	}
	return s, nil
}
