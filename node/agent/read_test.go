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
func (w *world) published(told *account) {
	w.t.Helper()
	w.api.install()
	cfg := w.config(logr.Discard())
	cfg.Labels = []string{zone, shard}
	if told != nil {
		cfg.Recorder = told
	}
	w.start(withZones(w.t, cfg, logr.Discard()))
	w.run("p", "5")
	pass(time.Second)
	w.want("at first", "ns/p=5")
}

// damage has somebody take holdings from the layout and zones from the topology.
func (w *world) damage() {
	w.api.set(func() {
		l, o := *w.api.layouts[w.name], *w.api.topologies[w.name]
		l.Holdings, o.Zones = nil, nil
		w.api.store(&l)
		w.api.storeTopology(&o)
	})
}

// mended reports whether both objects are what the agent says.
func (w *world) mended() (ok bool) {
	w.api.set(func() {
		ok = held(w.api.layouts[w.name]) == "ns/p=5" && freeCPUs(w.api.topologies[w.name]) == "node-0=3 node-1=3 "
	})
	return ok
}

// reads returns how many requests for single objects etcd had to answer, by kind.
func (w *world) reads() (out map[string]int) {
	w.api.set(func() { out = maps.Clone(w.api.read) })
	return out
}

// In a quiet hour the agent looks every 30 seconds and writes nothing. Etcd is asked for the layout every 10
// minutes and for nothing else; what is asked of the API server are the renewals of four watches, at most every
// 5 minutes, and three objects every 10 minutes.
func TestQuietHour(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		told := &account{wrote: map[string]int{}, failed: map[string]int{}}
		w.published(told)
		pass(DefaultResync) // watches are open now
		writes, reconciles, requests, before := w.writes(), told.reconciles.Load(), w.requests(), w.reads()
		pass(time.Hour)
		if w.writes() != writes || told.reconciles.Load()-reconciles > 120 {
			t.Errorf("%d writes and %d reconciles", w.writes()-writes, told.reconciles.Load()-reconciles)
		}
		if n := w.requests() - requests; n > 4*12+3*6 {
			t.Errorf("%d requests in an hour", n)
		}
		after := w.reads()
		if n := after["nodelayouts"] - before["nodelayouts"]; n < 5 || n > 6 {
			t.Errorf("etcd is asked for the layout %d times, want 6", n)
		}
		for _, kind := range []string{"nodes", "noderesourcetopologies"} {
			if after[kind] != before[kind] {
				t.Errorf("etcd is asked for %s %d times, want never", kind, after[kind]-before[kind])
			}
		}
	})
}

func TestDamageIsMendedAtOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.published(nil)
		before := w.reads()
		w.damage()
		pass(time.Second)
		if !w.mended() {
			t.Errorf("layout %+v, topology %+v", w.api.layouts[w.name], w.api.topologies[w.name])
		}
		after := w.reads()
		if l, o := after["nodelayouts"]-before["nodelayouts"], after["noderesourcetopologies"]-before["noderesourcetopologies"]; l != 1 || o != 1 {
			t.Errorf("etcd is asked %d times for the layout and %d for the topology, want once", l, o)
		}
	})
}

func TestDamageThatNoWatchTellsOfIsMended(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.published(nil)
		pass(DefaultResync)
		w.api.set(func() { w.api.mute = true })
		w.damage()
		pass(DefaultReread + DefaultResync)
		if !w.mended() {
			t.Errorf("layout %+v, topology %+v", w.api.layouts[w.name], w.api.topologies[w.name])
		}
	})
}

// An agent that may not watch reads at every full look, as often as it looks at its own host.
func TestDamageIsMendedWithoutAWatch(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.api.set(func() { w.api.blinded = true })
		w.published(nil)
		w.damage()
		pass(DefaultResync + time.Second)
		if !w.mended() {
			t.Errorf("layout %+v, topology %+v", w.api.layouts[w.name], w.api.topologies[w.name])
		}
	})
}

// What is done to the objects while the connection is lost is seen when it is back.
func TestDamageWhileTheConnectionIsLost(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.published(nil)
		pass(DefaultResync)
		w.server.set(true)
		w.damage()
		pass(time.Minute)
		w.server.set(false)
		pass(time.Minute)
		if !w.mended() {
			t.Errorf("layout %+v, topology %+v", w.api.layouts[w.name], w.api.topologies[w.name])
		}
		// And watches are what it goes by again.
		before := w.reads()["nodelayouts"]
		pass(5 * time.Minute)
		if n := w.reads()["nodelayouts"] - before; n > 1 {
			t.Errorf("etcd is asked for the layout %d times", n)
		}
	})
}

// A Node that was made anew owns what is published at once: the collector would delete what the old one owned.
func TestNodeMadeAnew(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.published(nil)
		w.api.changeNode(w.name, func(n *v1.Node) { n.UID = "uid-of-the-next" })
		pass(time.Second)
		for what, m := range map[string]metav1.ObjectMeta{"layout": w.api.layouts[w.name].ObjectMeta, "topology": w.api.topologies[w.name].ObjectMeta} {
			if len(m.OwnerReferences) != 1 || m.OwnerReferences[0].UID != "uid-of-the-next" {
				t.Errorf("%s is owned by %+v", what, m.OwnerReferences)
			}
		}
	})
}

// Labels of the Node are those of what is published, and follow it; what others label stays theirs.
func TestLabelsFollowTheNode(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.api.node.Labels = map[string]string{zone: "a", "other": "x"}
		w.published(nil)
		want := func(what string, labels map[string]string) {
			t.Helper()
			pass(time.Second)
			for kind, m := range map[string]metav1.ObjectMeta{"layout": w.api.layouts[w.name].ObjectMeta, "topology": w.api.topologies[w.name].ObjectMeta} {
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

// A server that does not know the kind of topologies is asked for one once in each full look, which costs it no
// read of etcd, and the kind is found when it is there.
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
