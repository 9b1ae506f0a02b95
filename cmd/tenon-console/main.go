// Command tenon-console serves the console for everybody who may read a cluster. A person signs in with a token, a
// proxy sends a token, or an authenticating proxy names the user. The command only connects packages; the comment of
// face/console lists what it refuses.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/tenon-numa/tenon/internal/version"
)

// options are the flags.
type options struct {
	address, health         string
	cert, key, clientCA     string
	kubeconfig              string
	agents, prometheus      string
	userHeader, groupHeader string
	hosts, namespaces       list
	proxies                 list
	sessions                int
	idle                    time.Duration
	plain                   bool
}

// list is a flag of several values, separated by commas.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

// Set adds the values in s. Package flag calls it each time the flag is given.
func (l *list) Set(s string) error {
	for v := range strings.SplitSeq(s, ",") {
		if v = strings.TrimSpace(v); v != "" {
			*l = append(*l, v)
		}
	}
	return nil
}

func (o *options) bind(fs *flag.FlagSet) {
	fs.StringVar(&o.address, "address", ":8443", "address to serve the console on")
	fs.StringVar(&o.health, "health-address", ":8081",
		"address to serve /livez and /readyz on, in plain HTTP; none when empty")
	fs.StringVar(&o.cert, "tls-cert-file", "", "certificate; it is read again when it is renewed")
	fs.StringVar(&o.key, "tls-private-key-file", "", "key of the certificate")
	fs.BoolVar(&o.plain, "plain-http", false,
		"serve plain HTTP, behind a proxy on the same host that speaks HTTPS to browsers; the address must be a loopback one")
	fs.Var(&o.hosts, "hosts", "names by which browsers reach the console, such as console.example.com,localhost")
	fs.Var(&o.namespaces, "namespaces", "namespaces whose pods are shown to users who may not list the pods of all")
	fs.StringVar(&o.clientCA, "proxy-client-ca-file", "", "certificates of those that sign the certificates of proxies")
	fs.Var(&o.proxies, "proxy-names", "common names of proxies that may name users; nobody when empty")
	fs.StringVar(&o.userHeader, "proxy-user-header", "X-Remote-User", "header in which a proxy names the user")
	fs.StringVar(&o.groupHeader, "proxy-group-header", "X-Remote-Group",
		"header in which a proxy names a group; it may be repeated")
	fs.StringVar(&o.agents, "agent-namespace", "",
		"namespace of the agents, from which the console reads the use of nodes with its own account; not at all when empty")
	fs.StringVar(&o.prometheus, "prometheus", "",
		"address of a Prometheus from which the use of nodes is read, in place of the agents")
	fs.IntVar(&o.sessions, "sessions", 16,
		"most people that are signed in at a time: each has a view of the cluster in memory")
	fs.DurationVar(&o.idle, "session-idle", time.Hour, "time after which a session ends that nobody uses")
	fs.StringVar(&o.kubeconfig, "kubeconfig", "", "file that says where the API server is; when empty, that of the pod")
}

func main() {
	var o options
	o.bind(flag.CommandLine)
	shown := flag.Bool("version", false, "print the version and exit")
	flag.Parse()
	if *shown {
		fmt.Println(version.Line("tenon-console"))
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "tenon-console:", err)
		os.Exit(1)
	}
}
