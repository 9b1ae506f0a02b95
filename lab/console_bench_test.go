package lab_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/deploy"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/rights"
)

const readers = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: readers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects:
- {kind: ServiceAccount, name: honest, namespace: honest}
- {kind: ServiceAccount, name: a, namespace: evil-0}
- {kind: ServiceAccount, name: a, namespace: evil-1}
- {kind: ServiceAccount, name: a, namespace: evil-2}
- {kind: ServiceAccount, name: a, namespace: evil-3}
- {kind: ServiceAccount, name: a, namespace: evil-4}
`

// A console answers one honest person while 100 clients do their worst: large manifests, plans and simulations,
// streams, bodies that never end, and tokens that are none. The slowest answer and the program's memory are shown. The
// clients and the API server have their share of the machine.
func BenchmarkConsoleAmongHostileClients(b *testing.B) {
	for _, clients := range []int{0, 100} {
		b.Run(strconv.Itoa(clients), func(b *testing.B) { amongHostile(b, clients) })
	}
}

func amongHostile(b *testing.B, clients int) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	cfg := lab.Config{Nodes: []lab.Node{{Name: "a", Machine: "epyc-nps4"}, {Name: "b", Machine: "xeon-2s"}}}
	c, err := lab.Start(ctx, cfg)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := c.Stop(); err != nil {
			b.Error(err)
		}
	}()
	accounts := accountsOf("honest/honest", "evil-0/a", "evil-1/a", "evil-2/a", "evil-3/a", "evil-4/a") + readers
	if err := rights.Apply(ctx, c.RESTConfig(), []byte(accounts)); err != nil {
		b.Fatal(err)
	}
	x := startConsole(ctx, b, c)
	token := func(namespace, name string) string {
		k, err := rights.As(ctx, c.RESTConfig(), rights.Account{Namespace: namespace, Name: name})
		if err != nil {
			b.Fatal(err)
		}
		return k.BearerToken
	}
	honest := token("honest", "honest")
	x.until(ctx, b, "/api/v1/nodes/a", honest) // its view of the cluster is being read
	var hostile sync.WaitGroup
	attack, end := context.WithCancel(ctx)
	for i := range clients { // of five people
		t := token(fmt.Sprint("evil-", i%5), "a")
		hostile.Go(func() { x.attack(attack, i, t) })
	}
	took := x.answers(ctx, b, honest)
	end()
	hostile.Wait()
	for path, t := range took {
		slices.Sort(t)
		name := path[strings.LastIndex(path, "/")+1:]
		b.ReportMetric(float64(t[len(t)/2].Milliseconds()), "ms-median-"+name)
		b.ReportMetric(float64(t[len(t)-1].Milliseconds()), "ms-slowest-"+name)
	}
	b.ReportMetric(float64(x.memory(b))/(1<<20), "MiB")
	b.ReportMetric(0, "ns/op")
}

// answers asks for half a minute, one page after the other, and returns how long the answers took.
func (x *consoleProgram) answers(ctx context.Context, b *testing.B, token string) map[string][]time.Duration {
	b.Helper()
	took := map[string][]time.Duration{}
	began := time.Now()
	for time.Since(began) < 30*time.Second {
		for _, path := range []string{"/api/v1/cluster", "/api/v1/nodes/a", "/api/v1/fitting", "/api/v1/doctor"} {
			at := time.Now()
			code := x.ask(ctx, http.MethodGet, path, token, nil)
			if code != http.StatusOK {
				b.Errorf("GET %s: %d", path, code)
			}
			took[path] = append(took[path], time.Since(at))
		}
	}
	return took
}

func accountsOf(names ...string) string {
	var out strings.Builder
	for _, n := range names {
		namespace, name, _ := strings.Cut(n, "/")
		fmt.Fprintf(&out, "apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n---\n", namespace)
		fmt.Fprintf(&out, "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: %s, namespace: %s}\n---\n", name, namespace)
	}
	return out.String()
}

// consoleProgram is the program of the console.
type consoleProgram struct {
	cmd     *exec.Cmd
	address string
	client  *http.Client
}

func startConsole(ctx context.Context, b *testing.B, c *lab.Cluster) *consoleProgram {
	b.Helper()
	dir := b.TempDir()
	program := filepath.Join(dir, "tenon-console")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "../cmd/tenon-console")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("build the console: %v\n%s", err, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	x := &consoleProgram{address: l.Addr().String(), client: &http.Client{Transport: &http.Transport{}}}
	l.Close()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := rights.WriteKubeconfig(kubeconfig, "console", consoleConfig(ctx, b, c)); err != nil {
		b.Fatal(err)
	}
	x.cmd = exec.CommandContext(ctx, program, "--plain-http", "--address", x.address, "--health-address", "",
		"--hosts", x.address, "--kubeconfig", kubeconfig)
	x.cmd.Stderr = os.Stderr
	if err := x.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = x.cmd.Process.Kill(); _ = x.cmd.Wait() })
	x.until(ctx, b, "/", "")
	return x
}

// until asks for a path until the answer is 200 OK.
func (x *consoleProgram) until(ctx context.Context, b *testing.B, path, token string) {
	b.Helper()
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		return x.ask(ctx, http.MethodGet, path, token, nil) == http.StatusOK, nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

func consoleConfig(ctx context.Context, b *testing.B, c *lab.Cluster) *rest.Config {
	b.Helper()
	k, err := rights.As(ctx, c.RESTConfig(), rights.Account{Namespace: deploy.Namespace, Name: "tenon-console"})
	if err != nil {
		return c.RESTConfig()
	}
	return k
}

// ask returns the code of an answer, 0 if there is none.
func (x *consoleProgram) ask(ctx context.Context, method, path, token string, body io.Reader) int {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+x.address+path, body)
	if err != nil {
		return 0
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := x.client.Do(r)
	if err != nil {
		return 0
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode
}

// What hostile clients send: a pod with very many containers, and a plan with very many nodes.
var (
	manyContainers = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[` +
		strings.Repeat(`{"name":"c","image":"i"},`, 20_000) + `{"name":"d","image":"i"}]}}`
	manyNodes = `{"nodes":[` + strings.Repeat("{},", 2_000_000) + `{}]}`
)

// attack sends requests until the context ends.
func (x *consoleProgram) attack(ctx context.Context, i int, token string) {
	for ctx.Err() == nil {
		switch i % 7 {
		case 0:
			x.ask(ctx, http.MethodPost, "/api/v1/check", token, strings.NewReader(manyContainers))
		case 1:
			x.ask(ctx, http.MethodPost, "/api/v1/simulate", token, strings.NewReader(manyContainers))
		case 2:
			x.ask(ctx, http.MethodPost, "/api/v1/kubelets/rollout", token,
				strings.NewReader(manyNodes))
		case 3:
			stream, done := context.WithTimeout(ctx, time.Second)
			x.ask(stream, http.MethodGet, "/api/v1/changes", token, nil)
			done()
		case 4:
			x.ask(ctx, http.MethodGet, "/api/v1/doctor", token, nil)
		case 5:
			x.ask(ctx, http.MethodGet, "/api/v1/fitting", "none "+strconv.Itoa(i), nil)
		case 6:
			if conn, err := net.Dial("tcp", x.address); err == nil {
				fmt.Fprintf(conn, "POST /session HTTP/1.1\r\nHost: %s\r\nContent-Length: 1000\r\n\r\n", x.address)
				_ = conn.SetReadDeadline(time.Now().Add(time.Second))
				_, _ = conn.Read(make([]byte, 1))
				conn.Close()
			}
		}
	}
}

// memory returns the most resident memory that the program had, in bytes.
func (x *consoleProgram) memory(b *testing.B) int64 {
	b.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", x.cmd.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	_, after, _ := strings.Cut(string(data), "VmHWM:")
	kb, err := strconv.ParseInt(strings.Fields(after)[0], 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return kb << 10
}
