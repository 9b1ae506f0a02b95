package kubelet

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/tenon-numa/tenon/lab/plugins"
)

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
	return plugins.Grant(r), nil
}

func (p plugin) PreStartContainer(context.Context, *api.PreStartContainerRequest, ...grpc.CallOption) (*api.PreStartContainerResponse, error) {
	return &api.PreStartContainerResponse{}, nil
}
