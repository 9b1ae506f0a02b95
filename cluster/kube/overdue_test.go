package kube

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// runningSince returns the pod bound to node n and admitted at a time.
func runningSince(p *v1.Pod, at time.Time) *v1.Pod {
	p = bind(p, "n", at)
	p.Status.StartTime = &metav1.Time{Time: at}
	return p
}

func mustPlace(t *testing.T, p *v1.Pod) *place.Pod {
	t.Helper()
	out, err := apipod.ToPlace(p)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// writtenAt returns the layout as its agent wrote it at a time.
func writtenAt(l *v1alpha1.NodeLayout, at time.Time) *v1alpha1.NodeLayout {
	l.ManagedFields = []metav1.ManagedFieldsEntry{{Time: &metav1.Time{Time: at}},
		{Time: &metav1.Time{Time: at.Add(time.Hour)}, Subresource: "status"}}
	return l
}

// A node whose agent has stopped is silent a minute after it admitted a pod, and the pod delays no others any more.
func TestANodeThatDoesNotReportAPodIsSilent(t *testing.T) {
	book := ledger.New()
	f := begun(book)
	var due []func()
	f.later = func(after time.Duration, do func()) {
		if after == reportDue {
			due = append(due, do)
		}
	}
	f.Layout(writtenAt(layoutOf(t, "n", 1), noon.Add(-time.Hour)))
	f.Pod(runningSince(four("x"), noon))
	if n := book.Snapshot().Node("n"); n.Silent || len(due) != 1 {
		t.Fatalf("silent %v, %d timers: want one", n.Silent, len(due))
	}
	due[0]()
	n := book.Snapshot().Node("n")
	if !n.Silent || len(n.Unlisted) != 1 || n.Unlisted[0].Name != "x" || n.Unsettled {
		t.Errorf("silent %v, unlisted %v, unsettled %v", n.Silent, n.Unlisted, n.Unsettled)
	}
	f.Layout(writtenAt(layoutOf(t, "n", 2, n.Entries...), noon.Add(2*time.Minute)))
	if n := book.Snapshot().Node("n"); n.Silent || len(n.Unlisted) != 0 {
		t.Errorf("after a report: silent %v, unlisted %v", n.Silent, n.Unlisted)
	}
}

// An agent that has reported since, without the pod, is not silent: the pod is named, and delays no others.
func TestAPodThatAnAgentOmitsIsNamed(t *testing.T) {
	for name, leaves := range map[string]bool{"runs": false, "is being deleted": true} {
		t.Run(name, func(t *testing.T) {
			book := ledger.New()
			f := begun(book)
			var due []func()
			f.later = func(after time.Duration, do func()) {
				if after == reportDue {
					due = append(due, do)
				}
			}
			f.Layout(layoutOf(t, "n", 1))
			p := runningSince(four("x"), noon)
			f.Pod(p)
			f.Layout(writtenAt(layoutOf(t, "n", 2), noon.Add(30*time.Second)))
			if leaves {
				p = p.DeepCopy()
				p.DeletionTimestamp = &metav1.Time{Time: noon}
				f.Pod(p)
			}
			due[0]()
			if n := book.Snapshot().Node("n"); n.Silent || (len(n.Unlisted) == 1) == leaves {
				t.Errorf("silent %v, unlisted %v", n.Silent, n.Unlisted)
			}
		})
	}
}

// A command reads the cluster once: times of the objects take the place of timers.
func TestAReaderFindsSilentNodes(t *testing.T) {
	view := func(written, at time.Time) *state.Node {
		l := writtenAt(layoutOf(t, "n", 1), written)
		v := ViewOf([]v1alpha1.NodeLayout{*l}, nil, []v1.Pod{*runningSince(four("x"), noon)}, nil, at)
		return v.States[0]
	}
	if n := view(noon.Add(-time.Hour), noon.Add(59*time.Second)); n.Silent || len(n.Unlisted) != 0 {
		t.Errorf("before the bound: silent %v, unlisted %v", n.Silent, n.Unlisted)
	}
	if n := view(noon.Add(-time.Hour), noon.Add(time.Minute)); !n.Silent || len(n.Unlisted) != 1 {
		t.Errorf("no report since: silent %v, unlisted %v", n.Silent, n.Unlisted)
	}
	n := view(noon.Add(time.Minute), noon.Add(2*time.Minute))
	if n.Silent || len(n.Unlisted) != 1 {
		t.Errorf("reported without the pod: silent %v, unlisted %v", n.Silent, n.Unlisted)
	}
	if !n.Place(mustPlace(t, four("y")), place.Demand{}).Fits() {
		t.Error("the node takes no other pods")
	}
}

// A command sees a pod in a layout and not at the API server. Where the layout is fresh, the agent may be about to
// write another one; where it is not, both states are possible, and pods that fit in both have a place.
func TestAReaderSeesLayoutsThatListPodsThatAreGone(t *testing.T) {
	listed := state.Entry{Pod: state.PodID{UID: "gone", Namespace: "default", Name: "gone"}, Source: state.Observed,
		Holdings: []place.Holding{{Container: "c", CPUs: idset.Of[idset.CPU](1, 2, 3, 9, 10, 11)}}}
	view := func(age time.Duration) *state.Node {
		l := writtenAt(layoutOf(t, "n", 1, listed), noon.Add(-age))
		return ViewOf([]v1alpha1.NodeLayout{*l}, nil, nil, nil, noon).States[0]
	}
	if n := view(10 * time.Second); !n.Unsettled {
		t.Error("10 seconds after the layout was written, no report is awaited")
	}
	n := view(time.Hour)
	if n.Unsettled || n.Silent || len(n.Others) != 1 {
		t.Errorf("unsettled %v, silent %v, %d other states; want one other state", n.Unsettled, n.Silent, len(n.Others))
	}
	if !n.Fits(mustPlace(t, cpus("small", 4))) || n.Fits(mustPlace(t, cpus("large", 7))) {
		t.Error("beside the pod 4 CPUs are free on each NUMA node: as many have to fit, and 7 not")
	}
}

// A scheduler that starts finds a pod in a layout and not at the API server. If the node's agent writes no other layout
// within reportDue, the node is silent, and pods that fit with and without the pod have a place.
func TestANodeThatHasReportedAPodThatIsGoneIsSilent(t *testing.T) {
	listed := state.Entry{Pod: state.PodID{UID: "gone", Namespace: "default", Name: "gone"}, Source: state.Observed,
		Holdings: []place.Holding{{Container: "c", CPUs: idset.Of[idset.CPU](1, 2, 3, 9, 10, 11)}}}
	book := ledger.New()
	f := NewFeed(book, nil, nil)
	var due []func()
	f.later = func(after time.Duration, do func()) {
		if after == 0 {
			do()
		} else if after == reportDue {
			due = append(due, do)
		}
	}
	var freed []string
	f.OnFreed(func(node string) { freed = append(freed, node) })
	f.Layout(writtenAt(layoutOf(t, "n", 1, listed), noon))
	f.Begin()
	if n := book.Snapshot().Node("n"); n.Silent || !n.Unsettled || len(due) != 1 {
		t.Fatalf("silent %v, unsettled %v, %d timers: want one", n.Silent, n.Unsettled, len(due))
	}
	due[0]()
	if n := book.Snapshot().Node("n"); !n.Silent || n.Unsettled || len(n.Others) != 1 {
		t.Errorf("silent %v, unsettled %v, %d other states; want one other state", n.Silent, n.Unsettled, len(n.Others))
	}
	if !slices.Equal(freed, []string{"n"}) {
		t.Errorf("pods that wait are told of %v, want of n", freed)
	}
}
