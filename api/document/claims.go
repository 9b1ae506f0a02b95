package document

import (
	"github.com/tenon-numa/tenon/api/v1alpha1"
)

// Claims is what drivers publish in ResourceSlices, and what ResourceClaims hold (dynamic resource allocation, DRA).
type Claims struct {
	Nodes map[string]*NodeClaims // by name; a node without devices is missing
	Pods  map[string]*PodClaims  // by UID; a pod without claims is missing
	// Unread is why the devices of nodes are not known; empty if they are.
	Unread string
}

// Node returns the devices of a node, or nil. It returns nil for nil.
func (c *Claims) Node(name string) *NodeClaims {
	if c == nil {
		return nil
	}
	return c.Nodes[name]
}

// Shown returns what Node returns. If it is not known whether the node has devices, the result has the reason only.
func (c *Claims) Shown(node string) *NodeClaims {
	if n := c.Node(node); n != nil || c == nil || c.Unread == "" {
		return n
	}
	return &NodeClaims{Devices: []ClaimDevice{}, Unread: c.Unread}
}

// Pod returns what a pod holds by its claims, or nil. It returns nil for nil.
func (c *Claims) Pod(uid string) *PodClaims {
	if c == nil {
		return nil
	}
	return c.Pods[uid]
}

// NodeClaims are the devices that drivers publish for one node, and who holds them by claims.
type NodeClaims struct {
	// Devices are ascending by driver, pool and name. Omitted counts the devices beyond a bound, which are missing here;
	// held ones are kept before others.
	Devices []ClaimDevice `json:"devices"`
	Omitted int           `json:"omitted,omitempty"`
	// Problems are faults in what drivers publish, and why devices may be kept that seem to be free.
	Problems []string `json:"problems,omitempty"`
	// Unread is what could not be read, and why; empty if all was read. Then holders may be missing.
	Unread string `json:"unread,omitempty"`
}

// DeviceName names a device of a driver.
type DeviceName struct {
	Driver string `json:"driver"`
	Pool   string `json:"pool"`
	Device string `json:"device"`
}

// ClaimDevice is a device of a node.
type ClaimDevice struct {
	DeviceName
	// NUMA is the id of the NUMA node that the device is on; absent if it is not known. Near are the NUMA nodes that are
	// as near to the device, NUMA among them; absent if there is no other.
	NUMA *int32          `json:"numa,omitempty"`
	Near v1alpha1.IDList `json:"near,omitempty"`
	// Shared is set if several claims may use the device, if other devices use parts of it, or if a taint keeps claims
	// away: whether such a device is free is not known.
	Shared bool `json:"shared,omitempty"`
	// Unpublished is set if a claim of a pod on the node holds the device, and no ResourceSlice of the node has it.
	Unpublished bool          `json:"unpublished,omitempty"`
	Holders     []ClaimHolder `json:"holders,omitempty"`
	// MoreHolders counts the claims beyond a bound, which are missing in Holders.
	MoreHolders int `json:"moreHolders,omitempty"`
	// Kept is for which request the scheduler keeps the device, which no claim holds; absent if it keeps it for none.
	Kept *KeptFor `json:"kept,omitempty"`
}

// KeptFor is a ProvisioningRequest for whose pods devices are kept.
type KeptFor struct {
	Request string `json:"request"` // "namespace/name"
	// Until is when the booking ends, if the pods have not come before.
	Until string `json:"until"` // RFC 3339
}

// KeptDevices are devices of a driver on a node that are kept for pods of a request.
type KeptDevices struct {
	Node    string `json:"node"`
	Driver  string `json:"driver"`
	Devices int    `json:"devices"`
	KeptFor
}

// ClaimHolder is a claim that holds a device. Pods are the pods that use the claim, by its status and by what the pods
// say themselves; a pod that could not be read is missing.
type ClaimHolder struct {
	Namespace string `json:"namespace"`
	Claim     string `json:"claim"`
	Pods      []Pod  `json:"pods,omitempty"`
}

// PodClaims is what a pod holds by its claims.
type PodClaims struct {
	// Devices are in the order of the pod's claims, and of the allocation of each.
	Devices []PodDevice `json:"devices"`
	// Without has, for each claim that holds no devices for the pod, the reason.
	Without []string `json:"without,omitempty"`
	// Kept are devices that no claim holds, and that a pod without a node does not get, because they are kept for pods of
	// requests; ascending. MoreKept counts the devices beyond a bound.
	Kept     []KeptDevices `json:"kept,omitempty"`
	MoreKept int           `json:"moreKept,omitempty"`
	Unread   string        `json:"unread,omitempty"` // as in NodeClaims
}

// PodDevice is a device that a pod holds by a claim of its namespace.
type PodDevice struct {
	Claim string `json:"claim"`
	DeviceName
	NUMA *int32          `json:"numa,omitempty"` // as in ClaimDevice
	Near v1alpha1.IDList `json:"near,omitempty"`
	// Apart is set if the device is on none of the NUMA nodes of what the kubelet gave the pod.
	Apart bool `json:"apart,omitempty"`
}

// Apart returns the number of devices that are apart from what the kubelet gave the pod. It returns 0 for nil.
func (p *PodClaims) Apart() (n int) {
	if p == nil {
		return 0
	}
	for i := range p.Devices {
		if p.Devices[i].Apart {
			n++
		}
	}
	return n
}
