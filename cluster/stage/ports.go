package stage

import (
	"cmp"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/place"
)

// hostPort is a port of the node that a pod uses. Two pods cannot have the same port and protocol on one address; an
// empty address means all addresses.
type hostPort struct {
	IP       string
	Protocol v1.Protocol
	Port     int32
}

// hostPorts returns the host ports of a pod, including its sidecars' ports.
func hostPorts(p *v1.PodSpec) (out []hostPort) {
	add := func(c *v1.Container) {
		for _, x := range c.Ports {
			if x.HostPort > 0 {
				ip := x.HostIP
				if ip == "0.0.0.0" {
					ip = ""
				}
				out = append(out, hostPort{ip, cmp.Or(x.Protocol, v1.ProtocolTCP), x.HostPort})
			}
		}
	}
	for i := range p.InitContainers {
		if r := p.InitContainers[i].RestartPolicy; r != nil && *r == v1.ContainerRestartPolicyAlways {
			add(&p.InitContainers[i])
		}
	}
	for i := range p.Containers {
		add(&p.Containers[i])
	}
	return out
}

// conflicts reports whether two pods with these ports cannot run on one node.
func (h hostPort) conflicts(o hostPort) bool {
	return h.Port == o.Port && h.Protocol == o.Protocol && (h.IP == o.IP || h.IP == "" || o.IP == "")
}

func (h hostPort) String() string { return fmt.Sprintf("%d/%s", h.Port, h.Protocol) }

// taken returns a reason for each of the pod's host ports that another pod on the node uses.
func (f *filters) taken(on []kube.Stored) (out []place.Reason) {
	for _, want := range f.ports {
	pods:
		for p := range kube.EachPod(on) {
			for _, has := range hostPorts(&p.Spec) {
				if p.UID != f.pod.UID && want.conflicts(has) {
					out = append(out, place.Reason{Code: place.PortTaken, Resource: want.String(), With: p.Namespace + "/" + p.Name})
					break pods
				}
			}
		}
	}
	return out
}
