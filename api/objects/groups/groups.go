// Package groups has clients for the API server's groups of storage and devices. Agents read neither, so package
// objects does without: what links the types of a group keeps all of them in memory. Invariant and refusals are those
// of package objects.
package groups

import (
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/objects"
)

// Storage has clients for the API server's storage group.
type Storage struct {
	Classes     *objects.Client[*storagev1.StorageClass, *storagev1.StorageClassList]
	Drivers     *objects.Client[*storagev1.CSIDriver, *storagev1.CSIDriverList]
	Nodes       *objects.Client[*storagev1.CSINode, *storagev1.CSINodeList]
	Attachments *objects.Client[*storagev1.VolumeAttachment, *storagev1.VolumeAttachmentList]
	Capacities  *objects.Client[*storagev1.CSIStorageCapacity, *storagev1.CSIStorageCapacityList]
}

// NewStorage returns the storage group of the server in cfg, like [objects.NewCore].
func NewStorage(cfg *rest.Config) (*Storage, error) {
	g, err := objects.NewGroup(objects.PreferProtobuf(cfg), storagev1.SchemeGroupVersion, storagev1.AddToScheme)
	if err != nil {
		return nil, err
	}
	return &Storage{
		Classes: objects.NewClient(g, "storageclasses", func() *storagev1.StorageClass { return &storagev1.StorageClass{} },
			func() *storagev1.StorageClassList { return &storagev1.StorageClassList{} }),
		Drivers: objects.NewClient(g, "csidrivers", func() *storagev1.CSIDriver { return &storagev1.CSIDriver{} },
			func() *storagev1.CSIDriverList { return &storagev1.CSIDriverList{} }),
		Nodes: objects.NewClient(g, "csinodes", func() *storagev1.CSINode { return &storagev1.CSINode{} },
			func() *storagev1.CSINodeList { return &storagev1.CSINodeList{} }),
		Attachments: objects.NewClient(g, "volumeattachments", func() *storagev1.VolumeAttachment {
			return &storagev1.VolumeAttachment{}
		}, func() *storagev1.VolumeAttachmentList { return &storagev1.VolumeAttachmentList{} }),
		Capacities: objects.NewClient(g, "csistoragecapacities", func() *storagev1.CSIStorageCapacity {
			return &storagev1.CSIStorageCapacity{}
		}, func() *storagev1.CSIStorageCapacityList { return &storagev1.CSIStorageCapacityList{} }),
	}, nil
}

// Devices has clients for the API server's group of dynamic resource allocation.
type Devices struct {
	Classes *objects.Client[*resourcev1.DeviceClass, *resourcev1.DeviceClassList]
	Slices  *objects.Client[*resourcev1.ResourceSlice, *resourcev1.ResourceSliceList]
	Claims  *objects.Client[*resourcev1.ResourceClaim, *resourcev1.ResourceClaimList]

	Templates *objects.Client[*resourcev1.ResourceClaimTemplate, *resourcev1.ResourceClaimTemplateList]
}

// NewDevices returns the group of dynamic resource allocation of the server in cfg, like [objects.NewCore].
func NewDevices(cfg *rest.Config) (*Devices, error) {
	g, err := objects.NewGroup(objects.PreferProtobuf(cfg), resourcev1.SchemeGroupVersion, resourcev1.AddToScheme)
	if err != nil {
		return nil, err
	}
	return &Devices{
		Classes: objects.NewClient(g, "deviceclasses", func() *resourcev1.DeviceClass { return &resourcev1.DeviceClass{} },
			func() *resourcev1.DeviceClassList { return &resourcev1.DeviceClassList{} }),
		Slices: objects.NewClient(g, "resourceslices", func() *resourcev1.ResourceSlice {
			return &resourcev1.ResourceSlice{}
		}, func() *resourcev1.ResourceSliceList { return &resourcev1.ResourceSliceList{} }),
		Claims: objects.NewClient(g, "resourceclaims", func() *resourcev1.ResourceClaim {
			return &resourcev1.ResourceClaim{}
		}, func() *resourcev1.ResourceClaimList { return &resourcev1.ResourceClaimList{} }),
		Templates: objects.NewClient(g, "resourceclaimtemplates", func() *resourcev1.ResourceClaimTemplate {
			return &resourcev1.ResourceClaimTemplate{}
		}, func() *resourcev1.ResourceClaimTemplateList { return &resourcev1.ResourceClaimTemplateList{} }),
	}, nil
}
