package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"google.golang.org/grpc"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// plugin takes the place of a device plugin and of the kubelet's client for it: the device manager calls it in this
// process. Every allocation succeeds.
type plugin struct {
	name string                             // of the resource
	ask  func(question) (preference, error) // nil if the plugin has no preferences
}

// sockets counts the calls of SocketPath, which therefore returns a new path each time. The device manager calls it
// once for a plugin that connects. From 1.37 on, it refuses a second plugin of a resource with the same path.
var sockets atomic.Int64

func (p plugin) API() api.DevicePluginClient { return p }
func (p plugin) Resource() string            { return p.name }
func (p plugin) SocketPath() string          { return fmt.Sprintf("/plugins/%d", sockets.Add(1)) }

func (p plugin) GetDevicePluginOptions(context.Context, *api.Empty,
	...grpc.CallOption) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{GetPreferredAllocationAvailable: p.ask != nil}, nil
}

func (p plugin) ListAndWatch(context.Context, *api.Empty,
	...grpc.CallOption) (api.DevicePlugin_ListAndWatchClient, error) {
	return nil, errors.New("devices in memory are announced directly")
}

func (p plugin) GetPreferredAllocation(_ context.Context, r *api.PreferredAllocationRequest,
	_ ...grpc.CallOption) (*api.PreferredAllocationResponse, error) {
	out := &api.PreferredAllocationResponse{}
	for _, c := range r.ContainerRequests {
		got, err := p.ask(question{p.name, c.AvailableDeviceIDs, c.MustIncludeDeviceIDs, int(c.AllocationSize)})
		if err != nil {
			return nil, err
		} else if got.Error != "" {
			return nil, errors.New(got.Error)
		}
		out.ContainerResponses = append(out.ContainerResponses,
			&api.ContainerPreferredAllocationResponse{DeviceIDs: got.IDs})
	}
	return out, nil
}

func (p plugin) Allocate(_ context.Context, r *api.AllocateRequest,
	_ ...grpc.CallOption) (*api.AllocateResponse, error) {
	out := &api.AllocateResponse{}
	for range r.ContainerRequests {
		out.ContainerResponses = append(out.ContainerResponses, &api.ContainerAllocateResponse{})
	}
	return out, nil
}

func (p plugin) PreStartContainer(context.Context, *api.PreStartContainerRequest,
	...grpc.CallOption) (*api.PreStartContainerResponse, error) {
	return &api.PreStartContainerResponse{}, nil
}

// announcement returns the message with which a plugin announces its devices. A device without NUMA nodes has no
// topology at all.
func announcement(list []device) *api.ListAndWatchResponse {
	out := &api.ListAndWatchResponse{}
	for _, d := range list {
		dev := &api.Device{ID: d.ID, Health: api.Healthy}
		if d.Unhealthy {
			dev.Health = api.Unhealthy
		}
		for _, id := range d.NUMAs {
			if dev.Topology == nil {
				dev.Topology = &api.TopologyInfo{}
			}
			dev.Topology.Nodes = append(dev.Topology.Nodes, &api.NUMANode{ID: id})
		}
		out.Devices = append(out.Devices, dev)
	}
	return out
}
