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

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"github.com/go-logr/logr"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/pin"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/node/nri"
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

// known are the pods that the API server has, by UID.
type known struct {
	mu    sync.Mutex
	pods  map[string]nri.Arriving
	ended map[string]bool
}

func (k *known) Arriving(_ context.Context, uid string) (nri.Arriving, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	a, ok := k.pods[uid]
	return a, ok
}

func (k *known) Ended(_ context.Context, uids []string) (out []string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, uid := range uids {
		if k.ended[uid] {
			out = append(out, uid)
		}
	}
	return out, nil
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

// runtime is the runtime's half of NRI, with containers whose cpusets are what the plugin said last.
type runtime struct {
	t    *testing.T
	nri  *adaptation.Adaptation
	mu   sync.Mutex
	pods []*api.PodSandbox
	all  map[string]*api.Container
	sets map[string]string // by container: CPUs and NUMA nodes
	told chan struct{}     // receives when updates came unasked
}

// serve starts a runtime with the containers of another one, or none.
func serve(t *testing.T, before *runtime) (*runtime, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "nri") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	r := &runtime{t: t, all: map[string]*api.Container{}, sets: map[string]string{}, told: make(chan struct{}, 16)}
	if before != nil {
		r.pods, r.all, r.sets = before.pods, before.all, before.sets
	}
	socket := filepath.Join(dir, "s")
	r.nri, err = adaptation.New("test", "v1", r.synchronize, r.update, adaptation.WithSocketPath(socket),
		adaptation.WithPluginPath(dir), adaptation.WithPluginConfigPath(dir))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.nri.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.nri.Stop()
		_ = os.RemoveAll(dir)
	})
	return r, socket
}

func (r *runtime) synchronize(ctx context.Context, with adaptation.SyncCB) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	updates, err := with(ctx, r.pods, slices.Collect(maps.Values(r.all)))
	r.apply(updates)
	return err
}

func (r *runtime) update(_ context.Context, updates []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.apply(updates)
	r.told <- struct{}{}
	return nil, nil
}

func (r *runtime) apply(updates []*api.ContainerUpdate) {
	for _, u := range updates {
		cpu := u.GetLinux().GetResources().GetCpu()
		r.sets[u.ContainerId] = cpu.GetCpus() + " on " + cpu.GetMems()
	}
}

// create starts a pod of one container, and returns the error of the plugin.
func (r *runtime) create(uid string) error {
	s := &api.PodSandbox{Id: "sandbox-" + uid, Uid: uid, Name: uid, Namespace: "default"}
	c := &api.Container{Id: uid, PodSandboxId: s.Id, Name: "c", CreatedAt: int64(len(r.all) + 1),
		State: api.ContainerState_CONTAINER_RUNNING}
	reply, err := r.nri.CreateContainer(r.t.Context(), &api.CreateContainerRequest{Pod: s, Container: c})
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		return err
	}
	r.pods, r.all[uid] = append(r.pods, s), c
	cpu := reply.GetAdjust().GetLinux().GetResources().GetCpu()
	r.sets[uid] = cpu.GetCpus() + " on " + cpu.GetMems()
	r.apply(reply.Update)
	return nil
}

// end removes a pod.
func (r *runtime) end(uid string) {
	r.t.Helper()
	r.mu.Lock()
	i := slices.IndexFunc(r.pods, func(s *api.PodSandbox) bool { return s.Uid == uid })
	s, c := r.pods[i], r.all[uid]
	r.pods = slices.Delete(r.pods, i, i+1)
	delete(r.all, uid)
	delete(r.sets, uid)
	r.mu.Unlock()
	if err := r.nri.RemoveContainer(r.t.Context(), &api.RemoveContainerRequest{Pod: s, Container: c}); err != nil {
		r.t.Fatal(err)
	}
	if err := r.nri.RemovePodSandbox(r.t.Context(), &api.RemovePodSandboxRequest{Pod: s}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *runtime) want(all ...string) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var got []string
	for _, id := range slices.Sorted(maps.Keys(r.sets)) {
		got = append(got, id+": "+r.sets[id])
	}
	if !slices.Equal(got, all) {
		r.t.Errorf("containers are pinned to\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(all, "\n"))
	}
}

// world is an agent with its plugin.
type world struct {
	*nri.Plugin
	pods  *known
	state string
	mu    sync.Mutex
	found []string // what was said of pods that were placed
	stop  func()
}

// agent starts an agent on a runtime, and returns when it is connected.
func agent(t *testing.T, r *runtime, socket string, w *world, failure nri.FailurePolicy) *world {
	t.Helper()
	if w == nil {
		w = &world{pods: &known{pods: map[string]nri.Arriving{}, ended: map[string]bool{}},
			state: filepath.Join(t.TempDir(), "pins.json")}
	}
	m, rules := rules(t)
	p, err := nri.New(nri.Config{Machine: m, Rules: rules, Pods: w.pods, State: w.state, Failure: failure,
		Logger: logr.Discard(), Placed: func(a nri.Arriving, p pin.Pod) {
			w.mu.Lock()
			defer w.mu.Unlock()
			text := fmt.Sprint(a.Name, " decided=", p.Decided)
			if p.Fault != nil {
				text += " " + string(p.Fault.Code)
			}
			w.found = append(w.found, text)
		}})
	if err != nil {
		t.Fatal(err)
	}
	w.Plugin = p
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan error, 16), make(chan struct{})
	go func() {
		defer close(done)
		p.Run(ctx, socket, func(err error) { ready <- err })
	}()
	w.stop = func() { cancel(); <-done }
	t.Cleanup(w.stop)
	if err := <-ready; err != nil {
		t.Fatal(err)
	}
	r.nri.BlockPluginSync().Unblock() // the runtime asks plugins only after that
	return w
}

func decided(text string, mask topo.Mask) place.Holding {
	cpus, err := idset.Parse[idset.CPU](text)
	if err != nil {
		panic(err)
	}
	return place.Holding{Container: "c", CPUs: cpus,
		Memory: []place.Block{{Kind: topo.Memory, NUMAs: mask, Bytes: 1 << 30}}}
}

// Exclusive CPUs come and go; who shares gets what is left at the same moment.
func TestContainersArePinnedAsTheyComeAndGo(t *testing.T) {
	r, socket := serve(t, nil)
	w := agent(t, r, socket, nil, nri.Ignore)
	w.pods.add("web", 0)
	w.pods.add("mine", 4, decided("10-13", 2))
	w.pods.add("other", 2)
	for _, uid := range []string{"web", "mine", "other"} {
		if err := r.create(uid); err != nil {
			t.Fatal(err)
		}
	}
	r.want("mine: 10-13 on 1", "other: 1-2 on 0", "web: 0,3-9,14-15 on 0-1")
	r.end("mine")
	<-r.told
	r.want("other: 1-2 on 0", "web: 0,3-15 on 0-1")
	if got := strings.Join(w.found, "; "); got != "web decided=false; mine decided=true; other decided=false" {
		t.Errorf("said of pods: %s", got)
	}
}

// Agent and runtime end and start at any time: nobody gets another one's CPUs, and nothing moves.
func TestWhatWasDecidedOutlivesAgentAndRuntime(t *testing.T) {
	r, socket := serve(t, nil)
	w := agent(t, r, socket, nil, nri.Ignore)
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
	for id := range r.sets {
		r.sets[id] = "lost" // somebody else has pinned them meanwhile
	}
	agent(t, r, socket, w, nri.Ignore)
	r.want(pinned...)

	w.stop()
	later, socket := serve(t, r) // the runtime was restarted, without pod b
	later.pods = slices.DeleteFunc(later.pods, func(s *api.PodSandbox) bool { return s.Uid == "b" })
	delete(later.all, "b")
	delete(later.sets, "b")
	agent(t, later, socket, w, nri.Ignore)
	later.want("a: 12-15 on 1", "web: 0-11 on 0-1")
}

// The scheduler may know of the end of a pod before the runtime has removed it.
func TestADecisionForCPUsOfAPodThatHasEnded(t *testing.T) {
	r, socket := serve(t, nil)
	w := agent(t, r, socket, nil, nri.Ignore)
	w.pods.add("done", 4, decided("8-11", 2))
	if err := r.create("done"); err != nil {
		t.Fatal(err)
	}
	w.pods.add("next", 4, decided("8-11", 2))
	w.pods.ended["done"] = true
	if err := r.create("next"); err != nil {
		t.Fatal(err)
	}
	if got := r.sets["next"]; got != "8-11 on 1" {
		t.Errorf("the next pod is pinned to %s", got)
	}
	w.pods.add("thief", 4, decided("8-11", 2)) // but next has not ended
	if err := r.create("thief"); err != nil {
		t.Fatal(err)
	}
	if got := r.sets["thief"]; got != "1-4 on 0" {
		t.Errorf("a pod with a decision for CPUs that are held is pinned to %s", got)
	}
	if got := w.found[len(w.found)-1]; got != "thief decided=false decision-replaced" {
		t.Errorf("said of it: %s", got)
	}
}

func TestAPodThatIsNotKnownYet(t *testing.T) {
	r, socket := serve(t, nil)
	w := agent(t, r, socket, nil, nri.Ignore)
	if err := r.create("early"); err != nil {
		t.Fatal(err)
	}
	r.want("early: 0-15 on 0-1")
	w.pods.add("early", 2)
	if err := w.Arrived(t.Context(), "early"); err != nil {
		t.Fatal(err)
	}
	<-r.told
	r.want("early: 1-2 on 0")

	strict, socket := serve(t, nil)
	agent(t, strict, socket, nil, nri.Fail)
	if err := strict.create("early"); err == nil || !strings.Contains(err.Error(), "default/early is not known yet") {
		t.Errorf("under failurePolicy Fail: %v", err)
	}
}

func TestDevicesThatTheKubeletHasDrawn(t *testing.T) {
	r, socket := serve(t, nil)
	w := agent(t, r, socket, nil, nri.Ignore)
	w.pods.add("train", 4)
	a := w.pods.pods["train"]
	a.Spec.Containers[0].Devices = []place.Count{{Resource: "acme.com/gpu", N: 1}}
	a.Devices = map[string][]string{"acme.com/gpu": {"a"}}
	w.pods.pods["train"] = a
	if err := r.create("train"); err != nil {
		t.Fatal(err)
	}
	r.want("train: 8-11 on 1")
}

func TestResizeInPlace(t *testing.T) {
	r, socket := serve(t, nil)
	w := agent(t, r, socket, nil, nri.Ignore)
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
		reply, err := r.nri.UpdateContainer(t.Context(), &api.UpdateContainerRequest{Pod: r.pods[1], Container: r.all["db"],
			LinuxResources: &api.LinuxResources{Cpu: &api.LinuxCPU{Shares: api.UInt64(uint64(c.cpus * 1024))}}})
		if err != nil {
			t.Fatal(err)
		}
		r.apply(reply.Update)
		r.want(c.want...)
	}
}

// A file that cannot be read keeps the agent from giving away CPUs that it has forgotten.
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
