package nri_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/node/nri"
)

// The CPUs of an ended pod go to the containers that share, and at the same moment to a new pod. The runtime applies
// the older update after the newer answer. The CPUs still have one owner in the end.
func TestAnUpdateThatTheRuntimeTakesLate(t *testing.T) {
	r := serve(t, nil)
	w := agent(t, r, nil, nri.Ignore)
	w.pods.add("web", 0)
	w.pods.add("a", 4, decided("12-15", 2))
	for _, uid := range []string{"web", "a"} {
		if err := r.create(uid); err != nil {
			t.Fatal(err)
		}
	}
	arrived, goOn := make(chan struct{}, 8), make(chan struct{})
	r.OnAsked(func() error {
		arrived <- struct{}{}
		<-goOn
		return nil
	})
	w.pods.remove("a")
	r.End("a")
	<-arrived
	w.pods.add("b", 4, decided("12-15", 2))
	if err := r.create("b"); err != nil {
		t.Fatal(err)
	}
	close(goOn)
	r.wantSoon("b: 12-15 on 1", "web: 0-11 on 0-1")
}

// A runtime drops updates of a container that it is about to create. A container that shares CPUs and starts together
// with a pod with exclusive CPUs must not keep these CPUs.
func TestAContainerThatIsBeingCreated(t *testing.T) {
	r := serve(t, nil)
	w := agent(t, r, nil, nri.Ignore)
	w.pods.add("web", 0)
	w.pods.add("a", 4, decided("12-15", 2))
	start, err := r.Begin(pod("web"), "c")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.create("a"); err != nil {
		t.Fatal(err)
	}
	if err := start(); err != nil {
		t.Fatal(err)
	}
	r.wantSoon("a: 12-15 on 1", "web: 0-11 on 0-1")
}

// The agent connects while a container starts. The runtime drops the update of the container that it is about to start.
func TestTheAgentConnectsWhileAContainerStarts(t *testing.T) {
	r := serve(t, nil)
	start, err := r.Begin(pod("a"), "c")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{pods: &known{pods: map[string]nri.Arriving{}, ended: map[string]bool{}},
		state: filepath.Join(t.TempDir(), "pins.json")}
	w.pods.add("a", 4, decided("12-15", 2))
	agent(t, r, w, nri.Ignore)
	if err := start(); err != nil {
		t.Fatal(err)
	}
	r.wantSoon("a: 12-15 on 1")
}

// Where the runtime could not change a container, the agent sends the update again at its next comparison.
func TestAnUpdateThatFails(t *testing.T) {
	r := serve(t, nil)
	w := agent(t, r, nil, nri.Ignore)
	w.pods.add("web", 0)
	w.pods.add("a", 4, decided("12-15", 2))
	for _, uid := range []string{"web", "a"} {
		if err := r.create(uid); err != nil {
			t.Fatal(err)
		}
	}
	failed := make(chan struct{})
	r.OnAsked(func() error {
		r.OnAsked(nil)
		defer close(failed)
		return errors.New("the container is busy")
	})
	w.pods.remove("a")
	r.End("a")
	<-failed
	r.want("web: 0-11 on 0-1")
	for !t.Failed() && len(r.Told) == 0 {
		if err := w.Left(those("web")); err != nil {
			t.Fatal(err)
		}
	}
	r.wantSoon("web: 0-15 on 0-1")
}

// Where the kernel has another pin than was decided, whatever the cause, the agent pins this container again, and no
// other one.
func TestTheKernelHasSomethingElse(t *testing.T) {
	r := serve(t, nil)
	w := agent(t, r, nil, nri.Ignore)
	w.pods.add("web", 0)
	w.pods.add("a", 4, decided("12-15", 2))
	for _, uid := range []string{"web", "a"} {
		if err := r.create(uid); err != nil {
			t.Fatal(err)
		}
	}
	has := func(cpus string, numas ...idset.NUMA) nri.Cpuset {
		return nri.Cpuset{CPUs: decided(cpus, 1).CPUs, NUMAs: idset.Of(numas...)}
	}
	r.Overwrite("lost")
	w.Compare(map[string]nri.Cpuset{"web/c": has("0-11", 0, 1), "a/c": has("0-15", 1)})
	<-r.Told
	r.want("a: 12-15 on 1", "web: lost")
	for len(r.Told) == 0 { // it does not compare while updates are on their way
		w.Compare(map[string]nri.Cpuset{"web/c": has("0-11", 0), "a/c": has("12-15", 1), "unknown": has("3")})
	}
	r.want("a: 12-15 on 1", "web: 0-11 on 0-1")
}
