package report

import (
	"fmt"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/api/document"
	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// Misaligned counts the misaligned pods in the nodes' reports, and records one event for each. A pod that started
// before this scheduler gets no event, because the previous scheduler recorded it.
type Misaligned struct {
	snapshot func() *ledger.Snapshot
	pods     func(node string) []*v1.Pod
	events   *Events
	since    time.Time

	mu sync.Mutex
	// judged has, by node and by UID, whether a reported pod that holds something on several NUMA nodes is misaligned. It
	// has no other pods, and no nodes without such pods.
	judged map[string]map[string]bool
}

// NewMisaligned returns a Misaligned that counts the misaligned pods of a ledger. It records events only for pods
// that did not start before since.
func NewMisaligned(snapshot func() *ledger.Snapshot, events *Events, since time.Time) *Misaligned {
	return &Misaligned{snapshot: snapshot, events: events, since: since, judged: map[string]map[string]bool{}}
}

// Of sets the function that returns the pods of a node. Until then no pod is judged. Call it before anything is
// reported.
func (m *Misaligned) Of(pods func(node string) []*v1.Pod) { m.pods = pods }

// Reported judges the pods of a layout that the ledger has accepted, except pods that were judged with an earlier
// report.
func (m *Misaligned) Reported(l *v1alpha1.NodeLayout) {
	node := m.snapshot().Node(l.Name)
	if node == nil || m.pods == nil {
		return
	}
	m.mu.Lock()
	before := m.judged[l.Name]
	m.mu.Unlock()
	results := map[string]bool{}
	var specs map[string]*v1.Pod
	for _, e := range node.Entries {
		if result, known := before[e.Pod.UID]; known {
			results[e.Pod.UID] = result
			continue
		}
		if e.Source != state.Observed || place.ExtentOf(node.Machine, e.Holdings...).NUMAs.Len() < 2 {
			continue
		}
		if specs == nil {
			specs = podsByUID(m.pods(l.Name))
		}
		// A pod that the informer does not have yet is judged with the next report.
		if pod := specs[e.Pod.UID]; pod != nil {
			results[e.Pod.UID] = m.judge(node, pod, e)
		}
	}
	m.mu.Lock()
	if m.judged[l.Name] = results; len(results) == 0 {
		delete(m.judged, l.Name)
	}
	m.mu.Unlock()
}

func podsByUID(pods []*v1.Pod) map[string]*v1.Pod {
	out := map[string]*v1.Pod{}
	for _, p := range pods {
		out[string(p.UID)] = p
	}
	return out
}

// judge reports whether a pod is misaligned, and records the event if it is. A pod that cannot be translated is not.
func (m *Misaligned) judge(node *state.Node, pod *v1.Pod, e state.Entry) bool {
	spec, err := apipod.ToPlace(pod)
	if err != nil {
		return false
	}
	all := place.Alignments(node.Usage.Ideal(), spec, e.Holdings)
	if !place.Misaligned(all) {
		return false
	}
	if start := pod.Status.StartTime; start == nil || !start.Time.Before(m.since) {
		m.events.Misaligned(pod, misalignedText(node, all))
	}
	return true
}

// misalignedText returns which containers are misaligned, and which policy allowed it.
func misalignedText(node *state.Node, all []place.Alignment) string {
	var out []string
	for _, a := range all {
		if !a.Misaligned() {
			continue
		}
		who := "the pod"
		if a.Container != "" {
			who = fmt.Sprintf("container %q", a.Container)
		}
		out = append(out, fmt.Sprintf("%s holds parts of %s, and on the empty node would hold parts of %s", who,
			extentText(node.Machine, a.Held), extentText(node.Machine, a.Best)))
	}
	return fmt.Sprintf("node %s (topologyManagerPolicy %s): %s", node.Name, node.Rules.Topology.Policy,
		strings.Join(out, "; "))
}

func extentText(m *topo.Machine, e place.Extent) string {
	text := document.NUMANodes(document.NUMAs(m, e.NUMAs))
	if e.Distance > 0 && e.NUMAs.Len() > 1 {
		text += fmt.Sprintf(" (distance %d)", e.Distance)
	}
	return text
}

// Count returns the number of misaligned pods on the ledger's nodes.
func (m *Misaligned) Count() (n int) {
	known := m.snapshot()
	m.mu.Lock()
	defer m.mu.Unlock()
	for node, pods := range m.judged {
		if known.Node(node) == nil {
			delete(m.judged, node)
			continue
		}
		for _, misaligned := range pods {
			if misaligned {
				n++
			}
		}
	}
	return n
}
