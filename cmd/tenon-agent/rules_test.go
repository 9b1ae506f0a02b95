package main

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/node/agent"
)

func TestSourcesOfTheConfiguration(t *testing.T) {
	for _, c := range []struct {
		args, want, wrong string
	}{
		{"", "*kubelet.Preferred", ""},
		{"--kubelet-config-source=kubelet --kubelet-address=10.0.0.7", "*kubelet.Endpoint", ""},
		{"--kubelet-config-source=api-server", "*kubelet.Endpoint", ""},
		{"--kubelet-config-source=files", "kubelet.Files", ""},
		{"--kubelet-config-source=elsewhere", "", "elsewhere"},
		{"--kubelet-ca-file=/nowhere/ca.crt", "", "/nowhere/ca.crt"},
	} {
		fs := flag.NewFlagSet("test", flag.ContinueOnError)
		var a configSource
		a.flags(fs, "")
		if err := fs.Parse(strings.Fields(c.args)); err != nil {
			t.Fatal(err)
		}
		cfg := agent.Config{NodeName: "node-a", REST: &rest.Config{Host: "https://api:6443"}}
		err := a.open(&cfg)
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%s: error %v", c.args, err)
			}
		} else if got := fmt.Sprintf("%T", cfg.Rules); err != nil || got != c.want {
			t.Errorf("%s: source is %s, error %v", c.args, got, err)
		}
	}
	for address, want := range map[string]string{"": "https://node-a:10250", "10.0.0.7": "https://10.0.0.7:10250",
		"fd00::7": "https://[fd00::7]:10250", "10.0.0.7:20250": "https://10.0.0.7:20250"} {
		a := configSource{address: address}
		cfg := &agent.Config{NodeName: "node-a", REST: &rest.Config{Host: "https://api:6443"}}
		if got := a.direct(cfg).Host; got != want {
			t.Errorf("address %q: asks at %s, want %s", address, got, want)
		}
	}
}
