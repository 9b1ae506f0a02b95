package mover

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/pin"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/guests/affinity/traffic"
)

// node is a node with pods, a kernel that counts their bytes, and an API server that has its object.
type node struct {
	t      *testing.T
	pinned *pin.Node
	near   map[string]idset.NUMA
	pods   []*v1.Pod
	sent   map[string]map[string]uint64 // from and to a pod, by UID
	object *v1alpha1.NodeAffinity
	writes int
	now    time.Time
}

func newNode(t *testing.T) *node {
	t.Helper()
	m, err := topo.ParseMachine("numa 0 cpus 0-3 memory 8Gi\nnuma 1 cpus 4-7 memory 8Gi\n")
	if err != nil {
		t.Fatal(err)
	}
	return &node{t: t, pinned: pin.New(m, place.Rules{Arbiter: place.ByAgent, CPU: place.CPURules{Static: true,
		Reserved: idset.Of[idset.CPU](0)}}), sent: map[string]map[string]uint64{}, now: time.Unix(1e9, 0)}
}

func (n *node) Node() *pin.Node { return n.pinned }

func (n *node) Namespaces() map[string]string {
	out := map[string]string{}
	for _, p := range n.pods {
		out[string(p.UID)] = "/ns/" + string(p.UID)
	}
	return out
}

func (n *node) Near(numas map[string]idset.NUMA, _ bool) { n.near = numas }

func (n *node) Get(context.Context, string, metav1.GetOptions) (*v1alpha1.NodeAffinity, error) {
	if n.object == nil {
		return nil, apierrors.NewNotFound(v1alpha1.NodeAffinityResource().GroupResource(), "here")
	}
	return n.object, nil
}

func (n *node) Apply(_ context.Context, a *v1alpha1.NodeAffinity) error {
	n.object = a
	n.writes++
	return nil
}

// add adds a pod in the namespace "web".
func (n *node) add(uid string, cpu string, annotations map[string]string) {
	n.pods = append(n.pods, &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: uid, UID: types.UID(uid), Annotations: annotations},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu),
				v1.ResourceMemory: resource.MustParse("64Mi")}}}}},
		Status: v1.PodStatus{PodIPs: []v1.PodIP{{IP: n.ip(len(n.pods)).String()}}}})
}

func (n *node) ip(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}) }

// read is a traffic.Reader: each pod has a connection to each other.
func (n *node) read(path string, _ int, each func(traffic.Socket)) (bool, error) {
	uid := strings.TrimPrefix(path, "/ns/")
	own := slices.IndexFunc(n.pods, func(p *v1.Pod) bool { return string(p.UID) == uid })
	for i, p := range n.pods {
		if i != own {
			each(traffic.Socket{Cookie: uint64(i), Local: netip.AddrPortFrom(n.ip(own), 80),
				Remote: netip.AddrPortFrom(n.ip(i), 80), Bytes: n.sent[uid][string(p.UID)]})
		}
	}
	return true, nil
}

// talk has two pods exchange a number of bytes.
func (n *node) talk(a, b string, bytes uint64) {
	for _, ends := range [][2]string{{a, b}, {b, a}} {
		if n.sent[ends[0]] == nil {
			n.sent[ends[0]] = map[string]uint64{}
		}
		n.sent[ends[0]][ends[1]] += bytes
	}
}

func (n *node) agent(namespaces ...string) *Runner {
	n.t.Helper()
	r, err := New(Config{NodeName: "here", Store: n, Namespaces: namespaces, Period: 10 * time.Second, Read: n.read,
		Owners: func(context.Context) ([]metav1.OwnerReference, error) { return nil, nil }, Logger: logr.Discard()})
	if err != nil {
		n.t.Fatal(err)
	}
	return r
}

// period lets ten seconds pass, in which web and db exchange 20 MB a second.
func (n *node) period(r *Runner) {
	n.talk("web", "db", 200e6)
	n.now = n.now.Add(10 * time.Second)
	r.step(n.t.Context(), n.pods, n, n.now)
}

func (n *node) want(near map[string]idset.NUMA) {
	n.t.Helper()
	if !maps.Equal(n.near, near) {
		n.t.Errorf("pods are on NUMA nodes %v, want %v", n.near, near)
	}
}

func (n *node) wantOutcomes(all ...string) {
	n.t.Helper()
	var got []string
	for _, p := range n.object.Pods {
		got = append(got, p.Name+" "+p.Outcome)
	}
	if !slices.Equal(got, all) {
		n.t.Errorf("the object has %v, want %v", got, all)
	}
}

func TestTalkersComeTogether(t *testing.T) {
	n := newNode(t)
	for _, uid := range []string{"db", "quiet", "web"} {
		n.add(uid, "500m", nil)
	}
	n.add("system", "100m", map[string]string{v1alpha1.AffinityAnnotation: v1alpha1.AffinityNone})
	r := n.agent("web")
	n.period(r) // the counters are known from now on
	n.want(map[string]idset.NUMA{})
	n.period(r)
	n.want(map[string]idset.NUMA{})
	n.wantOutcomes("db waits", "quiet silent", "web waits")
	n.period(r)
	n.want(map[string]idset.NUMA{"db": 1, "web": 1})
	n.wantOutcomes("db moved", "quiet silent", "web moved")
	o := n.object
	if s := o.Summary; s.Pods != 3 || s.Placed != 2 || s.LocalBytesPerSecond != 20e6 || s.RemoteBytesPerSecond != 0 {
		t.Errorf("summary %+v", s)
	}
	if m := o.LastMove; m == nil || m.Pods != 2 || m.RemoteBefore != 20e6 || m.RemoteAfter != 0 {
		t.Errorf("last move %+v", m)
	}
	if tr := o.Traffic; len(tr) != 1 || tr[0].A != "web/db" || tr[0].B != "web/web" || tr[0].BytesPerSecond != 20e6 ||
		tr[0].Remote {
		t.Errorf("traffic %+v", tr)
	}

	// Nothing is written while nothing is decided, but every five minutes.
	n.period(r)
	writes := n.writes
	for range 20 {
		n.period(r)
	}
	if n.writes != writes {
		t.Errorf("%d writes in 200 seconds without a decision", n.writes-writes)
	}
	for range 20 {
		n.period(r)
	}
	if n.writes != writes+1 {
		t.Errorf("%d writes in 400 seconds without a decision", n.writes-writes)
	}
}

func TestARestartMovesNoPod(t *testing.T) {
	n := newNode(t)
	n.add("db", "500m", nil)
	n.add("web", "500m", nil)
	r := n.agent("*")
	for range 3 {
		n.period(r)
	}
	n.near = nil // the runtime's new plugin
	again := n.agent("*")
	n.period(again)
	n.want(map[string]idset.NUMA{"db": 1, "web": 1})
	n.pods = n.pods[:1]
	n.period(again)
	n.want(map[string]idset.NUMA{"db": 1})
}

func TestOnlyPodsThatOptedInAreMoved(t *testing.T) {
	n := newNode(t)
	n.add("db", "500m", nil)
	n.add("web", "500m", map[string]string{v1alpha1.AffinityAnnotation: v1alpha1.AffinityMeasure})
	r := n.agent()
	for range 4 {
		n.period(r)
	}
	n.want(map[string]idset.NUMA{})
	n.pods[0].Annotations = map[string]string{v1alpha1.AffinityAnnotation: v1alpha1.AffinityMeasure}
	for range 3 {
		n.period(r)
	}
	n.want(map[string]idset.NUMA{"db": 1, "web": 1})
	for _, p := range n.pods {
		p.Annotations = nil
	}
	n.period(r)
	n.want(map[string]idset.NUMA{})
	n.wantOutcomes("db released", "web released")
	n.period(r)
	n.wantOutcomes()
}

func TestPodsAreMovedToAPodWithExclusiveCPUs(t *testing.T) {
	n := newNode(t)
	n.add("db", "2", nil)
	n.add("web", "500m", map[string]string{v1alpha1.AffinityAnnotation: v1alpha1.AffinityMeasure})
	n.pinned = n.pinned.With(pin.Arrival{UID: "db", Spec: &place.Pod{QoS: place.Guaranteed,
		Containers: []place.Container{{Name: "c", MilliCPU: 2000}}}})
	one, _ := n.pinned.Pod("db")
	at := n.pinned.Machine().IDs(n.pinned.Machine().MaskOfCPUs(one.Holdings[0].CPUs))
	r := n.agent()
	for range 3 {
		n.period(r)
	}
	n.want(map[string]idset.NUMA{"web": at[0]})
	n.wantOutcomes("db exclusive-cpus", "web moved")
}

func TestAGroupNeedsNoTraffic(t *testing.T) {
	n := newNode(t)
	for i, group := range []string{"a", "a", "b", "bad\ngroup"} {
		n.add(fmt.Sprint("p", i), "1", map[string]string{apipod.AffinityGroupAnnotation: group})
	}
	r := n.agent()
	for range 3 {
		n.period(r)
	}
	n.want(map[string]idset.NUMA{"p0": 1, "p1": 1})
}

// Ten pods of one group do not fit on a NUMA node: each gets no more than it has.
func TestAGroupThatIsTooLargeIsSpread(t *testing.T) {
	n := newNode(t)
	for i := range 10 {
		n.add(fmt.Sprint("p", i), "600m", map[string]string{apipod.AffinityGroupAnnotation: "large"})
	}
	r := n.agent()
	for range 5 {
		n.period(r)
	}
	used := map[idset.NUMA]int{}
	for _, at := range n.near {
		used[at] += 600
	}
	if used[0] > 3000 || used[1] > 4000 || used[0] == 0 || used[1] == 0 {
		t.Errorf("NUMA nodes have %v of 3000 and 4000", used)
	}
}

// A pod that claims the UID of another one opts in for itself alone.
func TestForgedUIDs(t *testing.T) {
	n := newNode(t)
	measure := map[string]string{v1alpha1.AffinityAnnotation: v1alpha1.AffinityMeasure}
	n.add("liar", "500m", map[string]string{v1alpha1.AffinityAnnotation: v1alpha1.AffinityMeasure,
		"kubernetes.io/config.hash": "db"})
	n.add("db", "500m", nil)
	n.add("web", "500m", measure)
	r := n.agent()
	for range 4 {
		n.period(r)
	}
	n.want(map[string]idset.NUMA{})
}
