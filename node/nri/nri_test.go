package nri_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/pin"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/node/nri"
	"github.com/tenon-numa/tenon/node/nri/nritest"
)

const machine = `
numa 0 cpus 0-7 memory 16Gi
numa 1 cpus 8-15 memory 16Gi
device acme.com/gpu a numa 1
`

func rules(t *testing.T) (*topo.Machine, place.Rules) {
	t.Helper()
	m, err := topo.ParseMachine(machine)
	if err != nil {
		t.Fatal(err)
	}
	return m, place.Rules{Arbiter: place.ByAgent, Topology: place.TopologyRules{Policy: place.SingleNUMA},
		CPU: place.CPURules{Static: true, Reserved: idset.Of[idset.CPU](0)}, Memory: place.MemoryRules{Static: true}}
}

// known are the pods of the API server, by UID.
type known struct {
	mu    sync.Mutex
	pods  map[string]nri.Arriving
	ended map[string]bool
}

func (k *known) Arriving(_ context.Context, s nri.Sandbox) (nri.Arriving, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	a, ok := k.pods[s.UID]
	return a, ok
}

func (k *known) Ended(_ context.Context, all []nri.Sandbox) (out []string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range all {
		if k.ended[s.UID] {
			out = append(out, s.UID)
		}
	}
	return out, nil
}

func (k *known) Bound(but func(string) bool) (out []pin.Arrival) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, uid := range slices.Sorted(maps.Keys(k.pods)) {
		if a := k.pods[uid]; a.Decision != nil && !but(uid) {
			out = append(out, pin.Arrival{UID: uid, Spec: a.Spec, Decision: a.Decision})
		}
	}
	return out
}

// those accepts the pods with the given UIDs.
func those(uids ...string) func(nri.Sandbox) bool {
	return func(s nri.Sandbox) bool { return slices.Contains(uids, s.UID) }
}

func (k *known) add(uid string, cpus int64, decision ...place.Holding) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := &place.Pod{QoS: place.Burstable, Containers: []place.Container{{Name: "c", MilliCPU: 500}}}
	if cpus > 0 {
		p = &place.Pod{QoS: place.Guaranteed, Containers: []place.Container{{Name: "c", MilliCPU: cpus * 1000,
			Memory: []place.Amount{{Kind: topo.Memory, Bytes: 1 << 30}}}}}
	}
	k.pods[uid] = nri.Arriving{Namespace: "default", Name: uid, Spec: p, Decision: decision}
}

// runtime has one container per pod, with the name "c".
type runtime struct {
	*nritest.Runtime
	t *testing.T
}

func serve(t *testing.T, before *runtime) *runtime {
	t.Helper()
	if before == nil {
		return &runtime{nritest.New(t, nil), t}
	}
	return &runtime{nritest.New(t, before.Runtime), t}
}

func pod(uid string) nritest.Pod { return nritest.Pod{Namespace: "default", Name: uid, UID: uid} }

// create starts a pod of one container, and returns the error of the plugin.
func (r *runtime) create(uid string) error { return r.Create(pod(uid), "c") }

// pinned returns a line "UID: CPUS on NUMA-NODES" for each container.
func (r *runtime) pinned() []string {
	all := r.All()
	for i := range all {
		all[i] = strings.Replace(all[i], "/c:", ":", 1)
	}
	return all
}

// wantSoon waits for an update that the agent sends by itself. The agent may send an update more than once, so the test
// does not count messages.
func (r *runtime) wantSoon(all ...string) {
	r.t.Helper()
	for !slices.Equal(r.pinned(), all) {
		select {
		case <-r.Told:
		case <-time.After(time.Minute):
			r.want(all...)
			return
		}
	}
}

func (r *runtime) want(all ...string) {
	r.t.Helper()
	if got := r.pinned(); !slices.Equal(got, all) {
		r.t.Errorf("containers are pinned to\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(all, "\n"))
	}
}

// world is an agent with its plugin.
type world struct {
	*nri.Plugin
	pods  *known
	state string
	mu    sync.Mutex
	found []string // reports about placed pods
	stop  func()
}

// agent starts an agent on a runtime, and returns when it is connected.
func agent(t *testing.T, r *runtime, w *world, failure nri.FailurePolicy) *world {
	t.Helper()
	if w == nil {
		w = &world{pods: &known{pods: map[string]nri.Arriving{}, ended: map[string]bool{}},
			state: filepath.Join(t.TempDir(), "pins.json")}
	}
	m, rules := rules(t)
	p, err := nri.New(nri.Config{Machine: m, Rules: rules, Pods: w.pods, State: w.state, Failure: failure,
		Logger: logr.Discard(),
		Placed: func(a nri.Arriving, p pin.Pod) { w.note(a.Name, p) },
		Faulty: func(namespace, name string, p pin.Pod) { w.note(namespace+"/"+name, p) },
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Plugin = p
	w.connect(t, r)
	return w
}

// note records a report about a pod.
func (w *world) note(name string, p pin.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := fmt.Sprint(name, " decided=", p.Decided)
	if p.Fault != nil {
		text += " " + string(p.Fault.Code)
	}
	w.found = append(w.found, text)
}

// connect connects the agent's plugin to a runtime.
func (w *world) connect(t *testing.T, r *runtime) {
	t.Helper()
	p := w.Plugin
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan error, 16), make(chan struct{})
	go func() {
		defer close(done)
		p.Run(ctx, r.Socket, func(err error) { ready <- err })
	}()
	w.stop = func() { cancel(); <-done }
	t.Cleanup(w.stop)
	if err := <-ready; err != nil {
		t.Fatal(err)
	}
	r.Ready()
}

func decided(text string, mask topo.Mask) place.Holding {
	cpus, err := idset.Parse[idset.CPU](text)
	if err != nil {
		panic(err)
	}
	return place.Holding{Container: "c", CPUs: cpus,
		Memory: []place.Block{{Kind: topo.Memory, NUMAs: mask, Bytes: 1 << 30}}}
}

// Exclusive CPUs come and go. Containers that share get the remaining CPUs at the same moment.
func TestContainersArePinnedAsTheyComeAndGo(t *testing.T) {
	r := serve(t, nil)
	w := agent(t, r, nil, nri.Ignore)
	w.pods.add("web", 0)
	w.pods.add("mine", 4, decided("10-13", 2))
	w.pods.add("other", 2)
	for _, uid := range []string{"web", "mine", "other"} {
		if err := r.create(uid); err != nil {
			t.Fatal(err)
		}
	}
	r.want("mine: 10-13 on 1", "other: 1-2 on 0", "web: 0,3-9,14-15 on 0-1")
	r.End("mine")
	r.wantSoon("other: 1-2 on 0", "web: 0,3-15 on 0-1")
	if got := strings.Join(w.found, "; "); got != "web decided=false; mine decided=true; other decided=false" {
		t.Errorf("said of pods: %s", got)
	}
}

// Agent and runtime end and start at any time. No pod gets another pod's CPUs, and no pod moves.
func TestWhatWasDecidedOutlivesAgentAndRuntime(t *testing.T) {
	r := serve(t, nil)
	w := agent(t, r, nil, nri.Ignore)
	w.pods.add("web", 0)
	w.pods.add("a", 4, decided("12-15", 2))
	w.pods.add("b", 2)
	for _, uid := range []string{"web", "a", "b"} {
		if err := r.create(uid); err != nil {
			t.Fatal(err)
		}
	}
	pinned := []string{"a: 12-15 on 1", "b: 1-2 on 0", "web: 0,3-11 on 0-1"}
	r.want(pinned...)

	w.stop()
	r.Overwrite("lost") // another program has pinned the containers meanwhile
	agent(t, r, w, nri.Ignore)
	r.want(pinned...)

	w.stop()
	later := serve(t, r) // the runtime was restarted, without pod b
	later.Lose("b")
	agent(t, later, w, nri.Ignore)
	later.want("a: 12-15 on 1", "web: 0-11 on 0-1")
}

// The scheduler may know of the end of a pod before the runtime has removed it.
func TestADecisionForCPUsOfAPodThatHasEnded(t *testing.T) {
	r := serve(t, nil)
	w := agent(t, r, nil, nri.Ignore)
	w.pods.add("done", 4, decided("8-11", 2))
	if err := r.create("done"); err != nil {
		t.Fatal(err)
	}
	w.pods.add("next", 4, decided("8-11", 2))
	w.pods.ended["done"] = true
	r.Stop("done", "c")
	if err := r.create("next"); err != nil {
		t.Fatal(err)
	}
	if got := r.Pinned("next", "c"); got != "8-11 on 1" {
		t.Errorf("the next pod is pinned to %s", got)
	}
	w.pods.add("thief", 4, decided("8-11", 2)) // but the pod next has not ended
	if err := r.create("thief"); err != nil {
		t.Fatal(err)
	}
	if got := r.Pinned("thief", "c"); got != "1-4 on 0" {
		t.Errorf("a pod with a decision for CPUs that are held is pinned to %s", got)
	}
	if got := w.found[len(w.found)-1]; got != "thief decided=false decision-replaced" {
		t.Errorf("said of it: %s", got)
	}
}

func TestAPodThatIsNotKnownYet(t *testing.T) {
	r := serve(t, nil)
	w := agent(t, r, nil, nri.Ignore)
	if err := r.create("early"); err != nil {
		t.Fatal(err)
	}
	r.want("early: 0-15 on 0-1")
	w.pods.add("early", 2)
	if err := w.Arrived(t.Context(), "early"); err != nil {
		t.Fatal(err)
	}
	r.wantSoon("early: 1-2 on 0")

	strict := serve(t, nil)
	agent(t, strict, nil, nri.Fail)
	apiServer := pod("apiserver")
	apiServer.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	if err := strict.Create(apiServer, "c"); err != nil {
		t.Errorf("a static pod under failurePolicy Fail: %v", err)
	}
	if err := strict.create("early"); err == nil || !strings.Contains(err.Error(), "default/early is not known yet") {
		t.Errorf("under failurePolicy Fail: %v", err)
	}
}

func TestDevicesThatTheKubeletHasDrawn(t *testing.T) {
	r := serve(t, nil)
	w := agent(t, r, nil, nri.Ignore)
	w.pods.add("train", 4)
	a := w.pods.pods["train"]
	a.Spec.Containers[0].Devices = []place.Count{{Resource: "acme.com/gpu", N: 1}}
	a.Devices = []pin.Given{{Container: "c", Resource: "acme.com/gpu", IDs: []string{"a"}}}
	w.pods.pods["train"] = a
	if err := r.create("train"); err != nil {
		t.Fatal(err)
	}
	r.want("train: 8-11 on 1")
}

func TestResizeInPlace(t *testing.T) {
	r := serve(t, nil)
	w := agent(t, r, nil, nri.Ignore)
	w.pods.add("web", 0)
	w.pods.add("db", 4)
	for _, uid := range []string{"web", "db"} {
		if err := r.create(uid); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		cpus int64
		want []string
	}{
		{6, []string{"db: 1-6 on 0", "web: 0,7-15 on 0-1"}},
		{2, []string{"db: 1-2 on 0", "web: 0,3-15 on 0-1"}},
	} {
		w.pods.add("db", c.cpus)
		r.Update("db", "c")
		r.want(c.want...)
	}
}

// An agent that cannot read its file gives no CPUs away: it no longer knows which ones are exclusive.
func TestABrokenStateFile(t *testing.T) {
	m, rules := rules(t)
	state := filepath.Join(t.TempDir(), "pins.json")
	for text, want := range map[string]string{"{": "unexpected end", `{"version": 9}`: "version 9, want 1",
		`{"version": 1, "pods": [{"uid": "a"}]}`: "pod a: spec is missing"} {
		if err := os.WriteFile(state, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := nri.New(nri.Config{Machine: m, Rules: rules, State: state})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "remove it once no pod") {
			t.Errorf("%s: error %v, want %q and the remedy", text, err, want)
		}
	}
}

// A pod that was deleted by force runs until its runtime has stopped it. No other pod gets its CPUs before.
func TestAPodThatWasDeletedByForce(t *testing.T) {
	r := serve(t, nil)
	w := agent(t, r, nil, nri.Ignore)
	w.pods.add("gone", 4, decided("8-11", 2))
	if err := r.create("gone"); err != nil {
		t.Fatal(err)
	}
	w.pods.ended["gone"] = true
	if err := w.Left(those()); err != nil {
		t.Fatal(err)
	}
	w.pods.add("next", 4, decided("8-11", 2))
	if err := r.create("next"); err != nil {
		t.Fatal(err)
	}
	r.want("gone: 8-11 on 1", "next: 1-4 on 0")
	r.Stop("gone", "c")
	if err := w.Left(those("next")); err != nil {
		t.Fatal(err)
	}
	r.wantSoon("next: 8-11 on 1") // as the scheduler decided
}

// While the agent was away, pods came with a decision and without one. No pod gets the CPUs that were decided for
// another one.
func TestPodsThatCameWhileTheAgentWasAway(t *testing.T) {
	r := serve(t, nil)
	w := &world{pods: &known{pods: map[string]nri.Arriving{}, ended: map[string]bool{}},
		state: filepath.Join(t.TempDir(), "pins.json")}
	w.pods.add("stranger", 4)
	w.pods.add("mine", 4, decided("1-4", 1))
	for _, uid := range []string{"stranger", "mine"} {
		if err := r.create(uid); err != nil {
			t.Fatal(err)
		}
	}
	agent(t, r, w, nri.Ignore)
	r.want("mine: 1-4 on 0", "stranger: 8-11 on 1")
}

// CPUs go offline, and others come online. A pod that has lost CPUs keeps the rest of its decision, or is placed anew.
func TestTheMachineChanges(t *testing.T) {
	r := serve(t, nil)
	w := agent(t, r, nil, nri.Ignore)
	w.pods.add("stays", 4, decided("8-11", 2))
	w.pods.add("moves", 4, decided("12-15", 2))
	for _, uid := range []string{"stays", "moves"} {
		if err := r.create(uid); err != nil {
			t.Fatal(err)
		}
	}
	m, err := topo.ParseMachine("numa 0 cpus 0-7 memory 16Gi\nnuma 1 cpus 8-14 memory 16Gi")
	if err != nil {
		t.Fatal(err)
	}
	_, rules := rules(t)
	if err := w.Use(m, rules); err != nil {
		t.Fatal(err)
	}
	r.wantSoon("moves: 1-4 on 0", "stays: 8-11 on 1")
}
