package kubelet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/tenon-numa/tenon/core/topo"
)

// deviceList says what a device plugin would announce of a resource. A device without numas has no
// topology at all: an empty one would mean "on no numa".
func deviceList(m *topo.Machine, r topo.Resource) *api.ListAndWatchResponse {
	out := &api.ListAndWatchResponse{}
	for _, d := range r.Devices {
		dev := &api.Device{ID: d.ID, Health: api.Healthy}
		if d.Unhealthy {
			dev.Health = api.Unhealthy
		}
		for _, id := range m.IDs(d.NUMAs) {
			if dev.Topology == nil {
				dev.Topology = &api.TopologyInfo{}
			}
			dev.Topology.Nodes = append(dev.Topology.Nodes, &api.NUMANode{ID: int64(id)})
		}
		out.Devices = append(out.Devices, dev)
	}
	return out
}

// plugin is the client's end of a device plugin that lives in this process: devices cost nothing and
// every allocation succeeds.
type plugin struct{ name string }

func (p plugin) API() api.DevicePluginClient { return p }
func (p plugin) Resource() string            { return p.name }
func (p plugin) SocketPath() string          { return "" }

func (p plugin) GetDevicePluginOptions(context.Context, *api.Empty, ...grpc.CallOption) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

func (p plugin) ListAndWatch(context.Context, *api.Empty, ...grpc.CallOption) (grpc.ServerStreamingClient[api.ListAndWatchResponse], error) {
	return nil, errors.New("devices in memory are announced directly")
}

func (p plugin) GetPreferredAllocation(context.Context, *api.PreferredAllocationRequest, ...grpc.CallOption) (*api.PreferredAllocationResponse, error) {
	return &api.PreferredAllocationResponse{}, nil
}

func (p plugin) Allocate(_ context.Context, r *api.AllocateRequest, _ ...grpc.CallOption) (*api.AllocateResponse, error) {
	return granted(r), nil
}

func (p plugin) PreStartContainer(context.Context, *api.PreStartContainerRequest, ...grpc.CallOption) (*api.PreStartContainerResponse, error) {
	return &api.PreStartContainerResponse{}, nil
}

// granted answers every container's request; the device manager refuses an answer with fewer.
func granted(r *api.AllocateRequest) *api.AllocateResponse {
	out := &api.AllocateResponse{}
	for range r.ContainerRequests {
		out.ContainerResponses = append(out.ContainerResponses, &api.ContainerAllocateResponse{})
	}
	return out
}

// server is a device plugin of its own: it serves the device plugin API on a socket.
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
	return granted(r), nil
}

// servePlugins serves a device plugin for every resource of the machine beside the kubelet's
// registration socket, and registers each there. They run until ctx ends.
func servePlugins(ctx context.Context, registration string, m *topo.Machine) error {
	conn, err := grpc.NewClient("unix://"+registration, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("dial kubelet registration: %w", err)
	}
	defer conn.Close()
	for i, r := range m.Resources() {
		endpoint := fmt.Sprintf("p%d.sock", i) // a resource's name is too long for a socket's path
		l, err := net.Listen("unix", filepath.Join(filepath.Dir(registration), endpoint))
		if err != nil {
			return fmt.Errorf("serve device plugin of %s: %w", r.Name, err)
		}
		g := grpc.NewServer()
		api.RegisterDevicePluginServer(g, &server{list: deviceList(m, r), stop: ctx.Done()})
		go g.Serve(l)
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
