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

// asking is the flags of how the agent learns the kubelet's configuration.
type asking struct{ source, address, ca string }

func (a *asking) flags(fs *flag.FlagSet, nodeIP string) {
	fs.StringVar(&a.source, "kubelet-config-source", "auto", "who says the kubelet's configuration: kubelet, api-server (which asks the kubelet), files, or auto: files until the kubelet answers")
	fs.StringVar(&a.address, "kubelet-address", nodeIP, "host, or host:port, to ask the kubelet at; also NODE_IP, and the node's name when empty")
	fs.StringVar(&a.ca, "kubelet-ca-file", "", "certificates to verify the kubelet by, such as its own /var/lib/kubelet/pki/kubelet.crt; those of the API server when empty")
}

// silence is how long a kubelet that has never answered is left alone.
const silence = 2 * time.Minute

// kubeletPort is where a kubelet serves unless told otherwise.
const kubeletPort = "10250"

func (a *asking) open(cfg *agent.Config) error {
	files := kubelet.Files{File: cfg.KubeletConfig, Dir: cfg.KubeletConfigDir}
	switch a.source {
	case "files":
		cfg.Rules = files
		return nil
	case "api-server":
		e, err := kubelet.NewProxyEndpoint(cfg.REST, cfg.NodeName)
		cfg.Rules = e
		return err
	case "auto", "kubelet":
	default:
		return fmt.Errorf("--kubelet-config-source: unknown value %q", a.source)
	}
	e, err := kubelet.NewEndpoint(a.direct(cfg))
	cfg.Rules = e
	if err == nil && a.source == "auto" {
		cfg.Rules = &kubelet.Preferred{Kubelet: e, Files: files, Pause: silence}
	}
	return err
}

// direct is the agent's own identity at the kubelet instead of the API server.
func (a *asking) direct(cfg *agent.Config) *rest.Config {
	rc := rest.CopyConfig(cfg.REST)
	host := a.address
	if host == "" {
		host = cfg.NodeName
	}
	if _, _, err := net.SplitHostPort(host); err != nil {
		host = net.JoinHostPort(host, kubeletPort)
	}
	rc.Host, rc.APIPath, rc.ServerName, rc.Proxy = "https://"+host, "", "", nil
	if a.ca != "" {
		rc.CAFile, rc.CAData = a.ca, nil
	}
	return rc
}
