package judge

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/apis/config"

	"github.com/tenon-numa/tenon/core/topo"
)

// Device is a device of a DRA driver, which claims get.
type Device struct {
	Class, Name string
	NUMAs       topo.Mask // 0 if the driver does not publish it
}

// Claimed is a device that a container of a pod got by a claim.
type Claimed struct {
	Container string
	Device    Device
}

// Wanted are devices that a container gets by a claim.
type Wanted struct {
	Container, Class string
	Count            int
}

// ExtendedPrefix begins the names of extended resources that classes serve; the rest is the name of the class.
const ExtendedPrefix = "dra.example.com/"

// maxWanted bounds the devices of one claim.
const maxWanted = 8

// WantedBy returns the devices that a pod gets by claims. Its templates are named CLASS-COUNT. A claim is attributed
// to the first container that uses it.
func WantedBy(p *v1.Pod) (out []Wanted, err error) {
	seen := map[string]bool{}
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		for _, use := range c.Resources.Claims {
			i := slices.IndexFunc(p.Spec.ResourceClaims, func(r v1.PodResourceClaim) bool { return r.Name == use.Name })
			if i < 0 || p.Spec.ResourceClaims[i].ResourceClaimTemplateName == nil {
				return nil, fmt.Errorf("pod %s: claim %s has no template", p.Name, use.Name)
			}
			template := *p.Spec.ResourceClaims[i].ResourceClaimTemplateName
			class, number, _ := strings.Cut(template, "-")
			n, err := strconv.Atoi(number)
			if err != nil || n < 1 || n > maxWanted {
				return nil, fmt.Errorf("pod %s: template %q is not CLASS-COUNT with a count of 1 to %d", p.Name, template,
					maxWanted)
			}
			if !seen[use.Name] {
				out = append(out, Wanted{c.Name, class, n})
			}
			seen[use.Name] = true
		}
		for name, q := range c.Resources.Limits {
			if class, ok := strings.CutPrefix(string(name), ExtendedPrefix); ok {
				out = append(out, Wanted{c.Name, class, int(min(max(q.Value(), 0), maxWanted+1))})
			}
		}
	}
	return out, nil
}

// free returns the devices of a class that no other pod has.
func (n *Node) free(class string, p *v1.Pod) (out []Device) {
	taken := map[Device]bool{}
	for uid, list := range n.Claimed {
		for _, c := range list {
			taken[c.Device] = taken[c.Device] || uid != p.UID && n.has(string(uid))
		}
	}
	for _, d := range n.Claimable {
		if d.Class == class && !taken[d] {
			out = append(out, d)
		}
	}
	return out
}

func (n *Node) has(uid string) bool {
	return slices.ContainsFunc(n.Pods, func(p *v1.Pod) bool { return string(p.UID) == uid })
}

// mask is the NUMA nodes of what a container has.
type mask struct {
	container string
	numas     topo.Mask
}

// total returns the sum of the NUMA nodes of all containers, with devices of claims.
func total(masks []mask, claimed []Claimed) (sum int) {
	for _, m := range masks {
		for _, c := range claimed {
			if c.Container == m.container {
				m.numas |= c.Device.NUMAs
			}
		}
		sum += m.numas.Len()
	}
	return sum
}

// apart reports whether a container has devices of claims outside of the NUMA nodes of its CPUs and memory.
func apart(masks []mask, claimed []Claimed) bool {
	for _, m := range masks {
		for _, c := range claimed {
			if c.Container == m.container && m.numas != 0 && c.Device.NUMAs&^m.numas != 0 {
				return true
			}
		}
	}
	return false
}

// assign returns the free devices that a pod wants with which its containers span the fewest NUMA nodes. It tries all
// choices. If there are too few devices, ok is false.
func (n *Node) assign(p *v1.Pod, wanted []Wanted, masks []mask) (best []Claimed, ok bool) {
	var try func(i int, chosen []Claimed)
	try = func(i int, chosen []Claimed) {
		if i == len(wanted) {
			if !ok || total(masks, chosen) < total(masks, best) {
				best, ok = slices.Clone(chosen), true
			}
			return
		}
		w := wanted[i]
		free := slices.DeleteFunc(n.free(w.Class, p), func(d Device) bool {
			return slices.ContainsFunc(chosen, func(c Claimed) bool { return c.Device == d })
		})
		for set := range choices(free, w.Count) {
			next := slices.Clone(chosen)
			for _, d := range set {
				next = append(next, Claimed{w.Container, d})
			}
			try(i+1, next)
		}
	}
	try(0, nil)
	return best, ok
}

// choices yields the sets of n devices, and omits sets that differ only by devices of equal NUMA nodes.
func choices(devices []Device, n int) func(yield func([]Device) bool) {
	return func(yield func([]Device) bool) {
		var pick func(from int, chosen []Device) bool
		pick = func(from int, chosen []Device) bool {
			if len(chosen) == n {
				return yield(chosen)
			}
			tried := map[topo.Mask]bool{}
			for i := from; i < len(devices); i++ {
				if tried[devices[i].NUMAs] {
					continue
				}
				tried[devices[i].NUMAs] = true
				if !pick(i+1, append(slices.Clone(chosen), devices[i])) {
					return false
				}
			}
			return true
		}
		pick(0, nil)
	}
}

// strict reports whether the kubelet refuses pods that it cannot align. A pod may then wait for devices beside its
// CPUs.
func (n *Node) strict() bool {
	return n.Config.TopologyManagerPolicy == config.SingleNumaNodeTopologyManagerPolicy ||
		n.Config.TopologyManagerPolicy == config.RestrictedTopologyManagerPolicy
}

// withoutClaimed returns the pod without extended resources that classes serve. Kubelets do not count them.
func withoutClaimed(p *v1.Pod) *v1.Pod {
	p = p.DeepCopy()
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for _, c := range list {
			for _, amounts := range []v1.ResourceList{c.Resources.Requests, c.Resources.Limits} {
				for name := range amounts {
					if strings.HasPrefix(string(name), ExtendedPrefix) {
						delete(amounts, name)
					}
				}
			}
		}
	}
	return p
}
