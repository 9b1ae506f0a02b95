package objects

import (
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
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

// Storage has clients for the API server's storage group.
type Storage struct {
	Classes     *Client[*storagev1.StorageClass, *storagev1.StorageClassList]
	Drivers     *Client[*storagev1.CSIDriver, *storagev1.CSIDriverList]
	Nodes       *Client[*storagev1.CSINode, *storagev1.CSINodeList]
	Attachments *Client[*storagev1.VolumeAttachment, *storagev1.VolumeAttachmentList]
	Capacities  *Client[*storagev1.CSIStorageCapacity, *storagev1.CSIStorageCapacityList]
}

// NewCore returns the core group of the server in cfg. Its clients send protobuf and prefer it in answers, because it
// is cheaper than JSON for both sides; they accept JSON, too.
func NewCore(cfg *rest.Config) (*Core, error) {
	g, err := NewGroup(protobuf(cfg), v1.SchemeGroupVersion, v1.AddToScheme)
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

// NewStorage returns the storage group of the server in cfg, like [NewCore].
func NewStorage(cfg *rest.Config) (*Storage, error) {
	g, err := NewGroup(protobuf(cfg), storagev1.SchemeGroupVersion, storagev1.AddToScheme)
	if err != nil {
		return nil, err
	}
	return &Storage{
		Classes: NewClient(g, "storageclasses", func() *storagev1.StorageClass { return &storagev1.StorageClass{} },
			func() *storagev1.StorageClassList { return &storagev1.StorageClassList{} }),
		Drivers: NewClient(g, "csidrivers", func() *storagev1.CSIDriver { return &storagev1.CSIDriver{} },
			func() *storagev1.CSIDriverList { return &storagev1.CSIDriverList{} }),
		Nodes: NewClient(g, "csinodes", func() *storagev1.CSINode { return &storagev1.CSINode{} },
			func() *storagev1.CSINodeList { return &storagev1.CSINodeList{} }),
		Attachments: NewClient(g, "volumeattachments", func() *storagev1.VolumeAttachment {
			return &storagev1.VolumeAttachment{}
		}, func() *storagev1.VolumeAttachmentList { return &storagev1.VolumeAttachmentList{} }),
		Capacities: NewClient(g, "csistoragecapacities", func() *storagev1.CSIStorageCapacity {
			return &storagev1.CSIStorageCapacity{}
		}, func() *storagev1.CSIStorageCapacityList { return &storagev1.CSIStorageCapacityList{} }),
	}, nil
}

func protobuf(cfg *rest.Config) *rest.Config {
	c := rest.CopyConfig(cfg)
	c.ContentType = runtime.ContentTypeProtobuf
	c.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return c
}

// Devices has clients for the API server's group of dynamic resource allocation.
type Devices struct {
	Classes *Client[*resourcev1.DeviceClass, *resourcev1.DeviceClassList]
	Slices  *Client[*resourcev1.ResourceSlice, *resourcev1.ResourceSliceList]
	Claims  *Client[*resourcev1.ResourceClaim, *resourcev1.ResourceClaimList]

	Templates *Client[*resourcev1.ResourceClaimTemplate, *resourcev1.ResourceClaimTemplateList]
}

// NewDevices returns the group of dynamic resource allocation of the server in cfg, like [NewCore].
func NewDevices(cfg *rest.Config) (*Devices, error) {
	g, err := NewGroup(protobuf(cfg), resourcev1.SchemeGroupVersion, resourcev1.AddToScheme)
	if err != nil {
		return nil, err
	}
	return &Devices{
		Classes: NewClient(g, "deviceclasses", func() *resourcev1.DeviceClass { return &resourcev1.DeviceClass{} },
			func() *resourcev1.DeviceClassList { return &resourcev1.DeviceClassList{} }),
		Slices: NewClient(g, "resourceslices", func() *resourcev1.ResourceSlice { return &resourcev1.ResourceSlice{} },
			func() *resourcev1.ResourceSliceList { return &resourcev1.ResourceSliceList{} }),
		Claims: NewClient(g, "resourceclaims", func() *resourcev1.ResourceClaim { return &resourcev1.ResourceClaim{} },
			func() *resourcev1.ResourceClaimList { return &resourcev1.ResourceClaimList{} }),
		Templates: NewClient(g, "resourceclaimtemplates", func() *resourcev1.ResourceClaimTemplate {
			return &resourcev1.ResourceClaimTemplate{}
		}, func() *resourcev1.ResourceClaimTemplateList { return &resourcev1.ResourceClaimTemplateList{} }),
	}, nil
}
