package realnode

import (
	"fmt"
	"maps"
	"net/url"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	configv1beta1 "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/tenon-numa/tenon/test/vm/guest"
)

// hostAddress is the address at which the guest reaches the host's loopback interface.
const hostAddress = "10.0.2.2"

const loopback = "127.0.0.1"

// configFiles returns the files of the guest that differ between nodes, by absolute path.
func configFiles(c Config) (map[string]guest.File, error) {
	kubeletConfig := configForGuest(c.Machine.Kubelet)
	kubeletConfig.ServerTLSBootstrap = c.SignedByCluster
	if c.Disk.systemd {
		kubeletConfig.CgroupDriver = "systemd"
	}
	kubelet, err := yaml.Marshal(kubeletConfig)
	if err != nil {
		return nil, fmt.Errorf("write kubelet configuration: %w", err)
	}
	access, err := kubeconfig(c.Kubelet)
	if err != nil {
		return nil, fmt.Errorf("access of the kubelet: %w", err)
	}
	server, err := guestAddress(c.Kubelet)
	if err != nil {
		return nil, err
	}
	out := map[string]guest.File{
		"/etc/machine.txt":             {Data: []byte(c.Machine.Text), Mode: 0o644},
		"/etc/hostname":                {Data: []byte(c.Name + "\n"), Mode: 0o644},
		"/etc/kubernetes/server":       {Data: []byte(server + "\n"), Mode: 0o644},
		"/etc/kubernetes/kubelet.conf": {Data: access, Mode: 0o600},
	}
	if c.Disk.systemd {
		maps.Copy(out, unitFiles(c.Name, kubelet))
	} else {
		out["/var/lib/kubelet/config.yaml"] = guest.File{Data: kubelet, Mode: 0o644}
	}
	maps.Copy(out, c.Files)
	return out, nil
}

// configForGuest returns a kubelet configuration with the settings for the guest's containerd, cgroups and network.
// None of them affects the managers of CPUs, memory, devices and topology.
func configForGuest(c *configv1beta1.KubeletConfiguration) *configv1beta1.KubeletConfiguration {
	out := c.DeepCopy()
	on, off := true, false
	out.CgroupDriver = "cgroupfs"
	out.ContainerRuntimeEndpoint = "unix:///run/containerd/containerd.sock"
	// There is no iptables in the guest, and no swap.
	out.MakeIPTablesUtilChains = &off
	out.FailSwapOn = &off
	// As on a node of a real cluster, the API server authorizes requests to the kubelet.
	out.Authentication.Anonymous.Enabled = &off
	out.Authentication.Webhook.Enabled = &on
	out.Authorization.Mode = configv1beta1.KubeletAuthorizationModeWebhook
	out.EnableControllerAttachDetach = &off
	return out
}

// guestAddress returns the address at which the guest reaches the API server, which listens on the host's loopback
// interface.
func guestAddress(c *rest.Config) (string, error) {
	u, err := url.Parse(c.Host)
	if err != nil {
		return "", fmt.Errorf("address of the API server: %w", err)
	}
	if u.Scheme != "https" || u.Hostname() != loopback || u.Port() == "" {
		return "", fmt.Errorf("API server %s: want https://%s:PORT", c.Host, loopback)
	}
	return hostAddress + ":" + u.Port(), nil
}

// kubeconfig returns a kubeconfig file for the guest. Its server is the address at which the guest reaches the API
// server on the host's loopback interface. The server's certificate is for the address on the host, so the file has
// that as the server name.
func kubeconfig(c *rest.Config) ([]byte, error) {
	server, err := guestAddress(c)
	if err != nil {
		return nil, err
	}
	if c.BearerToken == "" || len(c.CAData) == 0 {
		return nil, fmt.Errorf("access to API server %s has no token, or no CA as data", c.Host)
	}
	const name = "lab"
	k := clientcmdapi.NewConfig()
	k.Clusters[name] = &clientcmdapi.Cluster{Server: "https://" + server, CertificateAuthorityData: c.CAData,
		TLSServerName: loopback}
	k.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: c.BearerToken}
	k.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	k.CurrentContext = name
	return clientcmd.Write(*k)
}
