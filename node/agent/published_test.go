package agent

import (
	"maps"
	"testing"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	zone  = "topology.kubernetes.io/zone"
	shard = "tenon.sh/shard"
)

// published starts an agent that publishes both objects, with the labels of a zone and a shard.
func (w *world) published(rec *recorder) {
	w.t.Helper()
	w.api.install()
	cfg := w.config(logr.Discard())
	cfg.Labels = []string{zone, shard}
	if rec != nil {
		cfg.Recorder = rec
	}
	w.start(withZones(w.t, cfg, logr.Discard()))
	w.run("p", "5")
	pass(time.Second)
	w.want("at first", "ns/p=5")
}

// tamper removes the holdings of the layout and the zones of the topology, as another writer.
func (w *world) tamper() {
	w.api.set(func() {
		l, o := *w.api.layouts[w.name], *w.api.topologies[w.name]
		l.Holdings, o.Zones = nil, nil
		w.api.store(&l)
		w.api.storeTopology(&o)
	})
}

// restored reports whether both objects are in the state that the agent published.
func (w *world) restored() (ok bool) {
	w.api.set(func() {
		ok = held(w.api.whole(w.name)) == "ns/p=5" && freeCPUs(w.api.topologies[w.name]) == "node-0=3 node-1=3 "
	})
	return ok
}

// metadata returns the metadata of both objects.
func (w *world) metadata() map[string]metav1.ObjectMeta {
	return map[string]metav1.ObjectMeta{
		"layout": w.api.layouts[w.name].ObjectMeta, "topology": w.api.topologies[w.name].ObjectMeta}
}

// reads returns how many requests for single objects etcd had to answer, by kind.
func (w *world) reads() (out map[string]int) {
	w.api.set(func() { out = maps.Clone(w.api.read) })
	return out
}

// In a quiet hour the agent reconciles every 30 seconds and writes nothing. It reads the layout and its base from
// etcd every 10 minutes and nothing else. Its other requests renew five watches, at most every 5 minutes, and read
// three objects from the API server's cache every 10 minutes.
func TestQuietHour(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		rec := &recorder{wrote: map[string]int{}, failed: map[string]int{}}
		w.published(rec)
		pass(DefaultResync) // watches are open now
		writes, reconciles, requests, before := w.writes(), rec.reconciles.Load(), w.requests(), w.reads()
		pass(time.Hour)
		if w.writes() != writes || rec.reconciles.Load()-reconciles > 120 {
			t.Errorf("%d writes and %d reconciles", w.writes()-writes, rec.reconciles.Load()-reconciles)
		}
		if n := w.requests() - requests; n > 5*12+4*6 {
			t.Errorf("%d requests in an hour", n)
		}
		after := w.reads()
		for _, kind := range []string{"nodelayouts", "layoutbases"} {
			if n := after[kind] - before[kind]; n < 5 || n > 6 {
				t.Errorf("etcd is asked for %s %d times, want 6", kind, n)
			}
		}
		for _, kind := range []string{"nodes", "noderesourcetopologies"} {
			if after[kind] != before[kind] {
				t.Errorf("etcd is asked for %s %d times, want never", kind, after[kind]-before[kind])
			}
		}
	})
}

func TestTamperingIsUndoneAtOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.published(nil)
		before := w.reads()
		w.tamper()
		pass(time.Second)
		if !w.restored() {
			t.Errorf("layout %+v, topology %+v", w.api.layouts[w.name], w.api.topologies[w.name])
		}
		after := w.reads()
		l := after["nodelayouts"] - before["nodelayouts"]
		o := after["noderesourcetopologies"] - before["noderesourcetopologies"]
		if l != 1 || o != 1 {
			t.Errorf("etcd is asked %d times for the layout and %d for the topology, want once", l, o)
		}
	})
}

func TestTamperingThatNoWatchReportsIsUndone(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.published(nil)
		pass(DefaultResync)
		w.api.set(func() { w.api.mute = true })
		w.tamper()
		pass(DefaultReread + DefaultResync)
		if !w.restored() {
			t.Errorf("layout %+v, topology %+v", w.api.layouts[w.name], w.api.topologies[w.name])
		}
	})
}

// An agent that may not watch reads what is published in every full reconcile.
func TestTamperingIsUndoneWithoutAWatch(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.api.set(func() { w.api.blinded = true })
		w.published(nil)
		w.tamper()
		pass(DefaultResync + time.Second)
		if !w.restored() {
			t.Errorf("layout %+v, topology %+v", w.api.layouts[w.name], w.api.topologies[w.name])
		}
	})
}

// Changes of the objects while the connection is lost are found when it is back.
func TestTamperingWhileTheConnectionIsLost(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.published(nil)
		pass(DefaultResync)
		w.server.set(true)
		w.tamper()
		pass(time.Minute)
		w.server.set(false)
		pass(time.Minute)
		if !w.restored() {
			t.Errorf("layout %+v, topology %+v", w.api.layouts[w.name], w.api.topologies[w.name])
		}
		// It relies on watches again.
		before := w.reads()["nodelayouts"]
		pass(5 * time.Minute)
		if n := w.reads()["nodelayouts"] - before; n > 1 {
			t.Errorf("etcd is asked for the layout %d times", n)
		}
	})
}

// A Node that was deleted and created again owns what is published at once: the garbage collector would delete the
// objects of the old one.
func TestNodeIsCreatedAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.published(nil)
		w.api.changeNode(w.name, func(n *v1.Node) { n.UID = "uid-of-the-next" })
		pass(time.Second)
		for what, m := range w.metadata() {
			if len(m.OwnerReferences) != 1 || m.OwnerReferences[0].UID != "uid-of-the-next" {
				t.Errorf("%s is owned by %+v", what, m.OwnerReferences)
			}
		}
	})
}

// Published objects have the labels of the Node and follow its changes; labels from others stay.
func TestLabelsFollowTheNode(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.api.node.Labels = map[string]string{zone: "a", "other": "x"}
		w.published(nil)
		want := func(what string, labels map[string]string) {
			t.Helper()
			pass(time.Second)
			for kind, m := range w.metadata() {
				if !maps.Equal(pick(m.Labels, []string{zone, shard, "other"}), labels) {
					t.Errorf("%s: %s has labels %v, want %v", what, kind, m.Labels, labels)
				}
			}
		}
		want("at first", map[string]string{zone: "a"})
		w.api.changeNode(w.name, func(n *v1.Node) { n.Labels = map[string]string{zone: "a", shard: "2"} })
		want("in a shard", map[string]string{zone: "a", shard: "2"})
		w.api.changeNode(w.name, func(n *v1.Node) { n.Labels = map[string]string{shard: "3"} })
		want("in another one, and no zone", map[string]string{shard: "3"})

		w.api.relabel(w.name, shard, "4")
		want("after somebody else moved it", map[string]string{shard: "3"})
		before := w.writes()
		w.api.relabel(w.name, "team", "x")
		pass(2 * DefaultReread)
		if n := w.writes() - before; n != 0 {
			t.Errorf("%d writes because of a label that is not the agent's", n)
		}
	})
}

// If the API server does not serve the kind of topologies, each full reconcile tries one write, which reads nothing
// from etcd. It succeeds once the kind is installed.
func TestTopologiesWhoseKindIsMissing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start(withZones(t, w.config(logr.Discard()), logr.Discard()))
		pass(DefaultResync)
		requests := w.requests()
		pass(time.Hour)
		if n := w.requests() - requests; n > 120+3*12+2*6 {
			t.Errorf("%d requests in an hour", n)
		}
		w.api.install()
		pass(DefaultResync + time.Second)
		if w.api.topologies[w.name] == nil {
			t.Error("the kind is there, and nothing is published")
		}
	})
}
