package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"html"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/face/cli"
	"github.com/tenon-numa/tenon/face/console"
	"github.com/tenon-numa/tenon/ops/use"
)

// Settings of a console for one person.
const (
	secretLasts  = 10 * time.Minute // how long the address with the secret works
	sessionIdle  = 12 * time.Hour   // a session without requests ends after this time
	memoryTarget = 185 << 20        // bytes; beyond it the garbage collector runs more often
)

// serveConsole returns the function that serves the cluster of a kubeconfig on the loopback address until its context
// ends.
func serveConsole(version string) func(context.Context, cli.Kubeconfig, cli.ConsoleOptions) error {
	return func(ctx context.Context, k cli.Kubeconfig, o cli.ConsoleOptions) error {
		if k.Bundle() != "" {
			return errors.New("the console follows a cluster, and a bundle does not change: see it with kubectl tenon map")
		}
		cfg, namespace, err := k.Load()
		if err != nil {
			return err
		}
		debug.SetMemoryLimit(memoryTarget)
		who, err := Watch(ctx, cfg, cmp.Or(k.ContextName(), cfg.Host), namespace)
		if err != nil {
			return fmt.Errorf("follow the cluster: %w", err)
		}
		if who.Use, err = Use(cfg, o.AgentNamespace, o.Prometheus); err != nil {
			return err
		}
		who.Close = nil // the view ends with the command
		on, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(o.Port)))
		if err != nil {
			return fmt.Errorf("listen on the loopback address (choose another --port): %w", err)
		}
		_, port, err := net.SplitHostPort(on.Addr().String())
		if err != nil {
			return fmt.Errorf("read the address %s: %w", on.Addr(), err)
		}
		secret, open := console.OneTime(who, secretLasts, time.Now)
		h, err := console.New(console.Config{Version: version, Computing: 1,
			Identities: console.NewSessions(open, false, 2, sessionIdle),
			Hosts:      []string{net.JoinHostPort("127.0.0.1", port), net.JoinHostPort("localhost", port)}})
		if err != nil {
			return err
		}
		defer h.Close()
		address := "http://127.0.0.1:" + port + "/#" + secret
		fmt.Fprintf(o.Out, "Serving the console of %s. It ends with Ctrl-C.\n"+
			"This address works once, in one browser, within 10 minutes:\n\n  %s\n", who.Name, address)
		if o.Browser {
			remove := browse(address)
			defer remove()
		}
		return console.Serve(ctx, on, h)
	}
}

// Use returns the function that reads the use of nodes: from Prometheus if its address is not empty, and otherwise
// from the agents of a namespace, with the rights of cfg. If address and namespace are empty, the function is nil.
func Use(cfg *rest.Config, namespace, prometheus string) (
	func(ctx context.Context, node, pod string) document.NodeUse, error) {
	switch {
	case prometheus != "":
		p, err := use.NewPrometheus(prometheus, time.Now)
		if err != nil {
			return nil, err
		}
		return p.Node, nil
	case namespace == "":
		return nil, nil
	}
	scrape, err := use.Agents(cfg, namespace)
	if err != nil {
		return nil, err
	}
	return use.NewTimelines(scrape, time.Now).Node, nil
}

// browse opens an address in the user's browser, if there is one. It passes the address in a file that only the user
// can read, because other users of the computer can read command lines. remove deletes this file.
func browse(address string) (remove func()) {
	remove = func() {}
	program := []string{"xdg-open"}
	switch {
	case runtime.GOOS == "darwin":
		program = []string{"open"}
	case runtime.GOOS == "windows":
		program = []string{"rundll32", "url.dll,FileProtocolHandler"}
	case os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "":
		return remove
	}
	dir, err := os.MkdirTemp("", "tenon-console-")
	if err != nil {
		return remove
	}
	remove = func() { _ = os.RemoveAll(dir) }
	file := filepath.Join(dir, "open.html")
	text := `<!doctype html><meta http-equiv="refresh" content="0; url=` + html.EscapeString(address) + `">`
	if os.WriteFile(file, []byte(text), 0o600) == nil {
		if c := exec.Command(program[0], append(program[1:], file)...); c.Start() == nil {
			go func() { _ = c.Wait() }()
		}
	}
	return remove
}
