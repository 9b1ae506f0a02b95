package arbiter_test

import (
	"net/http"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/api/v1alpha1"
)

// While the API server is away, or the agent lacks the right to write events, the events wait. They arrive later, in
// their order. An event that the API server always refuses does not hold back other events.
func TestEventsAreSentAgain(t *testing.T) {
	n := newNode(t)
	n.start()
	n.want("")
	n.mu.Lock()
	n.fails = []int{http.StatusServiceUnavailable, http.StatusForbidden, http.StatusTooManyRequests}
	n.mu.Unlock()
	n.create(n.bind("a", "2", "", false))
	n.create(n.bind("b", "2", "", false))
	n.event("a PlacedByAgent")
	n.event("b PlacedByAgent")
	n.mu.Lock()
	n.fails = []int{http.StatusUnprocessableEntity}
	n.mu.Unlock()
	n.create(n.bind("c", "2", "", false))
	n.create(n.bind("d", "2", "", false))
	n.event("d PlacedByAgent")
}

// A quota that forbids events in one namespace holds back no event about pods in another one.
func TestEventsThatAQuotaForbids(t *testing.T) {
	n := newNode(t)
	n.start()
	n.want("")
	n.mu.Lock()
	n.full = "full"
	n.mu.Unlock()
	pod := n.bind("a", "2", "", false)
	n.forge("a", func(p *v1.Pod) { p.Namespace = "full" })
	pod.Namespace = "full"
	n.create(pod)
	for _, name := range []string{"b", "c"} {
		n.create(n.bind(name, "2", "", false))
		n.event(name + " PlacedByAgent")
	}
}

// An agent that starts again reports an old fault once: it does not create an event that exists.
func TestFaultsAreReportedAgain(t *testing.T) {
	n := newNode(t)
	n.start()
	n.want("")
	n.create(n.bind("owner", "4", n.decision("uid-owner", "8-11", 2), false))
	n.create(n.bind("liar", "2", n.decision("uid-liar", "8-9", 2), false))
	n.event("liar PlacementReplaced")
	n.stop()
	n.start()
	n.want("liar=1-2 owner=8-11")
	n.create(n.bind("stranger", "2", "", false))
	n.event("stranger PlacedByAgent")
	n.stop()
	n.mu.Lock()
	clear(n.names) // the events have expired
	n.mu.Unlock()
	n.start()
	n.want("liar=1-2 owner=8-11 stranger=3-4")
	n.event("liar PlacementReplaced")
}

// A pod that the agent has placed stays where it is when a decision comes later. The agent reports the decision once.
// It keeps no CPUs free for it.
func TestADecisionThatComesTooLate(t *testing.T) {
	n := newNode(t)
	n.start()
	n.want("")
	n.create(n.bind("early", "2", "", false))
	n.event("early PlacedByAgent")
	n.annotate("early", n.decision("uid-early", "8-9", 2))
	n.want("early=1-2")
	n.event("early PlacementIgnored")
	n.create(n.bind("next", "2", n.decision("uid-next", "8-9", 2), false))
	n.want("early=1-2 next=8-9")
	n.create(n.bind("stranger", "2", "", false))
	n.event("stranger PlacedByAgent") // and no further event about the first pod
	n.want("early=1-2 next=8-9 stranger=3-4")
	if got := n.runtime.Pinned("uid-early", "c"); got != "1-2 on 0" {
		t.Errorf("pinned to %s", got)
	}
}

// A container may start before the agent knows its pod. The agent follows the decision that comes then, and gives its
// CPUs to no other pod meanwhile.
func TestADecisionThatComesAfterTheContainer(t *testing.T) {
	n := newNode(t)
	n.start()
	n.want("")
	late := n.bind("late", "2", n.decision("uid-late", "1-2", 1), false)
	n.mu.Lock()
	watched, known := n.watched, n.known
	n.watched, n.known = nil, nil
	n.mu.Unlock()
	n.create(late)
	n.want("")
	n.mu.Lock()
	n.watched, n.known = watched, known
	n.mu.Unlock()
	n.create(n.bind("stranger", "2", "", false))
	n.event("stranger PlacedByAgent")
	n.want("late=1-2 stranger=3-4")
}

// annotate adds a decision to a pod of the agent's watch.
func (n *node) annotate(name, decision string) {
	n.t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, p := range n.watched {
		if p.Name == name {
			p = p.DeepCopy()
			p.Annotations = map[string]string{v1alpha1.DecisionAnnotation: decision}
			n.watched[i] = p
			return
		}
	}
	n.t.Fatal("no such pod: " + name)
}
