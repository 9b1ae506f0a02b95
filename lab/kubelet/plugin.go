package kubelet

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"google.golang.org/grpc"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/tenon-numa/tenon/lab/plugins"
)

// plugin takes the place of a device plugin and of the kubelet's client for it: the device manager calls it in this
// process. Every allocation succeeds.
type plugin struct {
	name string // of the resource
	// prefer answers GetPreferredAllocation; nil if the plugin has no preferences.
	prefer func(available, include []string, size int) ([]string, error)
}

// sockets counts the calls of SocketPath, which therefore returns a new path each time. From 1.37 on, the device
// manager refuses a second plugin of a resource with the same path.
var sockets atomic.Int64

func (p plugin) API() api.DevicePluginClient { return p }
func (p plugin) Resource() string            { return p.name }
func (p plugin) SocketPath() string          { return fmt.Sprintf("/plugins/%d", sockets.Add(1)) }

func (p plugin) GetDevicePluginOptions(context.Context, *api.Empty,
	...grpc.CallOption) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{GetPreferredAllocationAvailable: p.prefer != nil}, nil
}

func (p plugin) ListAndWatch(context.Context, *api.Empty,
	...grpc.CallOption) (grpc.ServerStreamingClient[api.ListAndWatchResponse], error) {
	return nil, errors.New("devices in memory are announced directly")
}

func (p plugin) GetPreferredAllocation(_ context.Context, r *api.PreferredAllocationRequest,
	_ ...grpc.CallOption) (*api.PreferredAllocationResponse, error) {
	out := &api.PreferredAllocationResponse{}
	for _, c := range r.ContainerRequests {
		ids, err := p.prefer(c.AvailableDeviceIDs, c.MustIncludeDeviceIDs, int(c.AllocationSize))
		if err != nil {
			return nil, err
		}
		out.ContainerResponses = append(out.ContainerResponses, &api.ContainerPreferredAllocationResponse{DeviceIDs: ids})
	}
	return out, nil
}

func (p plugin) Allocate(_ context.Context, r *api.AllocateRequest,
	_ ...grpc.CallOption) (*api.AllocateResponse, error) {
	return plugins.Grant(r), nil
}

func (p plugin) PreStartContainer(context.Context, *api.PreStartContainerRequest,
	...grpc.CallOption) (*api.PreStartContainerResponse, error) {
	return &api.PreStartContainerResponse{}, nil
}
