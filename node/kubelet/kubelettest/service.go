// Package kubelettest serves the kubelet's podresources service from plain data, for tests.
//
// Invariant: it answers with the given data only, and does not behave like a kubelet: tests that need behaviour use a
// real one.
package kubelettest

import (
	"context"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// Service is the served data.
type Service struct {
	podresources.UnimplementedPodResourcesListerServer
	mu      sync.Mutex
	pods    []*podresources.PodResources
	devices []*podresources.ContainerDevices
}

// Serve starts a server at a unix socket; stop ends it and removes the socket.
func (s *Service) Serve(t testing.TB, socket string) (stop func()) {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	return s.ServeOn(t, l)
}

// ServeOn starts a server at a listener; stop ends both.
func (s *Service) ServeOn(t testing.TB, l net.Listener) (stop func()) {
	server := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(server, s)
	go func() { _ = server.Serve(l) }() // a test that needs an answer fails without one
	t.Cleanup(server.Stop)
	return server.Stop
}

// SetPods replaces the listed pods.
func (s *Service) SetPods(pods ...*podresources.PodResources) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods = pods
}

// SetDevices replaces the allocatable devices.
func (s *Service) SetDevices(devices ...*podresources.ContainerDevices) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.devices = devices
}

// List implements the service.
func (s *Service) List(context.Context, *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse,
	error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &podresources.ListPodResourcesResponse{PodResources: s.pods}, nil
}

// GetAllocatableResources implements the service.
func (s *Service) GetAllocatableResources(context.Context, *podresources.AllocatableResourcesRequest) (
	*podresources.AllocatableResourcesResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &podresources.AllocatableResourcesResponse{Devices: s.devices}, nil
}

// Pod makes a listed pod.
func Pod(namespace, name string, containers ...*podresources.ContainerResources) *podresources.PodResources {
	return &podresources.PodResources{Namespace: namespace, Name: name, Containers: containers}
}

// Device makes an entry for one device on one NUMA node; NUMA node -1 means no topology.
func Device(resource, id string, numa int64) *podresources.ContainerDevices {
	d := &podresources.ContainerDevices{ResourceName: resource, DeviceIds: []string{id}}
	if numa >= 0 {
		d.Topology = &podresources.TopologyInfo{Nodes: []*podresources.NUMANode{{ID: numa}}}
	}
	return d
}
