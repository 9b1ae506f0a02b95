package main

import (
	"flag"
	"fmt"
	"net"
	"time"

	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/node/agent"
	"github.com/tenon-numa/tenon/node/kubelet"
)

// configSource has the flags for where the agent reads the kubelet's configuration.
type configSource struct{ source, address, ca string }

func (c *configSource) flags(fs *flag.FlagSet, nodeIP string) {
	fs.StringVar(&c.source, "kubelet-config-source", "auto",
		"where to read the kubelet's configuration: kubelet, api-server (which asks the kubelet), files, "+
			"or auto: files until the kubelet answers")
	fs.StringVar(&c.address, "kubelet-address", nodeIP,
		"host, or host:port, of the kubelet; also NODE_IP, and the node's name when empty")
	fs.StringVar(&c.ca, "kubelet-ca-file", "",
		"certificates that verify the kubelet, such as its own /var/lib/kubelet/pki/kubelet.crt; "+
			"those of the API server when empty")
}

// The first and the longest pause between requests to a kubelet that has never answered. firstPause is shorter than
// the 30 seconds after which the agent reads the configuration again (--resync), so the second reading asks the
// kubelet.
const (
	firstPause = 20 * time.Second
	lastPause  = 2 * time.Minute
)

// kubeletPort is the port on which a kubelet serves by default.
const kubeletPort = "10250"

// open sets the source of the configuration in cfg.
func (c *configSource) open(cfg *agent.Config) error {
	files := kubelet.Files{File: cfg.KubeletConfig, Dir: cfg.KubeletConfigDir}
	switch c.source {
	case "files":
		cfg.Rules = files
		return nil
	case "api-server":
		e, err := kubelet.NewProxyEndpoint(cfg.REST, cfg.NodeName)
		cfg.Rules = e
		return err
	case "auto", "kubelet":
	default:
		return fmt.Errorf("--kubelet-config-source: unknown value %q", c.source)
	}
	e, err := kubelet.NewEndpoint(c.direct(cfg))
	cfg.Rules = e
	if err == nil && c.source == "auto" {
		cfg.Rules = &kubelet.Preferred{Kubelet: e, Files: files, First: firstPause, Last: lastPause}
	}
	return err
}

// direct returns the client configuration for the kubelet: the identity of the agent, at the kubelet's address.
func (c *configSource) direct(cfg *agent.Config) *rest.Config {
	rc := rest.CopyConfig(cfg.REST)
	host := c.address
	if host == "" {
		host = cfg.NodeName
	}
	if _, _, err := net.SplitHostPort(host); err != nil {
		host = net.JoinHostPort(host, kubeletPort)
	}
	rc.Host, rc.APIPath, rc.ServerName, rc.Proxy = "https://"+host, "", "", nil
	if c.ca != "" {
		rc.CAFile, rc.CAData = c.ca, nil
	}
	return rc
}
