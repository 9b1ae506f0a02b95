package realnode

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

const egressConfig = `apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: HTTPConnect
    transport: {uds: {udsName: %s}}
`

// Egress lets an API server on this host reach a node's kubelet, although the kubelet's address exists only in the
// guest. It accepts HTTP CONNECT on a socket in a directory, and connects to a port of the loopback interface
// ([Config.Port]). It returns the path of the EgressSelectorConfiguration for it.
func Egress(dir string, port int) (config string, stop func() error, err error) {
	socket := filepath.Join(dir, "egress.sock")
	config = filepath.Join(dir, "egress.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, egressConfig, socket), 0o600); err != nil {
		return "", nil, fmt.Errorf("configure the way to kubelets: %w", err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return "", nil, fmt.Errorf("open the way to kubelets: %w", err)
	}
	server := &http.Server{Handler: connectHandler(port), ReadHeaderTimeout: 10 * time.Second}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	return config, func() error {
		err := server.Close()
		if served := <-done; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	}, nil
}

// connectHandler is a handler of HTTP CONNECT. It connects every client to one port of the loopback interface,
// whatever address the client requests.
type connectHandler int

// ServeHTTP implements [http.Handler].
func (port connectHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		http.Error(w, "want CONNECT", http.StatusBadRequest)
		return
	}
	to := net.JoinHostPort(loopback, strconv.Itoa(int(port)))
	out, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(r.Context(), "tcp", to)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer out.Close()
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		http.Error(w, "the connection cannot be taken over", http.StatusInternalServerError)
		return
	}
	in, buffered, err := hijacker.Hijack()
	if err != nil {
		return // the client has gone
	}
	defer in.Close()
	if _, err := io.WriteString(in, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	copyBoth(in, buffered, out)
}

// copyBoth copies between two connections until both directions have ended.
func copyBoth(in net.Conn, buffered io.Reader, out net.Conn) {
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(out, buffered); _ = out.Close() }) // an end that has gone is the usual way to end
	both.Go(func() { _, _ = io.Copy(in, out); _ = in.Close() })
	both.Wait()
}
