package main

import (
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/node/agent"
	"github.com/tenon-numa/tenon/node/kubelet"
)

// Without a configuration the kubelet decides; with one, both are read.
func TestPinFlags(t *testing.T) {
	for args, want := range map[string]string{
		"":                      "kubelet.Files, pins false",
		"--pin-config=pin.yaml": "arbiter.Source, pins true",
		"--pin-config=pin.yaml --pin-failure-policy=Fail":   "arbiter.Source, pins true",
		"--pin-config=pin.yaml --pin-failure-policy=Ignor":  `--pin-failure-policy: unknown value "Ignor"`,
		"--pin-failure-policy=Ignor --nri-socket=elsewhere": "kubelet.Files, pins false",
	} {
		fs := flag.NewFlagSet("test", flag.ContinueOnError)
		var p pins
		p.flags(fs)
		if err := fs.Parse(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		cfg := agent.Config{NodeName: "n", REST: &rest.Config{Host: "https://api:6443"}, Rules: kubelet.Files{},
			PodResourcesSocket: filepath.Join(t.TempDir(), "kubelet.sock")}
		err := p.open(&cfg, (&outlets{}).tree, nil)
		got := fmt.Sprintf("%T, pins %t", cfg.Rules, cfg.Arbiter != nil)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", args, got, want)
		}
	}
}
