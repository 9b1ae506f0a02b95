package whatif

import (
	"strconv"

	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/score"
	"github.com/tenon-numa/tenon/core/topo"
)

// Machine is nodes of which only a machine and its kubelet's configuration are known.
type Machine struct {
	Name    string
	Machine *topo.Machine
	Rules   place.Rules
	// Allocatable is what the kubelet would let all pods have; what is missing follows from machine and rules.
	Allocatable Amounts
	// Copies is how many nodes there are; several are named NAME-1, NAME-2 and so on.
	Copies int
}

// Workload is pods that are to be placed: those of one object, or one that has to leave its node.
type Workload struct {
	// Kind and Name are the object's, such as "Deployment" and "trainer".
	Kind, Namespace, Name string
	// Count is how many pods there are.
	Count int
	// More: the pods are more of one that is there, whose name they cannot have.
	More bool
	// PerNode: there is one on every node that does not bar it, and Count says nothing.
	PerNode bool
	Want    *Want
	// Unjudged is what else the pods ask of a node and no simulation looks at, in words.
	Unjudged []string
	// Unequal says which containers keep the pods from being Guaranteed, and by what.
	Unequal []string
}

// String names the object, for example "Deployment ml/trainer".
func (w *Workload) String() string { return w.Kind + " " + w.Namespace + "/" + w.Name }

// ID names the i-th of the pods. The UIDs of different objects differ by what comes before: turn is the
// object's place among all.
func (w *Workload) ID(turn, i int) ledger.PodID {
	out := ledger.PodID{UID: "whatif-" + strconv.Itoa(turn) + "-" + strconv.Itoa(i), Namespace: w.Namespace, Name: w.Name}
	if w.Count != 1 || w.PerNode || w.More {
		out.Name += "-" + strconv.Itoa(i)
	}
	return out
}

// Usual returns what a cluster usually runs once it has been asked for some pods, as the scheduler learns it:
// past are those that it was asked for before, the newest last. A workload of which nobody knows how many
// there will be counts once.
func Usual(past []*place.Pod, all []*Workload) *score.Mix {
	r := score.NewRecent()
	for i, p := range past {
		r.Add("past-"+strconv.Itoa(i), p)
	}
	for i, w := range all {
		for k := range min(max(1, w.Count), score.Remembered) {
			r.Add(strconv.Itoa(i)+"-"+strconv.Itoa(k), w.Want.Pod)
		}
	}
	return r.Mix()
}
