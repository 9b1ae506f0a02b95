package use

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"

	"github.com/tenon-numa/tenon/api/objects"
)

// port is the port of the agents' flag --metrics-local-address in the manifests.
const port = "9203"

// AgentNamespace is the namespace of agents in the manifests.
const AgentNamespace = "tenon-agents"

// Agents returns a Scrape that forwards a port to an agent's pod through the API server of cfg, as kubectl
// port-forward does. The API server checks the rights of cfg, and no credentials reach a node.
func Agents(cfg *rest.Config, namespace string) (Scrape, error) {
	core, err := objects.NewCore(cfg)
	if err != nil {
		return nil, err
	}
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("address of the API server: %w", err)
	}
	a := &agents{cfg: rest.CopyConfig(cfg), base: base, namespace: namespace, pods: core.Pods.In(namespace)}
	return a.scrape, nil
}

// agents finds and reads the agents of one namespace.
type agents struct {
	cfg       *rest.Config
	base      *url.URL
	namespace string
	pods      podLister
}

type podLister interface {
	List(ctx context.Context, o metav1.ListOptions) (*v1.PodList, error)
}

// scrape returns the metrics of the agent on a node. Closing them ends the connection.
func (a *agents) scrape(ctx context.Context, node string) (io.ReadCloser, error) {
	pod, err := a.find(ctx, node)
	if err != nil {
		return nil, a.withRole(err)
	}
	conn, err := a.connect(ctx, pod)
	if err != nil {
		return nil, a.withRole(fmt.Errorf("forward a port to pod %s/%s: %w", a.namespace, pod, err))
	}
	client := http.Transport{DisableKeepAlives: true, DisableCompression: true, DialContext: func(context.Context,
		string, string) (net.Conn, error) {
		return conn, nil
	}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+port+"/metrics", nil)
	if err != nil {
		return nil, errors.Join(err, conn.end())
	}
	res, err := client.RoundTrip(r)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read metrics of pod %s/%s, port %s: %w", a.namespace, pod, port, conn.why(err)),
			conn.end())
	}
	if res.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("pod %s/%s answers its metrics with %s", a.namespace, pod, res.Status),
			res.Body.Close(), conn.end())
	}
	return body{res.Body, conn}, nil
}

// body closes the connection together with the answer.
type body struct {
	io.ReadCloser
	conn *forwarded
}

func (b body) Close() error { return errors.Join(b.ReadCloser.Close(), b.conn.end()) }

// find returns the name of the pod of the agent that runs on a node; an error if there is none.
func (a *agents) find(ctx context.Context, node string) (string, error) {
	list, err := a.pods.List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=tenon-agent",
		FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return "", fmt.Errorf("find the agent of node %s: %w", node, err)
	}
	for i := range list.Items {
		p := &list.Items[i]
		if p.Spec.NodeName == node && p.Status.Phase == v1.PodRunning && p.DeletionTimestamp == nil {
			return p.Name, nil
		}
	}
	return "", fmt.Errorf("no agent of namespace %s runs on node %s", a.namespace, node)
}

// withRole adds the role that the user needs to an error about missing rights. It returns other errors unchanged.
func (a *agents) withRole(err error) error {
	if apierrors.IsForbidden(err) || strings.Contains(strings.ToLower(err.Error()), "forbidden") {
		return fmt.Errorf("the use of nodes is read from their agents, which needs the role tenon-node-use in namespace "+
			"%s: %w", a.namespace, err)
	}
	return err
}

// connect opens a connection to the agent's port in a pod. It returns an error as soon as ctx ends, even if Dial
// waits.
func (a *agents) connect(ctx context.Context, pod string) (*forwarded, error) {
	at := a.base.JoinPath("api", "v1", "namespaces", a.namespace, "pods", pod, "portforward")
	dial, err := dialer(a.cfg, at)
	if err != nil {
		return nil, err
	}
	type dialed struct {
		conn connection
		err  error
	}
	done := make(chan dialed, 1)
	go func() {
		conn, protocol, err := dial.Dial(portforward.PortForwardProtocolV1Name)
		if err == nil && protocol != portforward.PortForwardProtocolV1Name {
			err = errors.Join(fmt.Errorf("the API server speaks %q", protocol), conn.Close())
		}
		done <- dialed{conn, err}
	}()
	select {
	case d := <-done:
		if d.err != nil {
			return nil, d.err
		}
		return open(ctx, d.conn)
	case <-ctx.Done():
		go func() {
			if d := <-done; d.err == nil {
				_ = d.conn.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

// forwarded is a connection to a port of a pod.
type forwarded struct {
	stream // for data
	conn   connection
	failed chan string // the node's error about the port, at most one
	stop   func() bool
}

// open opens the streams for errors and for data of one connection to the port. The end of ctx closes the connection.
func open(ctx context.Context, conn connection) (*forwarded, error) {
	f := &forwarded{conn: conn, failed: make(chan string, 1), stop: func() bool { return true }}
	h := http.Header{v1.PortHeader: {port}, v1.PortForwardRequestIDHeader: {"0"}, v1.StreamType: {v1.StreamTypeError}}
	failure, err := conn.CreateStream(h)
	if err == nil {
		_ = failure.Close() // nothing is written to it
		go func() {
			line, _ := bufio.NewReader(io.LimitReader(failure, 1<<10)).ReadString('\n')
			f.failed <- strings.TrimSpace(line)
		}()
		h = h.Clone()
		h.Set(v1.StreamType, v1.StreamTypeData)
		f.stream, err = conn.CreateStream(h)
	}
	if err != nil {
		err = fmt.Errorf("open a stream: %w", err)
		if failure != nil {
			return nil, f.why(err)
		}
		return nil, errors.Join(err, conn.Close())
	}
	f.stop = context.AfterFunc(ctx, func() { _ = conn.Close() })
	return f, nil
}

// whyTime bounds the wait for the node's error after the stream of data has failed: the error arrives on another
// stream.
const whyTime = time.Second

// why adds the node's error about the port to err, if the node sent one, and closes the connection.
func (f *forwarded) why(err error) error {
	reason := ""
	select {
	case reason = <-f.failed:
	case <-time.After(whyTime):
	}
	_ = f.conn.Close()
	if reason != "" {
		return fmt.Errorf("%w: %.300s", err, reason)
	}
	return err
}

// Close ends only the stream for data. An HTTP client calls it after a failed read, and the node's error may arrive
// later on the other stream.
func (f *forwarded) Close() error { return f.Reset() }

// end ends the connection.
func (f *forwarded) end() error {
	f.stop()
	return f.conn.Close()
}

// The other methods of net.Conn do nothing: a stream has no addresses, and its context ends it.

func (f *forwarded) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (f *forwarded) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (f *forwarded) SetDeadline(time.Time) error      { return nil }
func (f *forwarded) SetReadDeadline(time.Time) error  { return nil }
func (f *forwarded) SetWriteDeadline(time.Time) error { return nil }
