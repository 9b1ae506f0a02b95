package console_test

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/cmd/commands"
	"github.com/tenon-numa/tenon/deploy/crd"
	"github.com/tenon-numa/tenon/face/console"
	"github.com/tenon-numa/tenon/lab/control"
	"github.com/tenon-numa/tenon/lab/rights"
)

// stranger is an account without any rights.
const stranger = `{apiVersion: v1, kind: ServiceAccount, metadata: {name: stranger, namespace: default}}`

// Where a page has nothing to show, it names what is missing: nodes, a right, or the server.
func TestPagesWithNothingToShow(t *testing.T) {
	p, err := control.Start(t.Context(), control.Options{Dir: t.TempDir(), CRDs: append(crd.Layouts(), crd.NodeAffinity()),
		Manifests: [][]byte{[]byte(stranger)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	without, err := rights.As(t.Context(), p.Admin, rights.Account{Namespace: "default", Name: "stranger"})
	if err != nil {
		t.Fatal(err)
	}
	b := open(t)
	t.Run("no nodes", func(t *testing.T) { empty(browser{t, b.ctx}, serve(t, p.Admin)) })
	t.Run("no rights", func(t *testing.T) { forbidden(browser{t, b.ctx}, serve(t, without)) })
	t.Run("no server", func(t *testing.T) { gone(browser{t, b.ctx}, serve(t, p.Admin)) })
}

// server is a console whose port can be closed and opened again.
type server struct {
	t       *testing.T
	handler http.Handler
	at      string // host and port
	secret  string
	stop    func()
}

func serve(t *testing.T, cfg *rest.Config) *server {
	t.Helper()
	who, err := commands.Watch(t.Context(), cfg, "somebody", "default")
	if err != nil {
		t.Fatal(err)
	}
	on, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	secret, exchange := console.OneTime(who, time.Hour, time.Now)
	h, err := console.New(console.Config{Version: "test", Hosts: []string{on.Addr().String()},
		Identities: console.NewSessions(exchange, false, 1, time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, handler: h, at: on.Addr().String(), secret: secret}
	s.listen(on)
	t.Cleanup(func() { s.stop(); who.Close() })
	return s
}

// listen serves until stop is called.
func (s *server) listen(on net.Listener) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- console.Serve(ctx, on, s.handler) }()
	s.stop = func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
		s.stop = func() {}
	}
}

func (s *server) again() {
	s.t.Helper()
	on, err := (&net.ListenConfig{}).Listen(s.t.Context(), "tcp", s.at)
	if err != nil {
		s.t.Fatal(err)
	}
	s.listen(on)
}

func (s *server) open(b browser) {
	b.t.Helper()
	b.do("open the console", chromedp.EmulateViewport(1280, 800), chromedp.Navigate("about:blank"),
		chromedp.Navigate("http://"+s.at+"/#"+s.secret))
	b.says("h1", "Cluster")
}

// visit opens a page by its address and waits for a text.
func visit(b browser, hash, selector, text, picture string) {
	b.t.Helper()
	b.do("go to "+hash, chromedp.Evaluate("location.hash = "+quoted(hash), nil))
	b.says(selector, text)
	b.looks(picture)
}

func empty(b browser, s *server) {
	s.open(b)
	b.says("main .note", "The cluster has no nodes yet.")
	b.says("#waiting", "No pod waits")
	b.looks("empty-cluster")
	visit(b, "#/nodes/a", "[role=alert]", "no such object", "empty-node")
	visit(b, "#/pods/default/a", "[role=alert]", "no such object", "empty-pod")
	visit(b, "#/findings", ".finding", "", "empty-findings")
	visit(b, "#/whatif", "h1", "What if", "empty-whatif")
	b.do("place the example by keys", focus("#example"), chromedp.KeyEvent(kb.Enter), focus("#place"),
		chromedp.KeyEvent(kb.Enter))
	b.says("main", "No node has reported its NUMA nodes.")
	visit(b, "#/policy", "main", "No ConfigMap with the configuration of a scheduler", "empty-policy")
	b.says("main", "No node reports its kubelet's configuration.")
	visit(b, "#/kubelets", "h1", "Kubelets", "empty-kubelets")
	b.do("plan by keys", focus("#reservedCPUs"), chromedp.KeyEvent("0-1"+kb.Enter))
	b.says("#result [role=alert]", "did not work")
	b.looks("empty-plan")
}

func forbidden(b browser, s *server) {
	s.open(b)
	b.says("main .note", "An administrator of the cluster can give you the right.")
	b.looks("forbidden-cluster")
	visit(b, "#/nodes/a", "[role=alert]", "or you may not read it", "forbidden-node")
	visit(b, "#/pods/default/a", "[role=alert]", "or you may not read it", "forbidden-pod")
	visit(b, "#/findings", "[role=alert]", "You may not read this.", "forbidden-findings")
	visit(b, "#/policy", "main .note", "Not shown: ", "forbidden-policy")
	visit(b, "#/kubelets", "h1", "Kubelets", "forbidden-kubelets")
	b.do("plan by keys", focus("#reservedCPUs"), chromedp.KeyEvent("0-1"+kb.Enter))
	b.says("#result [role=alert]", "You may not read this.")
}

// gone ends the server while a page is open, and starts it again.
func gone(b browser, s *server) {
	s.open(b)
	s.stop()
	b.says("#live", "not connected")
	visit(b, "#/policy", "[role=alert]", "The console does not answer", "gone")
	s.again()
	b.says("h2", "Schedulers") // by itself
	b.says("#live", "live")
}
