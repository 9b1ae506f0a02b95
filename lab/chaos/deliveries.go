package chaos

import (
	"errors"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/lab/scheduler"
)

// deliveries are the objects that the API server has sent to one scheduler, with the time at which the scheduler's own
// handlers received them. A scheduler can have no other information.
type deliveries struct {
	began moment // when the scheduler was started

	mu      sync.Mutex
	bound   map[string]time.Time // when the scheduler received that a pod is bound, by UID
	over    map[string]time.Time // when it received that a pod has ended or is gone
	layouts map[string][]report  // of every node, oldest first
	bases   map[string]*v1alpha1.Base
	waiting map[string]*v1alpha1.NodeLayout // layouts whose base has not been received, by node
}

// report is one layout that a scheduler has received.
type report struct {
	at    time.Time
	rules rules
	agent string // id of the agent's process
}

// rules are the settings of a kubelet's topology manager.
type rules struct{ policy, scope string }

func (r rules) String() string { return r.policy + ", scope " + r.scope }

func newDeliveries(began moment) *deliveries {
	return &deliveries{began: began, bound: map[string]time.Time{}, over: map[string]time.Time{},
		layouts: map[string][]report{}, bases: map[string]*v1alpha1.Base{}, waiting: map[string]*v1alpha1.NodeLayout{}}
}

// receive records one object with the present time. Listed objects get the zero time, because the scheduler has all of
// them before its first decision.
func (d *deliveries) receive(object any, how scheduler.Delivery) {
	now := time.Now()
	if how == scheduler.Listed {
		now = time.Time{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch x := object.(type) {
	case *v1.Pod:
		uid := string(x.UID)
		if _, known := d.bound[uid]; !known && x.Spec.NodeName != "" {
			d.bound[uid] = now
		}
		if _, known := d.over[uid]; !known && (how == scheduler.Deleted || kube.Ended(x)) {
			d.over[uid] = now
		}
	case *v1alpha1.Base:
		d.bases[x.Name] = x
		if l := d.waiting[x.Name]; l != nil {
			d.layout(l, now)
		}
	case *v1alpha1.NodeLayout:
		d.layout(x, now)
	}
}

// layout records a layout. A layout whose base has not been received waits for the base. d.mu must be held.
func (d *deliveries) layout(l *v1alpha1.NodeLayout, now time.Time) {
	c, err := l.CoreFrom(d.bases[l.Name], v1alpha1.Sharing{Machine: topo.New})
	if errors.Is(err, v1alpha1.ErrNoBase) {
		d.waiting[l.Name] = l
		return
	}
	delete(d.waiting, l.Name)
	r := report{now, rules{l.Rules.TopologyManagerPolicy, l.Rules.TopologyManagerScope}, l.Agent.ID}
	if err == nil {
		r.rules = rules{c.Rules.Topology.Policy.String(), c.Rules.Topology.Scope.String()}
	}
	d.layouts[l.Name] = append(d.layouts[l.Name], r)
}

// receivedBound reports whether the scheduler had received, until the given time, that a pod is bound.
func (d *deliveries) receivedBound(uid string, by time.Time) bool {
	return d.receivedBy(d.bound, uid, by)
}

// receivedOver reports whether the scheduler had received, until the given time, that a pod has ended or is gone.
func (d *deliveries) receivedOver(uid string, by time.Time) bool {
	return d.receivedBy(d.over, uid, by)
}

func (d *deliveries) receivedBy(what map[string]time.Time, uid string, by time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, known := what[uid]
	return known && !at.After(by)
}

// report returns the last layout of a node that the scheduler had received until the given time. ok is false if there
// was none.
func (d *deliveries) report(node string, by time.Time) (last report, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.layouts[node] {
		if !r.at.After(by) {
			last, ok = r, true
		}
	}
	return last, ok
}

// forget drops all layouts but the last of each node, and the records of pods that no longer exist. The
// function exists reports whether a pod exists.
func (d *deliveries) forget(exists func(uid string) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range []map[string]time.Time{d.bound, d.over} {
		for uid := range m {
			if !exists(uid) {
				delete(m, uid)
			}
		}
	}
	for node, all := range d.layouts {
		d.layouts[node] = all[len(all)-1:]
	}
}
