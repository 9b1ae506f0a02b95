package traffic

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// home is the network namespace in which the tests began.
var home string

// TestMain is also the program that TestCgroups starts: it connects, and sends the bytes that the test asks for.
func TestMain(m *testing.M) {
	if to := os.Getenv("TRAFFIC_CONNECT"); to != "" {
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // it is in its cgroup now
		c, err := net.Dial("tcp", to)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		_, _ = io.Copy(c, os.Stdin)
		os.Exit(0)
	}
	// Threads may take the first thread's place in /proc/self: what is open stays what it was.
	f, err := os.Open("/proc/self/ns/net")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	home = fmt.Sprintf("/proc/self/fd/%d", f.Fd())
	code := m.Run()
	_ = f.Close() // it was open for as long as that
	os.Exit(code)
}

// thread is a thread in a network namespace of its own.
type thread struct {
	path string
	work chan func()
}

// do runs f in the namespace.
func (th thread) do(f func()) {
	done := make(chan struct{})
	th.work <- func() { defer close(done); f() }
	<-done
}

// newThread skips the test where namespaces cannot be made.
func newThread(t testing.TB) thread {
	t.Helper()
	th := thread{work: make(chan func())}
	up := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			err = loopback()
		}
		th.path = fmt.Sprintf("/proc/%d/task/%d/ns/net", os.Getpid(), unix.Gettid())
		up <- err
		for f := range th.work {
			f()
		}
	}()
	if err := <-up; err != nil {
		t.Skipf("no network namespace can be made: %v", err)
	}
	t.Cleanup(func() { close(th.work) })
	return th
}

// loopback starts the interface lo.
func loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}

// connect makes a connection from an address to another, in the namespace of the caller's thread.
func connect(t testing.TB, from, to string) (client, server net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", to+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	if client, err = d.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

// send sends n bytes, and waits until they were read.
func send(t testing.TB, from, to net.Conn, n int) {
	t.Helper()
	go func() { _, _ = from.Write(make([]byte, n)) }()
	if _, err := io.ReadFull(to, make([]byte, n)); err != nil {
		t.Fatal(err)
	}
}

func TestTheKernelCountsBytes(t *testing.T) {
	th := newThread(t)
	var client, server net.Conn
	th.do(func() { client, server = connect(t, "127.0.0.1", "127.0.0.2") })
	all := []Pod{{ID: "a", Namespace: th.path, IPs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}},
		{ID: "b", IPs: []netip.Addr{netip.MustParseAddr("127.0.0.2")}},
		{ID: "quiet", IPs: []netip.Addr{netip.MustParseAddr("127.0.0.3")}}}
	m := New(Config{Read: Sockets, MaxSockets: 100})
	if s := step(t, m, all, start); s.Failed != nil || s.Sockets != 2 || len(s.Pairs) != 0 {
		t.Fatalf("%+v, want two sockets", s)
	}
	send(t, client, server, 3e6)
	send(t, server, client, 1e6)
	s := step(t, m, all, start.Add(time.Second))
	// The server's end is in a's namespace, too, so that a is seen as its own peer there. Acknowledgements may be late.
	if p := s.Pairs; len(p) != 1 || p[0].A != "a" || p[0].B != "b" || p[0].Bytes < 3e6 || p[0].Bytes > 4e6 {
		t.Errorf("%+v, want 4 MB between a and b", s)
	}
}

func TestPodsInTwoNamespaces(t *testing.T) {
	ip, err := exec.LookPath("ip")
	if err != nil {
		t.Skip("no program ip, which connects namespaces")
	}
	a, b := newThread(t), newThread(t)
	a.do(func() {
		for _, args := range []string{"link add eth0 type veth peer name eth0 netns " + b.path,
			"addr add 10.9.0.1/24 dev eth0", "link set eth0 up"} {
			run(t, ip, args)
		}
	})
	b.do(func() {
		run(t, ip, "addr add 10.9.0.2/24 dev eth0")
		run(t, ip, "link set eth0 up")
	})
	var l net.Listener
	b.do(func() { l, err = net.Listen("tcp", "10.9.0.2:0") })
	if err != nil {
		t.Fatal(err)
	}
	var client net.Conn
	a.do(func() { client, err = net.Dial("tcp", l.Addr().String()) })
	if err != nil {
		t.Fatal(err)
	}
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	// The garbage collector closes sockets without references.
	t.Cleanup(func() { client.Close(); server.Close(); l.Close() })
	all := []Pod{{ID: "a", Namespace: a.path, IPs: []netip.Addr{netip.MustParseAddr("10.9.0.1")}},
		{ID: "b", Namespace: b.path, IPs: []netip.Addr{netip.MustParseAddr("10.9.0.2")}}}
	m := New(Config{Read: Sockets, MaxSockets: 100})
	step(t, m, all, start)
	send(t, client, server, 5e6)
	s := step(t, m, all, start.Add(time.Second))
	if s.Failed != nil || s.Sockets != 2 || len(s.Pairs) != 1 || s.Pairs[0] != (Pair{"a", "b", 5e6}) {
		t.Errorf("%+v, want 5 MB between a and b", s)
	}
}

func run(t testing.TB, program, args string) {
	t.Helper()
	if out, err := exec.Command(program, strings.Fields(args)...).CombinedOutput(); err != nil {
		t.Skipf("%s %s: %v: %s", program, args, err, out)
	}
}

func TestCgroups(t *testing.T) {
	root := t.TempDir()
	if err := unix.Mount("none", root, "cgroup2", 0, ""); err != nil {
		t.Skipf("mount cgroup2: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(root, 0) })
	group := filepath.Join(root, fmt.Sprintf("tenon-traffic-%d", os.Getpid()))
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Skipf("make a cgroup: %v", err)
	}
	t.Cleanup(func() { _ = os.Remove(group) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "TRAFFIC_CONNECT="+l.Addr().String())
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = child.Wait() })
	procs := filepath.Join(group, "cgroup.procs")
	if err := os.WriteFile(procs, fmt.Append(nil, child.Process.Pid), 0o644); err != nil {
		t.Skipf("put a process into a cgroup: %v", err)
	}
	fmt.Fprintln(in)
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	var own, theirs syscall.Stat_t
	for path, st := range map[string]*syscall.Stat_t{ownCgroup(t, root): &own, group: &theirs} {
		if err := syscall.Stat(path, st); err != nil {
			t.Fatal(err)
		}
	}
	all := []Pod{{ID: "own", Namespace: home, Cgroups: []uint64{own.Ino}},
		{ID: "theirs", Namespace: home, Cgroups: []uint64{theirs.Ino}}}
	m := New(Config{Read: Sockets, Node: home, MaxSockets: 1e5})
	if s := step(t, m, all, start); s.Failed != nil {
		t.Fatal(s.Failed)
	}
	go func() { _, _ = in.Write(make([]byte, 2e6)) }()
	if _, err := io.ReadFull(server, make([]byte, 2e6)); err != nil {
		t.Fatal(err)
	}
	s := step(t, m, all, start.Add(time.Second))
	if len(s.Pairs) != 1 || s.Pairs[0] != (Pair{"own", "theirs", 2e6}) {
		t.Errorf("%+v, want 2 MB between own and theirs", s.Pairs)
	}
}

// ownCgroup returns the cgroup of this process.
func ownCgroup(t *testing.T, root string) string {
	t.Helper()
	data, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return filepath.Join(root, path)
		}
	}
	t.Skip("the process has no cgroup in the unified hierarchy")
	return ""
}

func TestANamespaceThatIsNotThereIsAnError(t *testing.T) {
	if _, err := Sockets("/proc/self/ns/none", 1, nil); err == nil || !strings.Contains(err.Error(), "/ns/none") &&
		!strings.Contains(err.Error(), "open the namespace") {
		t.Error(err)
	}
}

// BenchmarkSample measures the sockets of 200 network namespaces, 19,600 in all: a whole round, and one step with the
// agent's budget. cpu-% is the share of one CPU if that is done every 15 seconds, steps how many make a round.
func BenchmarkSample(b *testing.B) {
	const namespaces, connections = 200, 49 // a process may have 20,000 open files in many places
	var all []Pod
	for n := range namespaces {
		th := newThread(b)
		th.do(func() {
			for range connections {
				connect(b, "127.0.0.1", "127.0.0.2")
			}
		})
		all = append(all, Pod{ID: fmt.Sprint(n), Namespace: th.path, IPs: []netip.Addr{
			netip.AddrFrom4([4]byte{10, 0, byte(n / 250), byte(n % 250)})}})
	}
	for name, budget := range map[string]time.Duration{"round": 0, "step": 75 * time.Millisecond} {
		b.Run(name, func(b *testing.B) {
			m := New(Config{Read: Sockets, MaxSockets: 50000, Budget: budget, Clock: ProcessTime})
			before := ProcessTime()
			steps, rounds := 0, 0
			for b.Loop() {
				for ok := false; !ok; steps++ {
					var s Sample
					s, ok = m.Step(all, start.Add(time.Duration(steps)*15*time.Second))
					if ok && (s.Failed != nil || s.Sockets < 19600) {
						b.Fatalf("%d sockets, %v", s.Sockets, s.Failed)
					}
				}
				rounds++
			}
			used := (ProcessTime() - before).Seconds() / float64(steps)
			b.ReportMetric(used/15*100, "cpu-%")
			b.ReportMetric(used*1e3, "cpu-ms/op")
			b.ReportMetric(float64(steps)/float64(rounds), "steps")
		})
	}
}
