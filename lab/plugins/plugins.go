// Package plugins has device plugins for the devices in a machine's description.
//
// There is no hardware behind them: every allocation succeeds and gives a container nothing. But the kubelet counts the
// devices, reads their NUMA nodes, and reports which container got which. Invariant: the plugins announce exactly the
// devices of the machine. The package does not renew a registration: a restarted kubelet does not get the devices
// again.
package plugins

import (
	"context"
	"fmt"
	"net"
	"path/filepath"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/tenon-numa/tenon/core/topo"
)

// List returns the message with which a device plugin announces the devices of a resource. A device has no topology
// at all if it has no NUMA nodes and its List is [topo.UsualList].
func List(m *topo.Machine, r topo.Resource) *api.ListAndWatchResponse {
	out := &api.ListAndWatchResponse{}
	for _, d := range r.Devices {
		dev := &api.Device{ID: d.ID, Health: api.Healthy}
		if d.Unhealthy {
			dev.Health = api.Unhealthy
		}
		if d.NUMAs != 0 || d.List != topo.UsualList {
			dev.Topology = &api.TopologyInfo{}
		}
		for _, id := range Announced(m, d) {
			dev.Topology.Nodes = append(dev.Topology.Nodes, &api.NUMANode{ID: id})
		}
		out.Devices = append(out.Devices, dev)
	}
	return out
}

// Announced returns the ids of the NUMA nodes that a plugin announces for a device. These are the device's NUMA nodes
// on the machine. If the device's List requests it, -1 or an id above the machine's ids follows.
func Announced(m *topo.Machine, d topo.Device) (out []int64) {
	for _, id := range m.IDs(d.NUMAs) {
		out = append(out, int64(id))
	}
	switch d.List {
	case topo.NegativeID:
		out = append(out, -1)
	case topo.UnknownID:
		numas := m.NUMAs()
		out = append(out, int64(numas[len(numas)-1].ID)+1)
	}
	return out
}

// Grant returns an answer for every container in the request, because the device manager refuses a reply with fewer.
// The answers give the containers nothing.
func Grant(r *api.AllocateRequest) *api.AllocateResponse {
	out := &api.AllocateResponse{}
	for range r.ContainerRequests {
		out.ContainerResponses = append(out.ContainerResponses, &api.ContainerAllocateResponse{})
	}
	return out
}

// server is one device plugin.
type server struct {
	api.UnimplementedDevicePluginServer
	list *api.ListAndWatchResponse
	stop <-chan struct{}
}

func (s *server) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

func (s *server) ListAndWatch(_ *api.Empty, stream grpc.ServerStreamingServer[api.ListAndWatchResponse]) error {
	if err := stream.Send(s.list); err != nil {
		return err
	}
	select {
	case <-s.stop:
	case <-stream.Context().Done():
	}
	return nil
}

func (s *server) Allocate(_ context.Context, r *api.AllocateRequest) (*api.AllocateResponse, error) {
	return Grant(r), nil
}

// Serve starts a device plugin for every resource of the machine, on a socket beside the kubelet's registration
// socket, and registers it there. It returns when all are registered; they run until ctx ends.
func Serve(ctx context.Context, registration string, m *topo.Machine) error {
	conn, err := grpc.NewClient("unix://"+registration, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("dial kubelet registration: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if err := waitForKubelet(ctx, conn); err != nil {
		return fmt.Errorf("wait for kubelet registration: %w", err)
	}
	for i, r := range m.Resources() {
		endpoint := fmt.Sprintf("p%d.sock", i) // a resource's name is too long for a socket's path
		l, err := net.Listen("unix", filepath.Join(filepath.Dir(registration), endpoint))
		if err != nil {
			return fmt.Errorf("serve device plugin of %s: %w", r.Name, err)
		}
		g := grpc.NewServer()
		api.RegisterDevicePluginServer(g, &server{list: List(m, r), stop: ctx.Done()})
		go func() { _ = g.Serve(l) }() // it fails if the listener does; then kubelets report that the plugin is gone
		context.AfterFunc(ctx, g.Stop)
		_, err = api.NewRegistrationClient(conn).Register(ctx, &api.RegisterRequest{
			Version: api.Version, Endpoint: endpoint, ResourceName: r.Name, Options: &api.DevicePluginOptions{},
		})
		if err != nil {
			return fmt.Errorf("register device plugin of %s: %w", r.Name, err)
		}
	}
	return nil
}

// waitForKubelet returns when the kubelet listens. Before it listens it empties the directory of its socket,
// including the sockets of plugins that started earlier (devicemanager/plugin/v1beta1/server.go, Start).
func waitForKubelet(ctx context.Context, conn *grpc.ClientConn) error {
	for {
		conn.Connect()
		s := conn.GetState()
		if s == connectivity.Ready {
			return nil
		}
		if !conn.WaitForStateChange(ctx, s) {
			return context.Cause(ctx)
		}
	}
}
