package whatif

import (
	"errors"
	"strconv"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/score"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// Machine is a number of equal nodes, described by their machine and kubelet configuration alone.
type Machine struct {
	Name    string
	Machine *topo.Machine
	Rules   place.Rules
	// Allocatable is what the kubelet would let all pods have; missing values are computed from machine and rules.
	Allocatable Amounts
	// Copies is the number of nodes; several are named NAME-1, NAME-2 and so on.
	Copies int
}

// Workload is a number of pods to place: the pods of one object, or one pod that has to leave its node.
type Workload struct {
	// Kind, Namespace and Name identify the object, such as "Deployment", "ml" and "trainer".
	Kind, Namespace, Name string
	// Count is how many pods there are.
	Count int
	// More: the pods are additional copies of an existing pod, and cannot have its name.
	More bool
	// PerNode: the workload has one pod on every node that its Bars do not exclude, and Count is not used.
	PerNode bool
	Want    *Want
	// Unjudged describes for people the pods' other requirements on a node, which simulations do not check.
	Unjudged []string
	// UnjudgedDevices are the entries of Unjudged about devices of claims (DRA).
	UnjudgedDevices []string
	// Asked: the API server has accepted the pod in a dry run, and the pod has the fields that the API server adds.
	Asked bool
	// Refused is why the API server refuses the object although it accepts its pods; "" if no reason is known.
	Refused string
	// Scheduler is the name of the pods' scheduler; "" for the default one. Schedulers are the known ones.
	Scheduler  string
	Schedulers []string
	// Misspelt has the names of annotations and labels on the pods that no program reads.
	Misspelt []string
	// Claims describes the claims of devices (DRA) that the pods name, and LackedClaims has what of them is missing or
	// wrong. Both are empty if nothing looked for the claims.
	Claims, LackedClaims []string
	// Unequal has the containers that keep the pods from being Guaranteed, and why.
	Unequal []string
	// Group is the name of the PodGroup that the pods name, in their namespace; "" if they name none.
	Group string
	// Gang names for people the pods with which a scheduler starts an existing pod, or not at all, such as "PodGroup
	// ml/train"; "" if the pod starts alone.
	Gang string
	// Ungrouped: the API server drops the name of the PodGroup from the pods.
	Ungrouped bool
	// Guessed: Count is a guess, since the kind of the object is not known.
	Guessed bool
	// Late tells which of its pods the controller makes only when others run.
	Late Late
	// Rank is the priority of its pods.
	Rank Rank
	// Preempts is their preemptionPolicy; "" if it is not known.
	Preempts string
	// Held: the pod exists, and no scheduler places it now: it has scheduling gates, or is being deleted.
	Held bool
	// Ending: the pod exists, and is being deleted.
	Ending bool
}

// Rank is a priority of pods or of a group, as far as it is known.
type Rank struct {
	Class string // the name of the priority class; "" for the default one
	// Priority is nil if only the class is known.
	Priority *int32
}

// Number returns the priority, or 0 if only the class is known.
func (r Rank) Number() int32 {
	if r.Priority == nil {
		return 0
	}
	return *r.Priority
}

// Equals reports whether two priorities are equal. known is false if they are of different classes whose priorities are
// not known.
func (r Rank) Equals(o Rank) (equal, known bool) {
	switch {
	case r.Class == o.Class && (r.Priority == nil || o.Priority == nil):
		return true, true
	case r.Priority == nil || o.Priority == nil:
		return false, false
	}
	return *r.Priority == *o.Priority, true
}

// Late is about an object that makes some of its pods only when other pods of it run. The zero Late is about one that
// makes all pods at once.
type Late struct {
	// First is how many of the pods are made before.
	First int
	// Until is when the others are made, such as "gets its next pod when the one before it runs", and Remedy is what
	// makes all pods at once; both are for people. Until is empty if all are made at once.
	Until, Remedy string
}

// AtOnce returns how many of n pods of the workload are made before any of them runs.
func (w *Workload) AtOnce(n int) int {
	if w.Late.Until == "" {
		return n
	}
	return min(n, w.Late.First)
}

// String names the object, for example "Deployment ml/trainer".
func (w *Workload) String() string { return w.Kind + " " + w.Namespace + "/" + w.Name }

// ID returns the id of the i-th pod. turn is the object's index among all objects, which makes UIDs unique.
func (w *Workload) ID(turn, i int) state.PodID {
	out := state.PodID{UID: "whatif-" + strconv.Itoa(turn) + "-" + strconv.Itoa(i), Namespace: w.Namespace, Name: w.Name}
	if w.Count != 1 || w.PerNode || w.More {
		out.Name += "-" + strconv.Itoa(i)
	}
	return out
}

// Left names the objects of a file that do not become workloads. NoPods are objects that are not known to have pods;
// NotJudged are objects whose pods are not judged, with the cause. Groups are the PodGroups.
type Left struct {
	NoPods, NotJudged []string
	Groups            []Group
}

// ErrNoPods is the error about a file of workloads that has no pods which can be judged.
var ErrNoPods = errors.New("no pods that can be judged")

// Usual returns the workload profile of a cluster after requests for the pods of all workloads, as the scheduler
// would learn it. past are the pods requested before these, newest last. A workload with an unknown number of pods
// (Count is 0) counts once.
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
