package traffic

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"
)

// kernel has the sockets of namespaces.
type kernel map[string][]Socket

func (k kernel) read(path string, limit int, each func(Socket)) (bool, error) {
	all, ok := k[path]
	if !ok {
		return false, errors.New("no such namespace")
	}
	for _, s := range all[:min(limit, len(all))] {
		each(s)
	}
	return len(all) <= limit, nil
}

func (k kernel) add(path string, cookie uint64, n uint64) {
	for i := range k[path] {
		if k[path][i].Cookie == cookie {
			k[path][i].Bytes += n
		}
	}
}

func addr(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

var start = time.Unix(1000, 0)

func pods(n int) (out []Pod) {
	for i := range n {
		out = append(out, Pod{ID: string(rune('a' + i)), Namespace: fmt.Sprintf("/ns/%c", 'a'+i),
			IPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)})}})
	}
	return out
}

func wantPairs(t *testing.T, got Sample, pairs ...Pair) {
	t.Helper()
	if got.Failed != nil {
		t.Error(got.Failed)
	}
	if !slices.Equal(got.Pairs, pairs) {
		t.Errorf("got %v, want %v", got.Pairs, pairs)
	}
}

func TestBothEndsCountAConnectionOnce(t *testing.T) {
	k := kernel{
		"/ns/a": {{Cookie: 1, Local: addr("10.0.0.1:4000"), Remote: addr("10.0.0.2:80"), Bytes: 5e6},
			{Cookie: 2, Local: addr("10.0.0.1:4001"), Remote: addr("192.0.2.1:80"), Bytes: 5e6}},
		"/ns/b": {{Cookie: 3, Local: addr("[::ffff:10.0.0.2]:80"), Remote: addr("[::ffff:10.0.0.1]:4000"), Bytes: 5e6}},
	}
	m := New(Config{Read: k.read, MaxSockets: 100})
	wantPairs(t, step(t, m, pods(2), start))
	k.add("/ns/a", 1, 20e6)
	k.add("/ns/a", 2, 20e6)
	k.add("/ns/b", 3, 20e6)
	wantPairs(t, step(t, m, pods(2), start.Add(10*time.Second)), Pair{"a", "b", 2e6})
	wantPairs(t, step(t, m, pods(2), start.Add(20*time.Second)))
	k["/ns/a"] = append(k["/ns/a"], Socket{Cookie: 9, Local: addr("10.0.0.1:4002"), Remote: addr("10.0.0.2:80"),
		Bytes: 5e6})
	wantPairs(t, step(t, m, pods(2), start.Add(30*time.Second)), Pair{"a", "b", 5e5})
}

func TestTheServerKnowsTheClientOfAService(t *testing.T) {
	k := kernel{
		"/ns/a": {{Cookie: 1, Local: addr("10.0.0.1:4000"), Remote: addr("10.96.0.7:80")}},
		"/ns/b": {{Cookie: 3, Local: addr("10.0.0.2:80"), Remote: addr("10.0.0.1:4000")}},
	}
	m := New(Config{Read: k.read, MaxSockets: 100})
	step(t, m, pods(2), start)
	k.add("/ns/a", 1, 30e6)
	k.add("/ns/b", 3, 30e6)
	wantPairs(t, step(t, m, pods(2), start.Add(10*time.Second)), Pair{"a", "b", 3e6})
}

func TestPodsInTheNodesNamespaceAreFoundByCgroup(t *testing.T) {
	k := kernel{"/node": {
		{Cookie: 1, Cgroup: 11, Local: addr("127.0.0.1:4000"), Remote: addr("127.0.0.1:80")},
		{Cookie: 2, Cgroup: 22, Local: addr("127.0.0.1:80"), Remote: addr("127.0.0.1:4000")},
		{Cookie: 3, Cgroup: 99, Local: addr("127.0.0.1:81"), Remote: addr("127.0.0.1:4001")}, // of no pod
		{Cookie: 4, Cgroup: 11, Local: addr("127.0.0.1:4001"), Remote: addr("127.0.0.1:81")},
		{Cookie: 5, Cgroup: 22, Local: addr("192.0.2.9:4001"), Remote: addr("10.0.0.1:80")},
	}, "/ns/a": nil}
	all := append(pods(1), Pod{ID: "x", Namespace: "/node", Cgroups: []uint64{11}}, Pod{ID: "y", Namespace: "/node",
		Cgroups: []uint64{21, 22}})
	m := New(Config{Read: k.read, Node: "/node", MaxSockets: 100})
	step(t, m, all, start)
	for c := range 6 {
		k.add("/node", uint64(c), 10e6)
	}
	wantPairs(t, step(t, m, all, start.Add(10*time.Second)), Pair{"a", "y", 1e6}, Pair{"x", "y", 1e6})
}

// step is a step that completes a round.
func step(t testing.TB, m *Meter, pods []Pod, now time.Time) Sample {
	t.Helper()
	s, ok := m.Step(pods, now)
	if !ok {
		t.Fatal("the round is not complete")
	}
	return s
}

func TestTheNumberOfSocketsIsBounded(t *testing.T) {
	k := kernel{}
	for p, n := range []int{5, 500, 5, 500, 500, 500, 5} {
		ns := fmt.Sprintf("/ns/%c", 'a'+p)
		for i := range n {
			k[ns] = append(k[ns], Socket{Cookie: uint64(i), Local: netip.AddrPortFrom(pods(7)[p].IPs[0], 80),
				Remote: netip.AddrPortFrom(pods(7)[(p+1)%7].IPs[0], uint16(i)), Bytes: 1e6})
		}
	}
	m := New(Config{Read: k.read, MaxSockets: 100})
	for n := range 4 {
		s := step(t, m, pods(7), start.Add(time.Duration(n)*10*time.Second))
		kept := 0
		for path, sp := range m.spaces {
			if kept += len(sp.counters); len(sp.counters) > 25 {
				t.Errorf("%d counters of %s are kept", len(sp.counters), path)
			}
		}
		if s.Sockets > 100 || !s.Incomplete || kept > 100 || kept != m.kept {
			t.Errorf("sample %d: %d sockets, incomplete %t, kept %d", n, s.Sockets, s.Incomplete, kept)
		}
		if len(s.Pairs) > 0 { // nothing was sent
			t.Errorf("sample %d: %v", n, s.Pairs)
		}
	}
}

func TestARoundTakesAsManyStepsAsTheBudgetPermits(t *testing.T) {
	k := kernel{"/ns/a": nil, "/ns/b": nil, "/ns/c": nil, "/ns/d": nil,
		"/ns/e": {{Cookie: 1, Local: addr("10.0.0.5:80"), Remote: addr("10.0.0.1:4000")}}}
	var used time.Duration
	read := func(path string, limit int, each func(Socket)) (bool, error) {
		used += 10 * time.Millisecond
		return k.read(path, limit, each)
	}
	m := New(Config{Read: read, MaxSockets: 100, Budget: 15 * time.Millisecond,
		Clock: func() time.Duration { return used }})
	for n := range 9 {
		before := used
		s, ok := m.Step(pods(5), start.Add(time.Duration(n)*10*time.Second))
		if step := used - before; step > 20*time.Millisecond || ok != (n%3 == 2) {
			t.Errorf("step %d took %s and completes a round: %t", n, step, ok)
		}
		if ok && s.Used != 50*time.Millisecond {
			t.Errorf("step %d: a round has used %s", n, s.Used)
		}
		if k.add("/ns/e", 1, 10e6); n == 8 { // rounds are 30 s apart
			wantPairs(t, s, Pair{"a", "e", 1e6})
		}
	}
}

func TestNamespacesThatAreGoneAreForgotten(t *testing.T) {
	k := kernel{"/ns/a": {{Cookie: 1}}}
	m := New(Config{Read: k.read, MaxSockets: 10})
	if s := step(t, m, pods(2), start); s.Failed == nil || s.Sockets != 1 {
		t.Errorf("%+v", s)
	}
	step(t, m, nil, start)
	if !reflect.DeepEqual(m.spaces, map[string]*space{}) {
		t.Errorf("%v are kept", m.spaces)
	}
}
