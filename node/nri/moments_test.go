package nri_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/node/nri"
)

// lost is the pin of a container that the runtime has started or changed without an answer of the agent.
const lost = "nothing"

// steps are the events in a container's life. Each one changes a runtime that has the pods web, db and a.
var steps = []struct {
	name string
	do   func(t *testing.T, r *runtime, w *world)
}{
	{"a container is created", func(t *testing.T, r *runtime, w *world) {
		w.pods.add("b", 4, decided("8-11", 2))
		if err := r.create("b"); err != nil {
			t.Fatal(err)
		}
	}},
	{"a container without a decision is created", func(t *testing.T, r *runtime, w *world) {
		w.pods.add("c", 2)
		if err := r.create("c"); err != nil {
			t.Fatal(err)
		}
	}},
	{"a container grows", func(_ *testing.T, r *runtime, w *world) {
		w.pods.add("db", 4)
		r.Update("db", "c")
	}},
	{"a container shrinks", func(_ *testing.T, r *runtime, w *world) {
		w.pods.add("db", 1)
		r.Update("db", "c")
	}},
	{"a container ends, and its pod stays", func(_ *testing.T, r *runtime, _ *world) { r.Stop("a", "c") }},
	{"a pod is removed", func(_ *testing.T, r *runtime, w *world) {
		w.pods.remove("a")
		r.End("a")
		<-r.Told
	}},
}

// kills end the agent, the runtime or the node at one moment of the step, and start it again. before is the agent's
// file before the step.
var kills = []struct {
	name string
	do   func(t *testing.T, r *runtime, w *world, before []byte) *runtime
}{
	{"the agent, before it has written its file", func(t *testing.T, r *runtime, w *world, before []byte) *runtime {
		w.stop()
		r.Overwrite(lost)
		return w.starts(t, r, before)
	}},
	{"the agent, before it has answered", func(t *testing.T, r *runtime, w *world, _ []byte) *runtime {
		w.stop()
		r.Overwrite(lost)
		return w.starts(t, r, nil)
	}},
	{"the agent, after its answer", func(t *testing.T, r *runtime, w *world, _ []byte) *runtime {
		w.stop()
		return w.starts(t, r, nil)
	}},
	{"the runtime, before it has followed the answer", func(t *testing.T, r *runtime, w *world, _ []byte) *runtime {
		w.stop()
		r.Overwrite(lost)
		later := serve(t, r)
		w.connect(t, later)
		return later
	}},
	{"the runtime, after the answer", func(t *testing.T, r *runtime, w *world, _ []byte) *runtime {
		w.stop()
		later := serve(t, r)
		w.connect(t, later)
		return later
	}},
	{"the node, before the agent has written its file", func(t *testing.T, r *runtime, w *world, before []byte) *runtime {
		w.stop()
		return w.boots(t, r, before)
	}},
	{"the node, after that", func(t *testing.T, r *runtime, w *world, _ []byte) *runtime {
		w.stop()
		return w.boots(t, r, nil)
	}},
}

// The agent, the runtime or the node may end at any moment. Once the agent is connected again, every container is
// pinned, every exclusive CPU has one owner, and pods have the CPUs that were decided and that they request.
func TestEveryMomentOfAContainersLife(t *testing.T) {
	for _, s := range steps {
		for _, k := range kills {
			t.Run(s.name+"/"+k.name, func(t *testing.T) {
				r := serve(t, nil)
				w := agent(t, r, nil, nri.Ignore)
				w.pods.add("web", 0)
				w.pods.add("db", 2)
				w.pods.add("a", 4, decided("12-15", 2))
				for _, uid := range []string{"web", "db", "a"} {
					if err := r.create(uid); err != nil {
						t.Fatal(err)
					}
				}
				before, err := os.ReadFile(w.state)
				if err != nil {
					t.Fatal(err)
				}
				s.do(t, r, w)
				r = k.do(t, r, w, before)
				w.sound(t, r)
				w.settle(t, r)
				w.sound(t, r)
				w.kept(t)
			})
		}
	}
}

// starts starts an agent with the given file, or with the present file.
func (w *world) starts(t *testing.T, r *runtime, file []byte) *runtime {
	t.Helper()
	if file != nil {
		if err := os.WriteFile(filepath.Clean(w.state), file, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	agent(t, r, w, nri.Ignore)
	return r
}

// boots starts a node, whose kubelet creates its containers anew.
func (w *world) boots(t *testing.T, r *runtime, file []byte) *runtime {
	t.Helper()
	had := r.Containers()
	later := serve(t, r)
	for _, c := range had {
		later.Lose(strings.TrimSuffix(c, "/c"))
	}
	w.starts(t, later, file)
	for _, c := range had {
		if err := later.create(strings.TrimSuffix(c, "/c")); err != nil {
			t.Fatal(err)
		}
	}
	return later
}

// settle makes the agent reconcile once, and returns when the runtime has applied the updates.
func (w *world) settle(t *testing.T, r *runtime) {
	t.Helper()
	tell := func(do func() error) {
		before := w.expected(t, r)
		if err := do(); err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(before, w.expected(t, r)) {
			<-r.Told
		}
	}
	there := map[string]bool{}
	for uid := range w.pods.pods {
		there[uid] = true
	}
	tell(func() error { return w.Left(func(s nri.Sandbox) bool { return there[s.UID] }) })
	for _, uid := range slices.Sorted(maps.Keys(there)) {
		tell(func() error { return w.Arrived(t.Context(), uid) })
		tell(func() error { return w.Resized(uid, w.pods.pods[uid].Spec) })
	}
}

// expected returns the pin that each container of a runtime should have.
func (w *world) expected(t *testing.T, r *runtime) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, c := range r.Containers() {
		is := w.Node().Pin(strings.TrimSuffix(c, "/c"), "c")
		mems := "0-1"
		if is.NUMAs != 0 {
			mems = idset.Of(w.Node().Machine().IDs(is.NUMAs)...).String()
		}
		out[c] = fmt.Sprintf("%s on %s", is.CPUs, mems)
	}
	return out
}

// sound fails the test unless every container is pinned as the agent decided, and every exclusive CPU has one owner.
func (w *world) sound(t *testing.T, r *runtime) {
	t.Helper()
	var taken idset.Set[idset.CPU]
	for c, want := range w.expected(t, r) {
		uid := strings.TrimSuffix(c, "/c")
		if got := r.Pinned(uid, "c"); got != want {
			t.Errorf("container %s is pinned to %s, want %s", uid, got, want)
		}
		is := w.Node().Pin(uid, "c")
		if is.Exclusive != (uid != "web") {
			t.Errorf("pod %s has CPUs of its own: %t", uid, is.Exclusive)
		}
		if is.Exclusive && is.CPUs.AndLen(taken.Union(w.Node().Shared())) > 0 {
			t.Errorf("CPUs %s of pod %s are others', too: %s, shared %s", is.CPUs, uid, taken, w.Node().Shared())
		}
		if is.Exclusive {
			taken = taken.Union(is.CPUs)
		}
	}
}

// kept fails the test unless pods have the CPUs that were decided for them, as many as they request.
func (w *world) kept(t *testing.T) {
	t.Helper()
	for uid, a := range w.pods.pods {
		has, arrived := w.Node().Pod(uid)
		if !arrived {
			continue
		}
		for _, h := range has.Holdings {
			if int64(h.CPUs.Len())*1000 != a.Spec.Containers[0].MilliCPU {
				t.Errorf("pod %s has CPUs %s and requests %dm", uid, h.CPUs, a.Spec.Containers[0].MilliCPU)
			}
			if a.Decision != nil && !h.CPUs.Equal(a.Decision[0].CPUs) {
				t.Errorf("pod %s has CPUs %s, decided are %s", uid, h.CPUs, a.Decision[0].CPUs)
			}
		}
	}
}

func (k *known) remove(uid string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.pods, uid)
}
