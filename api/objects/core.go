package objects

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// Core is what programs read of the API server's core group.
type Core struct {
	Nodes  *Client[*v1.Node, *v1.NodeList]
	Pods   *Client[*v1.Pod, *v1.PodList]
	Events *Client[*v1.Event, *v1.EventList]
}

// NewCore returns the core group of the server that cfg names. It asks for protobuf, which costs both
// sides less than JSON, and takes JSON too.
func NewCore(cfg *rest.Config) (*Core, error) {
	c := rest.CopyConfig(cfg)
	c.ContentType = runtime.ContentTypeProtobuf
	c.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	g, err := NewGroup(c, v1.SchemeGroupVersion, v1.AddToScheme)
	if err != nil {
		return nil, err
	}
	return &Core{
		Nodes: NewClient(g, "nodes", func() *v1.Node { return &v1.Node{} }, func() *v1.NodeList { return &v1.NodeList{} }),
		Pods:  NewClient(g, "pods", func() *v1.Pod { return &v1.Pod{} }, func() *v1.PodList { return &v1.PodList{} }),
		Events: NewClient(g, "events", func() *v1.Event { return &v1.Event{} },
			func() *v1.EventList { return &v1.EventList{} }),
	}, nil
}
