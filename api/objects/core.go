package objects

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// Core has clients for the API server's core group.
type Core struct {
	Nodes  *Client[*v1.Node, *v1.NodeList]
	Pods   *Client[*v1.Pod, *v1.PodList]
	Events *Client[*v1.Event, *v1.EventList]

	Namespaces *Client[*v1.Namespace, *v1.NamespaceList]
	Claims     *Client[*v1.PersistentVolumeClaim, *v1.PersistentVolumeClaimList]
	Volumes    *Client[*v1.PersistentVolume, *v1.PersistentVolumeList]
}

// NewCore returns the core group of the server in cfg. Its clients send protobuf and prefer it in answers, because it
// is cheaper than JSON for both sides; they accept JSON, too.
func NewCore(cfg *rest.Config) (*Core, error) {
	g, err := NewGroup(PreferProtobuf(cfg), v1.SchemeGroupVersion, v1.AddToScheme)
	if err != nil {
		return nil, err
	}
	return &Core{
		Nodes: NewClient(g, "nodes", func() *v1.Node { return &v1.Node{} }, func() *v1.NodeList { return &v1.NodeList{} }),
		Pods:  NewClient(g, "pods", func() *v1.Pod { return &v1.Pod{} }, func() *v1.PodList { return &v1.PodList{} }),
		Events: NewClient(g, "events", func() *v1.Event { return &v1.Event{} },
			func() *v1.EventList { return &v1.EventList{} }),
		Namespaces: NewClient(g, "namespaces", func() *v1.Namespace { return &v1.Namespace{} },
			func() *v1.NamespaceList { return &v1.NamespaceList{} }),
		Claims: NewClient(g, "persistentvolumeclaims", func() *v1.PersistentVolumeClaim {
			return &v1.PersistentVolumeClaim{}
		}, func() *v1.PersistentVolumeClaimList { return &v1.PersistentVolumeClaimList{} }),
		Volumes: NewClient(g, "persistentvolumes", func() *v1.PersistentVolume { return &v1.PersistentVolume{} },
			func() *v1.PersistentVolumeList { return &v1.PersistentVolumeList{} }),
	}, nil
}

// PreferProtobuf returns a copy of a configuration whose clients send protobuf, and prefer it in answers to JSON.
func PreferProtobuf(cfg *rest.Config) *rest.Config {
	c := rest.CopyConfig(cfg)
	c.ContentType = runtime.ContentTypeProtobuf
	c.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return c
}
