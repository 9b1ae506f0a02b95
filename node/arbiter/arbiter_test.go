package arbiter_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/node/arbiter"
	"github.com/tenon-numa/tenon/node/desired"
	"github.com/tenon-numa/tenon/node/kubelet"
	"github.com/tenon-numa/tenon/node/kubelet/kubelettest"
	"github.com/tenon-numa/tenon/node/nri"
	"github.com/tenon-numa/tenon/node/nri/nritest"
)

const kind = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

const pins = kind + `topologyManagerPolicy: single-numa-node
cpuManagerPolicy: static
reservedSystemCPUs: "0"
memoryManagerPolicy: Static
reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]
`

// text is a configuration in a text.
type text string

func (t text) Configuration(context.Context) (kubelet.Configuration, error) {
	return kubelet.ParseConfiguration([]byte(t))
}

// node is a node with an API server. The agent's watch may lag behind the API server.
type node struct {
	t       *testing.T
	dir     string
	runtime *nritest.Runtime
	service *kubelettest.Service
	unserve func() // stops the kubelet's service
	facts   desired.Facts
	devices []kubelet.Device
	*arbiter.Arbiter
	stop func()

	mu      sync.Mutex
	watched []*v1.Pod // pods of the agent's watch
	known   []v1.Pod  // pods of the API server
	events  chan string
	// fails are the API server's answers to the next events.
	fails []int
	names map[string]bool // of events
	full  string          // a namespace in which no event may be created
}

func newNode(t *testing.T) *node {
	t.Helper()
	dir, err := os.MkdirTemp("", "arb") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	n := &node{t: t, dir: dir, runtime: nritest.New(t, nil), service: &kubelettest.Service{},
		events: make(chan string, 64), names: map[string]bool{}}
	n.unserve = n.service.Serve(t, filepath.Join(dir, "kubelet.sock"))
	m, err := topo.ParseMachine("numa 0 cpus 0-7 memory 16Gi\nnuma 1 cpus 8-15 memory 16Gi")
	if err != nil {
		t.Fatal(err)
	}
	n.facts = desired.Facts{}.WithMachine(m, v1alpha1.Detail{}, nil)
	n.rules(kind, pins)
	return n
}

// rules sets the configurations of the kubelet and of the agent.
func (n *node) rules(has, pins text) {
	n.t.Helper()
	n.facts = n.facts.WithConfiguration(arbiter.Source{Kubelet: has, Pins: pins}.Configuration(n.t.Context()))
	if n.facts.Stale != nil {
		n.t.Fatal(n.facts.Stale)
	}
}

// start runs an agent's arbiter until it is stopped.
func (n *node) start() {
	n.t.Helper()
	api := httptest.NewServer(http.HandlerFunc(n.api))
	n.t.Cleanup(api.Close)
	a, err := arbiter.New(arbiter.Config{NodeName: "n", REST: &rest.Config{Host: api.URL}, Socket: n.runtime.Socket,
		State: filepath.Join(n.dir, "state", "pins.json"), Failure: nri.Ignore,
		PodResourcesSocket: filepath.Join(n.dir, "kubelet.sock"), StateDir: n.dir, Translate: pod.ToPlace,
		Logger: logr.Discard()})
	if err != nil {
		n.t.Fatal(err)
	}
	n.Arbiter = a
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.Run(ctx, n.list, func() {})
	}()
	n.stop = func() {
		cancel()
		<-ended
	}
	n.t.Cleanup(n.stop)
}

// api answers requests for pods, and stores events.
func (n *node) api(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodPost {
		var e v1.Event
		scheme := runtime.NewScheme()
		if err := v1.AddToScheme(scheme); err != nil {
			panic(err)
		}
		body := make([]byte, r.ContentLength)
		if _, err := r.Body.Read(body); err != nil && err.Error() != "EOF" {
			panic(err)
		}
		if _, _, err := protobuf.NewSerializer(scheme, scheme).Decode(body, nil, &e); err != nil {
			panic(err)
		}
		code := n.fail(e.Name)
		if e.Namespace == n.full {
			code = http.StatusForbidden
		}
		if code != 0 {
			w.WriteHeader(code)
			_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
				Status: metav1.StatusFailure, Code: int32(code), Reason: reasons[code]})
			return
		}
		n.events <- e.InvolvedObject.Name + " " + e.Reason
		_ = json.NewEncoder(w).Encode(v1.Event{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Event"}})
		return
	}
	_ = json.NewEncoder(w).Encode(v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: n.known})
}

var reasons = map[int]metav1.StatusReason{http.StatusConflict: metav1.StatusReasonAlreadyExists,
	http.StatusServiceUnavailable:  metav1.StatusReasonServiceUnavailable,
	http.StatusForbidden:           metav1.StatusReasonForbidden,
	http.StatusUnprocessableEntity: metav1.StatusReasonInvalid}

// fail returns the code with which an event is refused; 0: it is accepted. The caller holds the lock.
func (n *node) fail(name string) int {
	if len(n.fails) > 0 {
		code := n.fails[0]
		n.fails = n.fails[1:]
		return code
	}
	if n.names[name] {
		return http.StatusConflict
	}
	n.names[name] = true
	return 0
}

func (n *node) list() []*v1.Pod {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.watched)
}

// bind makes a pod of one container that requests CPUs, with a decision or without one. Unless late is true, the
// agent's watch has the pod.
func (n *node) bind(name string, cpus string, decision string, late bool) nritest.Pod {
	amounts := v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpus), v1.ResourceMemory: resource.MustParse("1Gi")}
	p := v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)},
		Spec: v1.PodSpec{NodeName: "n", Containers: []v1.Container{{Name: "c",
			Resources: v1.ResourceRequirements{Requests: amounts, Limits: amounts}}}},
		Status: v1.PodStatus{QOSClass: v1.PodQOSGuaranteed}}
	if decision != "" {
		p.Annotations = map[string]string{v1alpha1.DecisionAnnotation: decision}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.known = append(n.known, p)
	if !late {
		n.watched = append(n.watched, &p)
	}
	return nritest.Pod{Namespace: "ns", Name: name, UID: string(p.UID)}
}

// decision returns a scheduler's decision for a pod.
func (n *node) decision(uid, cpus string, mask topo.Mask) string {
	n.t.Helper()
	set, err := idset.Parse[idset.CPU](cpus)
	if err != nil {
		n.t.Fatal(err)
	}
	text, err := v1alpha1.DecisionText(n.facts.Machine, uid, "n", []place.Holding{{Container: "c", CPUs: set,
		Memory: []place.Block{{Kind: topo.Memory, NUMAs: mask, Bytes: 1 << 30}}}})
	if err != nil {
		n.t.Fatal(err)
	}
	return text
}

// lingering returns the reports about pods that the API server has deleted.
func (n *node) lingering() (out []string) {
	n.t.Helper()
	o := kubelet.Observation{}
	if _, err := n.Observe(n.t.Context(), n.facts, &o); err != nil {
		n.t.Fatal(err)
	}
	for _, e := range o.Held {
		out = append(out, fmt.Sprintf("%s/%s %s", e.Pod.Namespace, e.Pod.Name, e.Holdings[0].CPUs))
	}
	return out
}

// observe is one reconcile. It returns the holdings of pods according to the plugin, and the reason why it does not
// pin.
func (n *node) observe() (held, unpinned string) {
	n.t.Helper()
	o := kubelet.Observation{Allocatable: n.devices}
	unpinned, err := n.Observe(n.t.Context(), n.facts, &o)
	if err != nil {
		n.t.Fatal(err)
	}
	if unpinned == "" && o.CPU != nil {
		n.runtime.Ready()
	}
	var out []string
	if o.CPU != nil {
		for uid, byName := range o.CPU.Containers {
			out = append(out, fmt.Sprintf("%s=%s", strings.TrimPrefix(uid, "uid-"), byName["c"]))
		}
	}
	slices.Sort(out)
	return strings.Join(out, " "), unpinned
}

func (n *node) want(held string) {
	n.t.Helper()
	if got, unpinned := n.observe(); got != held || unpinned != "" {
		n.t.Errorf("pods hold %q, want %q (%s)", got, held, unpinned)
	}
}

func (n *node) create(p nritest.Pod) {
	n.t.Helper()
	if err := n.runtime.Create(p, "c"); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) event(want string) {
	n.t.Helper()
	if got := <-n.events; got != want {
		n.t.Errorf("event %q, want %q", got, want)
	}
}

// The agent pins and reports what the scheduler decided, and places all other pods itself. An agent that starts again
// has all decisions.
func TestPodsArePinnedAndReported(t *testing.T) {
	n := newNode(t)
	n.start()
	n.want("")
	n.create(n.bind("decided", "4", n.decision("uid-decided", "10-13", 2), false))
	n.create(n.bind("late", "2", n.decision("uid-late", "14-15", 2), true))
	n.create(n.bind("stranger", "2", "", false))
	n.want("decided=10-13 late=14-15 stranger=1-2")
	n.event("stranger PlacedByAgent")
	if got := n.runtime.Pinned("uid-decided", "c"); got != "10-13 on 1" {
		t.Errorf("pinned to %s", got)
	}
	n.stop()
	n.start()
	n.want("decided=10-13 late=14-15 stranger=1-2")
	if got := n.runtime.Pinned("uid-late", "c"); got != "14-15 on 1" {
		t.Errorf("after a restart of the agent, pinned to %s", got)
	}
}

// The agent does not use a decision for another pod, for an earlier pod of the name, or for CPUs that are taken. An
// event reports such a decision.
func TestForgedDecisions(t *testing.T) {
	n := newNode(t)
	n.start()
	n.want("")
	n.create(n.bind("owner", "4", n.decision("uid-owner", "8-11", 2), false))
	n.create(n.bind("thief", "4", n.decision("uid-owner", "8-11", 2), false))
	n.event("thief PlacementIgnored")
	n.create(n.bind("liar", "2", n.decision("uid-liar", "8-9", 2), false))
	n.event("liar PlacementReplaced")
	n.create(n.bind("noise", "1", "{", false))
	n.event("noise PlacementIgnored")
	n.want("liar=5-6 noise=7 owner=8-11 thief=1-4")
}

// A pod that the agent places gets no CPUs that are decided for a bound pod whose containers start later. A forged
// decision keeps no CPUs free.
func TestAPodOnItsWayFindsItsCPUsFree(t *testing.T) {
	n := newNode(t)
	n.start()
	n.want("")
	late := n.bind("late", "2", n.decision("uid-late", "1-2", 1), false)
	n.bind("forged", "2", n.decision("uid-another", "3-4", 1), false)
	n.create(n.bind("stranger", "2", "", false))
	n.want("stranger=3-4")
	n.create(late)
	n.want("late=1-2 stranger=3-4")
	n.event("stranger PlacedByAgent")
}

// Once the kubelet's managers are on, the agent pins nothing and reports why. Once they are off, it pins all containers
// again.
func TestTheKubeletDecides(t *testing.T) {
	n := newNode(t)
	n.start()
	n.want("")
	n.create(n.bind("p", "2", "", false))
	n.want("p=1-2")
	n.rules(kind+"cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\n", pins)
	if n.facts.Rules.Arbiter != place.ByKubelet || n.facts.Configuration.Refusal == nil ||
		!strings.Contains(n.facts.Configuration.Refusal.Error(), "cpuManagerPolicy is static") {
		t.Fatalf("rules %+v, refusal %v", n.facts.Rules, n.facts.Configuration.Refusal)
	}
	if held, _ := n.observe(); held != "" {
		t.Errorf("beside the kubelet's managers the agent reports %s", held)
	}
	n.rules(kind, pins)
	n.want("p=1-2")
}

// Without a runtime the agent reports its earlier decisions, and that it does not pin.
func TestNoRuntime(t *testing.T) {
	n := newNode(t)
	n.runtime.Socket += "-gone"
	n.start()
	held, unpinned := n.observe()
	if held != "" || !strings.Contains(unpinned, "not connected to the container runtime") {
		t.Errorf("pods hold %q, unpinned is %q", held, unpinned)
	}
}

// A deleted pod gives its CPUs back when its containers have ended. A pod that is resized in place gives them back when
// the kubelet has done the resize.
func TestPodsEndAndAreResized(t *testing.T) {
	n := newNode(t)
	n.start()
	n.want("")
	n.create(n.bind("a", "4", "", false))
	n.create(n.bind("b", "2", "", false))
	n.want("a=1-4 b=5-6")
	request := func(spec, runs string) {
		n.mu.Lock()
		defer n.mu.Unlock()
		p := n.watched[1].DeepCopy()
		p.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse(spec)
		p.Spec.Containers[0].Resources.Limits[v1.ResourceCPU] = resource.MustParse(spec)
		p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "c", Resources: &v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(runs)}}}}
		n.watched[1] = p
	}
	request("3", "2")
	n.want("a=1-4 b=5-6")
	request("3", "3")
	n.want("a=1-4 b=5-7")
	n.mu.Lock()
	n.watched = n.watched[1:]
	n.mu.Unlock()
	n.want("a=1-4 b=5-7")
	if got := n.lingering(); !slices.Equal(got, []string{"ns/a 1-4"}) {
		t.Errorf("of pods that were deleted by force, %q is reported", got)
	}
	n.runtime.Stop("uid-a", "c")
	n.want("b=5-7")
	if got := n.lingering(); len(got) > 0 {
		t.Errorf("after their containers have ended, %q is reported", got)
	}
}

func TestAPinConfigurationThatPinsNothing(t *testing.T) {
	_, err := arbiter.Source{Kubelet: text(kind), Pins: text(kind)}.Configuration(t.Context())
	if err == nil || !strings.Contains(err.Error(), "set it to static") {
		t.Errorf("error %v", err)
	}
}
