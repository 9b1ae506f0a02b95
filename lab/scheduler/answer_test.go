package scheduler_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/scheduler"
	"github.com/tenon-numa/tenon/lab/workload"
)

// link is the scheduler's way to the API server. The API server stores the binding of one pod, and its answer is lost;
// from then on the scheduler receives no event of pods, until the link is mended.
type link struct {
	http.RoundTripper
	pod string
	// sent is closed when the scheduler sends the binding; the API server receives it once stored is called. asked is
	// closed when the scheduler has read the pod after that.
	sent, stores, asked chan struct{}

	mu   sync.Mutex
	open chan struct{} // closed while events pass
	lost bool
}

// linkTo makes the link of a cluster, and returns a kubeconfig for it.
func linkTo(t *testing.T, c *lab.Cluster, pod string) (l *link, kubeconfig string) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", c.SchedulerKubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	inner, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	l = &link{RoundTripper: inner, pod: pod, sent: make(chan struct{}), stores: make(chan struct{}),
		asked: make(chan struct{}), open: make(chan struct{})}
	close(l.open)
	s := httptest.NewServer(&httputil.ReverseProxy{Transport: l, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) },
		// The client sees that the connection ends.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }})
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q}}]\n"+
		"contexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n", s.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return l, kubeconfig
}

func (l *link) RoundTrip(r *http.Request) (*http.Response, error) {
	at := "/pods/" + l.pod
	binds := r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, at+"/binding")
	if binds && l.first() {
		close(l.sent)
		<-l.stores
		l.mu.Lock()
		l.open, l.lost = make(chan struct{}), true
		l.mu.Unlock()
		answer, err := l.RoundTripper.RoundTrip(r)
		if err == nil {
			answer.Body.Close()
			err = fmt.Errorf("the answer %s is lost", answer.Status)
		}
		return nil, err
	}
	answer, err := l.RoundTripper.RoundTrip(r)
	switch {
	case err != nil:
	case r.URL.Query().Has("watch") && strings.HasSuffix(r.URL.Path, "/pods"):
		answer.Body = held{answer.Body, l}
	case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, at):
		l.mu.Lock()
		if l.lost {
			l.lost = false
			close(l.asked)
		}
		l.mu.Unlock()
	}
	return answer, err
}

func (l *link) first() bool {
	select {
	case <-l.sent:
		return false
	default:
		return true
	}
}

func (l *link) mend() { close(l.open) }

// held is a stream of events that passes while its link is open.
type held struct {
	io.ReadCloser
	link *link
}

func (h held) Read(p []byte) (int, error) {
	n, err := h.ReadCloser.Read(p)
	h.link.mu.Lock()
	open := h.link.open
	h.link.mu.Unlock()
	<-open
	return n, err
}

// The API server stores a binding, and the connection ends before its answer arrives. No other pod gets the room of the
// bound one, though kube-scheduler takes it for not bound until the next event.
func TestTheAnswerToABindingIsLost(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var l *link
	w := startOver(ctx, t, lab.Config{Nodes: []lab.Node{{Name: "halves", Machine: "halves"}},
		Machines: fstest.MapFS{"halves.txt": {Data: []byte(halves)}, "halves.yaml": {Data: []byte(halvesConfig)}}},
		scheduler.Tenon, func(c *lab.Cluster) (kubeconfig string) {
			l, kubeconfig = linkTo(t, c, "lost")
			return kubeconfig
		})
	w.runs(ctx, t, cores("there", 28))
	w.create(ctx, t, cores("lost", 28))
	wait := func(what string, done <-chan struct{}) {
		t.Helper()
		select {
		case <-done:
		case <-ctx.Done():
			l.mend()
			pods, _ := w.pods.Pods()
			noRefusal(t, pods)
			t.Fatalf("%s: %v", what, context.Cause(ctx))
		}
	}
	wait("the binding is sent", l.sent)
	w.create(ctx, t, cores("other", 28))
	w.await(ctx, t, "other", workload.Pending)
	close(l.stores)
	w.await(ctx, t, "lost", workload.Running)
	wait("the scheduler asks about the pod", l.asked)
	l.mend()
	if err := w.client.CoreV1().Pods(metav1.NamespaceDefault).Delete(ctx, "lost", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.await(ctx, t, "other", workload.Running)
	pods, _ := w.pods.Pods()
	noRefusal(t, pods)
	w.seen.check(t)
}
