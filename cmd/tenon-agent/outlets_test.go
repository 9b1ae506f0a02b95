package main

import (
	"context"
	"flag"
	"net"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/node/agent"
)

// opened opens the outlets that the arguments name.
func opened(t *testing.T, args ...string) (agent.Config, error) {
	t.Helper()
	fs := flag.NewFlagSet("test", flag.ContinueOnError)
	var o outlets
	o.flags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	cfg := agent.Config{NodeName: "n", REST: &rest.Config{Host: "http://127.0.0.1:1"}, Logger: logr.Discard()}
	return cfg, o.open(ctx, &cfg)
}

func TestOutlets(t *testing.T) {
	cfg, err := opened(t, "--metrics-address", "127.0.0.1:0", "--pprof-address", "127.0.0.1:0")
	if err != nil || cfg.Publisher == nil || cfg.Witness == nil {
		t.Errorf("publisher %v, witness %v, error %v", cfg.Publisher, cfg.Witness, err)
	}
	cfg, err = opened(t, "--metrics-address", "", "--node-resource-topology=false")
	if err != nil || cfg.Publisher != nil || cfg.Witness != nil {
		t.Errorf("all off: publisher %v, witness %v, error %v", cfg.Publisher, cfg.Witness, err)
	}
}

func TestOutletsThatCannotBeOpened(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, c := range []struct{ args, want string }{
		{"--metrics-address=" + taken.Addr().String(), taken.Addr().String()},
		{"--metrics-pods=-1", "number of pods"},
		{"--metrics-cert-file=/nowhere/tls.crt", "/nowhere/tls.crt"},
		{"--pprof-address=:6060", "loopback"},
	} {
		if _, err := opened(t, c.args); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v does not say %q", c.args, err, c.want)
		}
	}
}
