package chaos

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	podapi "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
	"github.com/tenon-numa/tenon/lab/workload"
)

// gangLabel is the label of a gang's pods. Its value is the name of their PodGroup.
const gangLabel = "gang"

// gang is a group of pods that start together.
type gang struct {
	pods    int             // how many there are
	need    int             // how many have to run at least
	deleted bool            // an action has deleted its PodGroup, or will
	begun   bool            // it runs, or was judged
	lost    bool            // a pod was deleted before it was bound
	blind   bool            // schedulers lacked a right meanwhile
	bound   map[string]bool // UIDs of the pods that were bound
	first   moment          // when the first of them was bound
}

// drawGang draws a gang of equal or different pods, and returns its name. The caller creates the pods, which count as
// alive, after the PodGroup.
func (r *run) drawGang() (name string, g *gang, pods []*v1.Pod) {
	name = fmt.Sprintf("g%05d", r.created)
	g = &gang{pods: 2 + r.rand.IntN(3), bound: map[string]bool{}}
	g.need = g.pods - r.rand.IntN(2)*r.rand.IntN(2)
	pods = r.drawPods(g.pods, 0)
	equal := r.rand.IntN(2) == 0
	for i, p := range pods {
		if equal && i > 0 {
			p.Spec = *pods[0].Spec.DeepCopy()
		}
		p.Labels = map[string]string{gangLabel: name}
		joinGang(p, name)
	}
	r.gangs[name] = g
	return name, g, pods
}

// createGangs creates gangs, each with its PodGroup first.
func (r *run) createGangs(ctx context.Context, n int) error {
	for range n {
		name, g, pods := r.drawGang()
		if err := r.addGroup(ctx, name, g.need); err != nil {
			return err
		}
		for _, p := range pods {
			if err := r.add(ctx, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// deleteGang deletes the PodGroup and the pods of one of the last gangs, in either order, wherever they are on their
// way.
func (r *run) deleteGang(ctx context.Context) error {
	there := slices.DeleteFunc(slices.Sorted(maps.Keys(r.gangs)), func(name string) bool { return r.gangs[name].deleted })
	if len(there) == 0 {
		return nil
	}
	name := there[len(there)-1-r.rand.IntN(min(3, len(there)))]
	r.gangs[name].deleted = true
	r.say("gang %s", name)
	groupFirst := r.rand.IntN(2) == 0
	if groupFirst {
		if err := r.dropGroup(ctx, name); err != nil {
			return err
		}
	}
	lives, _ := r.record.all()
	var pods []string
	for _, l := range membersOf(name, lives) {
		if !l.gone.known() {
			pods = append(pods, l.pod.Name)
		}
	}
	r.alive = slices.DeleteFunc(r.alive, func(pod string) bool { return slices.Contains(pods, pod) })
	if err := r.remove(ctx, pods, nil); err != nil || groupFirst {
		return err
	}
	return r.dropGroup(ctx, name)
}

// forgetGangs deletes the PodGroups whose pods are gone.
func (r *run) forgetGangs(ctx context.Context, lives []life) error {
	for _, name := range slices.Sorted(maps.Keys(r.gangs)) {
		if len(membersOf(name, lives)) > 0 {
			continue
		}
		if err := r.dropGroup(ctx, name); err != nil {
			return err
		}
		delete(r.gangs, name)
	}
	return nil
}

// membersOf returns the pods of a gang, in the order in which they were created.
func membersOf(gang string, lives []life) (out []life) {
	for _, l := range lives {
		if l.pod.Labels[gangLabel] == gang {
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(a, b life) int { return strings.Compare(a.pod.Name, b.pod.Name) })
	return out
}

// incomplete returns the pods of gangs that lack pods, or their PodGroup. No scheduler takes these up, and their
// status has no condition (PreEnqueue of GangScheduling, kube-scheduler 1.37).
func (r *run) incomplete(lives []life) map[string]bool {
	out := map[string]bool{}
	for name, g := range r.gangs {
		there := slices.DeleteFunc(membersOf(name, lives), func(l life) bool { return l.over() })
		for _, l := range there {
			if g.deleted || len(there) < g.need {
				out[string(l.pod.UID)] = true
			}
		}
	}
	return out
}

// isKept reports whether a pod of an incomplete gang is nominated to a node. kube-scheduler nominates pods of a gang
// before it binds them. If it dies then, and another pod of the gang is deleted, it keeps their room from pods of no
// higher priority until the gang is complete or gone: it counts nominations of pods that it does not take up (Add of
// backend/queue/scheduling_queue.go, 1.37).
func (r *run) isKept(node string, lives []life) bool {
	incomplete := r.incomplete(lives)
	return slices.ContainsFunc(lives, func(l life) bool {
		return l.pod.Spec.NodeName == "" && l.pod.Status.NominatedNodeName == node && incomplete[string(l.pod.UID)]
	})
}

// halfGangs returns the gangs that have fewer bound pods than they need. It counts the gangs that may be in that state:
// a member was deleted before it was bound, a right was withdrawn, or the scheduler or the API server was restarted
// after its first pod was bound.
func (r *run) halfGangs(lives []life) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(r.gangs)) {
		g := r.gangs[name]
		for _, l := range membersOf(name, lives) {
			if l.bound.known() {
				g.bound[string(l.pod.UID)] = true
				if !g.first.known() || l.bound.version < g.first.version {
					g.first = l.bound
				}
			}
			g.lost = g.lost || !l.bound.known() && l.over()
		}
		g.blind = g.blind || r.blind()
		bound := len(g.bound)
		if g.begun || bound == 0 || r.blind() {
			continue
		}
		why := ""
		switch {
		case bound >= g.need:
		case g.lost:
			why = "a pod was deleted before it was bound"
		case g.blind:
			why = "a right was withdrawn"
		case slices.ContainsFunc(r.restarts, g.began):
			why = "the API server was restarted"
		case slices.ContainsFunc(r.begun, g.began):
			why = "the scheduler was restarted"
		default:
			out = append(out, fmt.Sprintf("%d pods of gang %s are bound, of %d that it needs%s", bound, name, g.need,
				fates(membersOf(name, lives))))
			continue
		}
		g.begun = true
		r.mu.Lock()
		if why == "" {
			r.result.Gangs++
		} else {
			r.result.Half[why]++
		}
		r.mu.Unlock()
	}
	return out
}

// fates returns the node of each pod, or what its condition has, as text.
func fates(members []life) (out string) {
	for _, l := range members {
		text := "on " + l.pod.Spec.NodeName
		for _, c := range l.pod.Status.Conditions {
			if l.pod.Spec.NodeName == "" && c.Type == v1.PodScheduled {
				text = c.Message
			}
		}
		out += fmt.Sprintf("; %s %s: %s", l.pod.Name, l.pod.UID, text)
	}
	return out
}

// began reports whether the first pod of the gang was bound before a moment.
func (g *gang) began(m moment) bool { return g.first.version < m.version }

// gangsThoughFitting returns the gangs that wait although enough of their pods fit at the same time, by every way to
// spread them over the nodes, in the order in which they were created.
func (r *run) gangsThoughFitting(ctx context.Context, lives []life) (out []string) {
	if r.blind() {
		return nil
	}
	incomplete := r.incomplete(lives)
	for _, name := range slices.Sorted(maps.Keys(r.gangs)) {
		s := spread{least: r.gangs[name].need, nodes: map[string]whatif.Node{}, book: map[string]*state.Node{}}
		why := ""
		for _, l := range membersOf(name, lives) {
			switch {
			case l.over() || incomplete[string(l.pod.UID)]:
			case l.pod.Spec.NodeName != "":
				s.least--
			default:
				s.pods = append(s.pods, l.pod)
				_, why = workload.FateOf(l.pod)
			}
		}
		if len(s.pods) == 0 {
			continue
		}
		s.least = max(s.least, 1)
		if err := r.readSpread(ctx, &s, lives); err != nil {
			return append(out, err.Error())
		}
		if at := s.find(0); at != nil {
			for i, p := range s.pods {
				at[min(i, len(at)-1)] += fmt.Sprintf(" %s %s\n%s", p.Name, requests(p), r.inspect("pods/"+p.Namespace+"/"+p.Name))
			}
			out = append(out, fmt.Sprintf("gang %s waits though its pods fit: %s; the condition of one is: %s", name,
				strings.Join(at, ", "), why))
		}
	}
	return out
}

// spread is a search for nodes for the pods of a gang: all ways are tried.
type spread struct {
	pods  []*v1.Pod
	least int
	nodes map[string]whatif.Node // amounts, as the API server has them
	book  map[string]*state.Node // as the ledger has them
}

// readSpread reads the nodes that may take pods.
func (r *run) readSpread(ctx context.Context, s *spread, lives []life) error {
	snap := r.tenon.Shared.Book.Snapshot()
	for _, n := range nodes {
		x := snap.Node(n.Name)
		if x == nil || r.hasAilment(n.Name) || r.isKept(n.Name, lives) {
			continue
		}
		node, err := r.client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("get node %s: %w", n.Name, err)
		}
		w := whatif.Node{Name: n.Name}
		w.Allocatable, _ = kube.Amounts(node.Status.Allocatable)
		for _, l := range lives {
			if !l.over() && l.pod.Spec.NodeName == n.Name {
				w.Used = w.Used.Add(needs(l.pod))
			}
		}
		s.book[n.Name], s.nodes[n.Name] = x, w
	}
	return nil
}

// needs returns the amounts that a pod requests.
func needs(p *v1.Pod) whatif.Amounts {
	out, _ := kube.Needs(p)
	return out
}

// find returns nodes for enough of the pods from index i on, as text in the order of the pods, or nil.
func (s *spread) find(i int) []string {
	if s.least <= 0 {
		return []string{}
	}
	if len(s.pods)-i < s.least {
		return nil
	}
	p := s.pods[i]
	asks, err := podapi.ToPlace(p)
	for _, n := range nodes {
		x, amounts := s.book[n.Name], s.nodes[n.Name]
		if err != nil || x == nil || !x.Place(asks, place.Demand{}).Fits() ||
			len(amounts.Lacks(needs(p))) > 0 {
			continue
		}
		s.book[n.Name], _ = x.With(state.PodID{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)}, asks)
		more := amounts
		more.Used = more.Used.Add(needs(p))
		s.nodes[n.Name] = more
		s.least--
		rest := s.find(i + 1)
		s.book[n.Name], s.nodes[n.Name] = x, amounts
		if s.least++; rest != nil {
			return append([]string{p.Name + ": " + n.Name}, rest...)
		}
	}
	return s.find(i + 1)
}
