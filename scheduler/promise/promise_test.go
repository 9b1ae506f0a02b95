package promise

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/core/whatif"
)

const nodeMachine = "numa 0 socket 0 cpus 0-7 memory 32Gi\nnuma 1 socket 1 cpus 8-15 memory 32Gi\n"

// cluster is two nodes of two NUMA nodes with 8 CPUs each.
type cluster struct {
	book            *ledger.Book
	keeper          *Keeper
	freed, released []string
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	m, err := topo.ParseMachine(nodeMachine)
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{book: ledger.New()}
	rules := place.Rules{Topology: place.TopologyRules{Policy: place.SingleNUMA}, CPU: place.CPURules{Static: true}}
	for _, name := range []string{"a", "b"} {
		c.book.Report(name, state.Layout{Machine: m, Rules: rules})
	}
	c.keeper = NewKeeper(c.book, func(node string, list []state.Promised, sum whatif.Amounts) bool {
		n := *c.book.Snapshot().Node(node)
		n.Promised = list
		return n.Keeps() && sum["pods"] <= 20
	}, func(node string) { c.freed = append(c.freed, node) },
		func(owner string) { c.released = append(c.released, owner) })
	return c
}

func podOf(cpus int64) Pod {
	return Pod{Pod: &place.Pod{QoS: place.Guaranteed, Containers: []place.Container{{Name: "c", MilliCPU: cpus * 1000,
		Memory: []place.Amount{{Kind: topo.Memory, Bytes: 1 << 30}}}}},
		Needs: whatif.Amounts{"cpu": cpus * 1000, "pods": 1}}
}

func at(node string, p Pod) Place { return Place{Node: node, Pod: p} }

// use has a pod reserved, with a place of its request if it has one.
func (c *cluster) use(uid, request, node string, p Pod) (fits bool) {
	coming := Coming{UID: uid, Request: request, Node: node, Pod: p.Pod, Demand: p.Demand}
	c.keeper.Use(coming, func(whatif.Amounts) bool {
		v, ok := c.book.Reserve(node, state.PodID{UID: uid}, p.Pod, p.Demand)
		fits = ok && v.Fits()
		return fits
	})
	return fits
}

func (c *cluster) promisedOn(node string) (out []string) {
	for _, x := range c.book.Snapshot().Node(node).Promised {
		out = append(out, x.For)
	}
	return out
}

// A pod that names a request gets its place, and gives it back if it cannot be bound; others do not get it. What does
// not fit beside the rest is not kept.
func TestPlacesAreForTheirPods(t *testing.T) {
	c := newCluster(t)
	full, err := c.keeper.Keep(Request{Name: "ml/r"}, []Place{at("a", podOf(8)), at("a", podOf(8)), at("b", podOf(6))})
	if err != nil || len(full) > 0 {
		t.Fatalf("keep: %v, full %v", err, full)
	}
	if full, err := c.keeper.Keep(Request{Name: "ml/q"}, []Place{at("a", podOf(1)), at("b", podOf(2))}); err != nil ||
		!slices.Equal(full, []string{"a"}) || len(c.promisedOn("b")) != 1 {
		t.Errorf("a request without room: %v, full %v, b has promised %v", err, full, c.promisedOn("b"))
	}
	if c.use("other", "", "a", podOf(1)) || c.use("other", "ml/unknown", "a", podOf(1)) {
		t.Error("another pod got the room")
	}
	if !c.use("p", "ml/r", "a", podOf(8)) || len(c.promisedOn("a")) != 1 {
		t.Errorf("the pod of the request got no room; promised is %v", c.promisedOn("a"))
	}
	c.keeper.GiveBack("p")
	c.book.Unreserve("p")
	if len(c.promisedOn("a")) != 2 || c.use("other", "", "a", podOf(1)) {
		t.Error("a pod that could not be bound did not give its place back")
	}
	// A pod uses up a place on its node, or else one elsewhere.
	if !c.use("p", "ml/r", "b", podOf(8)) || len(c.promisedOn("a")) != 2 || len(c.promisedOn("b")) != 0 {
		t.Errorf("promised are %v and %v", c.promisedOn("a"), c.promisedOn("b"))
	}
	if !c.use("q", "ml/r", "b", podOf(8)) || len(c.promisedOn("a")) != 1 {
		t.Errorf("promised are %v and %v", c.promisedOn("a"), c.promisedOn("b"))
	}
	if got := c.keeper.Amounts("a", ""); got["cpu"] != 8000 || got["pods"] != 1 {
		t.Errorf("the amounts that are kept on a are %v", got)
	}
	if got := c.keeper.Amounts("a", "ml/r"); len(got) > 0 {
		t.Errorf("for a pod of the request, %v is kept on a", got)
	}
	c.keeper.Drop("ml/r")
	if c.keeper.Any() || !slices.Equal(c.freed, []string{"a", "a"}) || !c.use("other", "", "a", podOf(8)) {
		t.Errorf("after the end of the request, its room is not free: %v", c.freed)
	}
}

// Places of a request that names a controller are for the pods that it creates from then on, one request after the
// other.
func TestPodsOfAnOwnerUseUpPlaces(t *testing.T) {
	c := newCluster(t)
	for name, node := range map[string]string{"ml/m-0": "a", "ml/m-1": "b"} {
		r := Request{Name: name, Owner: "ml/set", Since: 100}
		if full, err := c.keeper.Keep(r, []Place{{Node: node, Pod: podOf(8)}}); err != nil || len(full) > 0 {
			t.Fatalf("keep %s: %v, full %v", name, err, full)
		}
	}
	for name, x := range map[string]struct {
		owner   string
		created int64
		want    string
	}{
		"later":                {"ml/set", 100, "ml/m-0"},
		"an older one":         {"ml/set", 99, ""},
		"of another":           {"ml/other", 200, ""},
		"of another namespace": {"evil/set", 200, ""},
		"without a controller": {"", 200, ""},
	} {
		if got := c.keeper.Owned(x.owner, x.created); got != x.want {
			t.Errorf("%s: a pod uses up a place of %q, want %q", name, got, x.want)
		}
	}
	if !c.use("p", c.keeper.Owned("ml/set", 100), "a", podOf(8)) {
		t.Error("the first pod got no room")
	}
	if got := c.keeper.Owned("ml/set", 100); got != "ml/m-1" {
		t.Errorf("the second pod uses up a place of %q", got)
	}
	c.keeper.Drop("ml/m-1")
	if got := c.keeper.Owned("ml/set", 100); got != "" {
		t.Errorf("a request that has ended gives a place: %q", got)
	}
	c.keeper.GiveBack("p")
	if got := c.keeper.Owned("ml/set", 100); got != "ml/m-0" {
		t.Errorf("a place that was given back is for nobody: %q", got)
	}
	if c.keeper.Drop("ml/m-0"); len(c.keeper.owned) > 0 {
		t.Errorf("owners of ended requests remain: %v", c.keeper.owned)
	}
}

// A pod names requests of its own namespace only, and only of this class.
func TestPodsUseUpPlacesOfTheirOwnNamespace(t *testing.T) {
	for _, x := range []struct {
		namespace, name, class, want string
	}{
		{"ml", "r", apipod.Class, "ml/r"},
		{"evil", "r", apipod.Class, "evil/r"},
		{"evil", "ml/r", apipod.Class, "evil/ml/r"},
		{"ml", "r", "check-capacity.autoscaling.x-k8s.io", ""},
		{"ml", "", apipod.Class, ""},
	} {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: x.namespace, Annotations: map[string]string{
			apipod.ConsumeAnnotation: x.name, apipod.ClassAnnotation: x.class}}}
		if got := apipod.Request(p); got != x.want {
			t.Errorf("a pod of %s that names %q of class %s is of request %q, want %q", x.namespace, x.name, x.class, got,
				x.want)
		}
	}
	c := newCluster(t)
	if _, err := c.keeper.Keep(Request{Name: "ml/r"}, []Place{at("a", podOf(8)), at("a", podOf(8))}); err != nil {
		t.Fatal(err)
	}
	if c.use("evil", "evil/r", "a", podOf(8)) {
		t.Error("a pod of another namespace got the place")
	}
}

// Requests come, are used up, given back and end in any order: what the ledger keeps on a node is what the keeper has
// there, and its amounts are the sum of these places.
func TestKeeperAndLedgerAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 3))
	for range 200 {
		c := newCluster(t)
		bound, next := map[string]string{}, 0
		for range 40 {
			request := fmt.Sprint("ml/r", r.IntN(4))
			node := []string{"a", "b"}[r.IntN(2)]
			next++
			uid := fmt.Sprint("u", next)
			switch r.IntN(5) {
			case 0:
				var places []Place
				for range 1 + r.IntN(3) {
					places = append(places, Place{Node: []string{"a", "b"}[r.IntN(2)], Pod: podOf(1 + r.Int64N(4))})
				}
				_, _ = c.keeper.Keep(Request{Name: request}, places)
			case 1, 2:
				if c.use(uid, request, node, podOf(1+r.Int64N(4))) {
					bound[uid] = node
				}
			case 3:
				for uid := range bound {
					c.keeper.GiveBack(uid)
					c.book.Unreserve(uid)
					delete(bound, uid)
					break
				}
			case 4:
				c.keeper.Drop(request)
			}
			sum, want := 0, 0
			for _, left := range c.keeper.Left() {
				want += left
			}
			for _, node := range []string{"a", "b"} {
				promised := c.promisedOn(node)
				if got := c.keeper.Amounts(node, "")["pods"]; got != int64(len(promised)) {
					t.Fatalf("on %s the ledger keeps %v, and the keeper %d", node, promised, got)
				}
				sum += len(promised)
			}
			if sum != want || c.keeper.Any() != (sum > 0) {
				t.Fatalf("%d places are kept on nodes, and %d for requests", sum, want)
			}
		}
	}
}

// Where another scheduler has taken a part of the room, the first pods that come get what is left. Pods without a place
// do not.
func TestPodsGetWhatIsLeftOfTheirRoom(t *testing.T) {
	c := newCluster(t)
	for _, request := range []string{"ml/r", "ml/q"} {
		if full, err := c.keeper.Keep(Request{Name: request}, []Place{at("a", podOf(8))}); err != nil || len(full) > 0 {
			t.Fatalf("keep: %v, full %v", err, full)
		}
	}
	if c.keeper.Short("a") || c.keeper.Amounts("a", "ml/q")["cpu"] != 8000 {
		t.Errorf("before: lost %t, kept for others %v", c.keeper.Short("a"), c.keeper.Amounts("a", "ml/q"))
	}
	c.book.Assume("a", state.PodID{UID: "foreign"}, podOf(2).Pod)
	if !c.keeper.Short("a") || c.keeper.Amounts("a", "ml/q") != nil {
		t.Errorf("the node has lost room: %t; kept for others is %v", c.keeper.Short("a"), c.keeper.Amounts("a", "ml/q"))
	}
	n := c.book.Snapshot().Node("a")
	if with, _, _ := n.Redeem("ml/q", podOf(8).Pod, place.Demand{}, ""); !with.Takes(podOf(8).Pod, place.Demand{}) {
		t.Error("a pod with a place is not let in")
	}
	if c.use("other", "", "a", podOf(1)) {
		t.Error("a pod without a place got what is left")
	}
	if !c.use("q", "ml/q", "a", podOf(8)) || !slices.Equal(c.promisedOn("a"), []string{"ml/r"}) {
		t.Errorf("the first pod got nothing of what is left; promised is %v", c.promisedOn("a"))
	}
	if v, wait, err := c.book.Turn("q", 0); err != nil || wait != nil || !v.Fits() {
		t.Errorf("the first pod does not have its turn: %v, %v, %v", v, wait, err)
	}
	if c.use("r", "ml/r", "a", podOf(8)) || !slices.Equal(c.promisedOn("a"), []string{"ml/r"}) {
		t.Errorf("the second pod got room that is not there; promised is %v", c.promisedOn("a"))
	}
}

// What a scheduler that starts keeps again is bounded for each node and each namespace: statuses may be forged.
func TestWhatIsKeptAgainIsBounded(t *testing.T) {
	c := newCluster(t)
	many := func(node string, n int) (out []Place) { return slices.Repeat([]Place{at(node, podOf(1))}, n) }
	for name, x := range map[string]struct {
		places []Place
		ok     bool
	}{
		"ml/one":   {many("x", 2*MaxOnNode), true},
		"ml/two":   {many("y", 2*MaxOnNode+1), false},
		"web/many": {nil, false},
		"web/most": {nil, true},
	} {
		if most := 2 * MaxOfNamespace; name == "web/many" || name == "web/most" {
			for i := range most {
				x.places = append(x.places, at(fmt.Sprint(name, i/100), podOf(1)))
			}
			if name == "web/many" {
				x.places = append(x.places, at("z", podOf(1)))
			}
		}
		err := c.keeper.Restore(Request{Name: name}, x.places)
		if c.keeper.Drop(name); (err == nil) != x.ok {
			t.Errorf("request %s with %d places: %v", name, len(x.places), err)
		}
	}
}
