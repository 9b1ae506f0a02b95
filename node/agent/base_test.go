package agent

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"

	v1 "k8s.io/api/core/v1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/tenon-numa/tenon/api/v1alpha1"
)

// What another writer makes of the base is undone at once, so that readers have the whole layout again.
func TestABaseThatSomebodyChangedIsWrittenAgain(t *testing.T) {
	for what, change := range map[string]func(b *v1alpha1.LayoutBase){
		"deleted":             nil,
		"emptied":             func(b *v1alpha1.LayoutBase) { b.Holdings = nil },
		"of a later sequence": func(b *v1alpha1.LayoutBase) { b.Sequence += 100; b.Holdings = nil },
		"of the past":         func(b *v1alpha1.LayoutBase) { b.Sequence = 1; b.Holdings = nil },
		"of the greatest sequence": func(b *v1alpha1.LayoutBase) {
			b.Sequence, b.Agent.ID = v1alpha1.MaxSequence, "forger"
		},
	} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.start(w.config(logr.Discard()))
				w.run("p", "5")
				pass(time.Second)
				w.write("config.yaml", configKind+"topologyManagerPolicy: restricted\n")
				w.agents[0].triggers.everything() // a base with the pod
				pass(time.Second)
				w.api.set(func() {
					b := *w.api.bases[w.name]
					if change == nil {
						delete(w.api.bases, w.name)
						w.api.revision++
						b.ResourceVersion = fmt.Sprint(w.api.revision)
						w.api.notify("layoutbases", "DELETED", b.ObjectMeta)
						return
					}
					change(&b)
					w.api.storeBase(&b)
				})
				pass(time.Second)
				w.want("after that", "ns/p=5")
				if l := w.layout(); l.Sequence >= v1alpha1.MaxSequence || l.Agent.ID == "forger" {
					t.Errorf("readers have sequence %d of agent %s", l.Sequence, l.Agent.ID)
				}
				w.run("q", "6")
				pass(time.Second)
				w.want("later", "ns/q=6")
			})
		})
	}
}

// An API server of an earlier release has no bases. Its readers get whole layouts, and the agent notices an upgrade.
func TestAServerWithoutBases(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.api.set(func() { w.api.based = false })
		log := &journal{}
		w.start(w.config(log.logger()))
		w.run("p", "5")
		pass(time.Second)
		w.want("without bases", "ns/p=5")
		var base int64
		if w.api.set(func() { base = w.api.layouts[w.name].Base }); base != 0 || log.count("takes no LayoutBase") != 1 {
			t.Errorf("the layout continues base %d, said %d times", base, log.count("takes no LayoutBase"))
		}
		w.api.set(func() { w.api.based = true })
		pass(DefaultReread + DefaultResync)
		w.run("q", "6")
		pass(time.Second)
		w.want("with bases", "ns/q=6")
		if w.api.set(func() { base = w.api.layouts[w.name].Base }); base == 0 {
			t.Error("the layout is whole, though bases are served")
		}
	})
}

// The base has the machine with which the kubelet started, and the order of the pods. An agent that starts and may not
// read it would replace both by what it sees now, so it writes nothing. One that runs knows them.
func TestABaseThatMayNotBeRead(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		stop := w.start(w.config(logr.Discard()))
		w.run("p", "5")
		pass(time.Second)
		w.api.set(func() { w.api.forbidBase = true })
		w.agents[0].triggers.everything()
		w.run("q", "6")
		pass(DefaultReread + DefaultResync)
		w.want("an agent that runs", "ns/q=6")
		stop()
		w.agents = nil

		// Another agent, which has the right, has written meanwhile.
		w.api.set(func() { w.api.forbidBase = false })
		stop = w.start(w.config(logr.Discard()))
		pass(time.Second)
		stop()
		w.agents = nil
		var base, layout int64
		w.api.set(func() { base, layout = w.api.bases[w.name].Sequence, w.api.layouts[w.name].Sequence })
		w.api.set(func() { w.api.forbidBase = true })
		log := &journal{}
		w.start(w.config(log.logger()))
		w.run("r", "7")
		pass(time.Minute)
		w.api.set(func() {
			if w.api.bases[w.name].Sequence != base || w.api.layouts[w.name].Sequence != layout {
				t.Error("an agent that starts has replaced a base that it may not read")
			}
		})
		if log.count("may not be read") == 0 {
			t.Error("the log does not say that the base may not be read")
		}
		w.api.set(func() { w.api.forbidBase = false })
		pass(10 * time.Minute)
		w.want("with the right", "ns/r=7")
	})
}

// Whatever requests fail, readers have an earlier layout of the node or the last one, and the last one in the end.
func TestWritesOfABaseThatFail(t *testing.T) {
	for fail := range 6 {
		inWorld(t, func(t *testing.T, w *world) {
			w.start(w.config(logr.Discard()))
			w.run("p", "5")
			pass(time.Second)
			w.write("config.yaml", configKind+"topologyManagerPolicy: restricted\n") // needs a new base
			w.api.refuseNext(fail)
			w.run("q", "6")
			w.agents[0].triggers.everything()
			for range 100 {
				pass(10 * time.Millisecond)
				if l := w.layout(); l.Malformed != "" {
					t.Fatalf("%d failures: readers have no layout", fail)
				}
			}
			pass(time.Minute)
			w.want(fmt.Sprint(fail, " failures"), "ns/q=6")
		})
	}
}

// On a node with many pods, what a pod costs is what it holds, and not what all pods hold.
func TestAPodOnAFullNodeIsReportedInFewBytes(t *testing.T) {
	const pods, rounds = 60, 60
	inWorld(t, func(t *testing.T, w *world) {
		w.start(w.config(logr.Discard()))
		var list []*podresources.PodResources
		assigned := map[string]string{}
		run := func(name string) {
			w.api.addPod(w.t, w.pod(name, 1))
			list = append(list, listed(name))
			assigned[name] = "5"
		}
		publish := func() {
			var cpus []string
			for _, p := range list {
				cpus = append(cpus, fmt.Sprintf(`"uid-%s":{"main":"%s"}`, p.Name, assigned[p.Name]))
			}
			w.service.SetPods(list...)
			w.cpus("{" + strings.Join(cpus, ",") + "}")
			w.touched()
			pass(time.Second)
		}
		for i := range pods {
			run(fmt.Sprintf("p%d", i))
		}
		publish()
		before := w.api.sent
		for i := range rounds {
			list = list[1:]
			run(fmt.Sprintf("r%d", i))
			publish()
			if l := w.layout(); len(l.Holdings) != pods || l.Holdings[pods-1].Name != fmt.Sprintf("r%d", i) {
				t.Fatalf("round %d: readers have %d pods", i, len(l.Holdings))
			}
		}
		whole, err := json.Marshal(w.layout())
		if err != nil {
			t.Fatal(err)
		}
		if each := (w.api.sent - before) / rounds; each > len(whole)/3 {
			t.Errorf("a change of a pod takes %d bytes, and a whole layout %d", each, len(whole))
		}
	})
}

// An agent is killed, or its write is refused for good, after it has written a base and before the layout. Readers that
// follow by watches must get a layout that continues the base: they apply a base only with a layout.
func TestABaseWithoutItsLayout(t *testing.T) {
	for _, how := range []string{"killed", "refused"} {
		t.Run(how, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				stop := w.start(w.config(logr.Discard()))
				w.run("p", "5")
				pass(time.Second)
				// What the agent writes when q comes and the base has to be renewed, without the layout.
				w.api.set(func() { w.api.forbidLayouts = true })
				w.api.changeNode(w.name, func(n *v1.Node) { n.Status.NodeInfo.KubeletVersion = "v1.37.4" })
				w.run("q", "6") // in place of p: the summary is the same
				w.agents[0].triggers.everything()
				pass(20 * time.Millisecond)
				for range 100 {
					var ready bool
					w.api.set(func() { ready = w.api.bases[w.name].Sequence > w.api.layouts[w.name].Sequence })
					if ready {
						break
					}
					pass(10 * time.Millisecond)
				}
				if how == "killed" {
					stop()
					w.agents = nil
				}
				w.api.set(func() { w.api.forbidLayouts = false })
				if how == "killed" {
					w.start(w.config(logr.Discard()))
				}
				pass(10 * time.Minute)
				w.want("complete", "ns/q=6")
				w.api.set(func() {
					l, b := w.api.layouts[w.name], w.api.bases[w.name]
					if l.Base != b.Sequence {
						t.Errorf("the layout has sequence %d and continues base %d; the base has sequence %d", l.Sequence,
							l.Base, b.Sequence)
					}
				})
			})
		})
	}
}

// A watch of bases that is not open is made up for by the resync, as that of layouts is.
func TestTheWatchOfBasesIsNotOpen(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.api.set(func() { w.api.blindedKind = "layoutbases" })
		w.start(w.config(logr.Discard()))
		w.run("p", "5")
		pass(time.Second)
		w.api.set(func() {
			b := *w.api.bases[w.name]
			delete(w.api.bases, w.name)
			w.api.revision++
			b.ResourceVersion = fmt.Sprint(w.api.revision)
			w.api.notify("layoutbases", "DELETED", b.ObjectMeta)
		})
		pass(DefaultResync + time.Second)
		w.want("after a resync", "ns/p=5")
	})
}

// No two bases of one agent have the same sequence and different holdings, or a layout is joined with the wrong one.
func TestASequenceIsUsedOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start(w.config(logr.Discard()))
		seen := map[string]string{}
		look := func() {
			w.api.set(func() {
				b := w.api.bases[w.name]
				key, has := fmt.Sprint(b.Agent.ID, " ", b.Sequence), fmt.Sprint(b.Holdings)
				if was, ok := seen[key]; ok && was != has {
					t.Errorf("base %s has %s, and had %s", key, has, was)
				}
				seen[key] = has
			})
		}
		for i := range 3 {
			w.run(fmt.Sprint("p", i), "5")
			pass(time.Second)
			w.api.set(func() {
				b := w.api.bases[w.name].DeepCopy()
				b.Sequence = v1alpha1.MaxSequence
				w.api.storeBase(b)
			})
			pass(time.Second)
			look()
		}
	})
}
