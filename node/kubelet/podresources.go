package kubelet

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

// Listed is an active pod as the podresources service lists it.
type Listed struct {
	Namespace, Name string
	Containers      []ListedContainer
	// Whole is what the pod holds as a whole, not container by container; its Name is empty. Kubelets before 1.37 do
	// not report it.
	Whole ListedContainer
}

// ListedContainer has the service's data about an app container or a sidecar.
type ListedContainer struct {
	Name    string
	CPUs    idset.Set[idset.CPU] // exclusive CPUs only
	Memory  []MemoryBlock        // without blocks of zero bytes
	Devices []Device             // ascending by resource and id
}

// PodResources is a client of the kubelet's podresources service.
type PodResources struct {
	socket string
	conn   *grpc.ClientConn
	client podresources.PodResourcesListerClient
}

// DialPodResources returns a client of the service at a unix socket, given by its absolute path. It connects with the
// first request, and again when the kubelet has made a new socket.
func DialPodResources(socket string, opts ...grpc.DialOption) (*PodResources, error) {
	retry := backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second}
	conn, err := grpc.NewClient("unix://"+socket, append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: retry, MinConnectTimeout: time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxFile))}, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("dial podresources at %s: %w", socket, err)
	}
	return &PodResources{socket, conn, podresources.NewPodResourcesListerClient(conn)}, nil
}

// Started returns when the kubelet made its socket. The kubelet makes the socket anew at each start, after it has
// read its machine (cri-client/pkg/util, CreateListener). The time is zero if there is no socket.
func (p *PodResources) Started() time.Time {
	f, err := os.Lstat(p.socket)
	if err != nil {
		return time.Time{}
	}
	return f.ModTime()
}

// Wake ends a pause between attempts to connect, so that the client tries at once.
func (p *PodResources) Wake() { p.conn.ResetConnectBackoff() }

// Close ends the connection.
func (p *PodResources) Close() error { return p.conn.Close() }

// List returns the active pods. If the data of one pod is out of bounds, the whole list is an error.
func (p *PodResources) List(ctx context.Context) ([]Listed, error) {
	resp, err := p.client.List(ctx, &podresources.ListPodResourcesRequest{})
	if err != nil {
		return nil, fmt.Errorf("list podresources: %w", err)
	}
	if err := within("pods", len(resp.GetPodResources()), maxPods); err != nil {
		return nil, fmt.Errorf("list podresources: %w", err)
	}
	var out []Listed
	for _, pod := range resp.GetPodResources() {
		l := Listed{Namespace: pod.GetNamespace(), Name: pod.GetName()}
		if err := within("containers", len(pod.GetContainers()), maxContainers); err != nil {
			return nil, fmt.Errorf("list podresources: pod %s/%s: %w", clip(l.Namespace), clip(l.Name), err)
		}
		var err error
		l.Whole, err = listedContainer(wholeOf(pod))
		if err != nil {
			return nil, fmt.Errorf("list podresources: pod %s/%s: %w", clip(l.Namespace), clip(l.Name), err)
		}
		for _, c := range pod.GetContainers() {
			lc, err := listedContainer(c)
			if err != nil {
				return nil, fmt.Errorf("list podresources: pod %s/%s container %q: %w", clip(l.Namespace), clip(l.Name),
					clip(c.GetName()), err)
			}
			l.Containers = append(l.Containers, lc)
		}
		out = append(out, l)
	}
	return out, nil
}

func listedContainer(c *podresources.ContainerResources) (out ListedContainer, err error) {
	out.Name = c.GetName()
	if out.CPUs, err = ids[idset.CPU](c.GetCpuIds()); err != nil {
		return out, fmt.Errorf("cpu_ids: %w", err)
	}
	if err := within("memory blocks", len(c.GetMemory()), maxBlocks); err != nil {
		return out, err
	}
	for _, b := range c.GetMemory() {
		block, err := memoryBlock(b.GetMemoryType(), b.GetSize())
		if err != nil {
			return out, fmt.Errorf("memory: %w", err)
		}
		if block.NUMAs, err = topologyNUMAs(b.GetTopology()); err != nil {
			return out, fmt.Errorf("memory: %w", err)
		}
		out.Memory = append(out.Memory, block)
	}
	out.Devices, err = readDevices(c.GetDevices())
	return out, err
}

// Devices returns the healthy devices of the node, ascending by resource and id.
func (p *PodResources) Devices(ctx context.Context) ([]Device, error) {
	resp, err := p.client.GetAllocatableResources(ctx, &podresources.AllocatableResourcesRequest{})
	if err != nil {
		return nil, fmt.Errorf("get allocatable podresources: %w", err)
	}
	out, err := readDevices(resp.GetDevices())
	if err != nil {
		return nil, fmt.Errorf("get allocatable podresources: %w", err)
	}
	return out, nil
}

// readDevices reads devices from the service, which has one entry per resource, devices and NUMA node.
func readDevices(in []*podresources.ContainerDevices) ([]Device, error) {
	var out []Device
	for _, d := range in {
		numas, list := announcedNUMAs(d.GetTopology())
		for _, id := range d.GetDeviceIds() {
			out = append(out, Device{Resource: d.GetResourceName(), ID: id, NUMAs: numas, List: list})
		}
	}
	return mergeDevices(out)
}

// topologyNUMAs reads the NUMA nodes of memory, which the kubelet itself has chosen.
func topologyNUMAs(t *podresources.TopologyInfo) (idset.Set[idset.NUMA], error) {
	var out []int64
	for _, n := range t.GetNodes() {
		out = append(out, n.GetID())
	}
	return ids[idset.NUMA](out)
}

// announcedNUMAs reads the NUMA nodes that a plugin has announced for devices. A plugin may announce any number. Some
// announce -1, which /sys has for a device without a NUMA node. list reports ids that cannot be NUMA nodes, and numas
// leaves them out.
func announcedNUMAs(t *podresources.TopologyInfo) (numas idset.Set[idset.NUMA], list topo.NUMAList) {
	var known []idset.NUMA
	for _, n := range t.GetNodes() {
		switch id := n.GetID(); {
		case id < 0:
			list = max(list, topo.NegativeID)
		case id > idset.Max:
			list = topo.UnknownID
		case len(known) <= idset.Max:
			known = append(known, idset.NUMA(id))
		}
	}
	return idset.Of(known...), list
}

// mergeDevices sorts devices, and makes one device of all entries with equal resource and id. A resource name that is
// empty or too long is an error. Ids may be any text that a plugin announces; see [Observation.Omitted].
func mergeDevices(in []Device) ([]Device, error) {
	slices.SortStableFunc(in, func(a, b Device) int {
		return cmp.Or(strings.Compare(a.Resource, b.Resource), strings.Compare(a.ID, b.ID))
	})
	out := in[:0:0]
	for _, d := range in {
		if n := len(out); n > 0 && out[n-1].Resource == d.Resource && out[n-1].ID == d.ID {
			out[n-1].NUMAs = out[n-1].NUMAs.Union(d.NUMAs)
			out[n-1].List = max(out[n-1].List, d.List)
			continue
		}
		if err := checkName("resource", d.Resource); err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}
