package stage

import (
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tenon-numa/tenon/core/place"
)

// This file judges storage capacity, as kube-scheduler's plugin VolumeBinding does: if a driver reports capacities, a
// volume can be made for a node only if a report for its storage class allows that size there.

// capacity is one report of a driver: on the nodes that match, a volume may have up to largest bytes.
type capacity struct {
	nodes   labels.Selector
	largest int64
}

// byStorageClass returns the reports of drivers by storage class, without those that lack an amount or a selector of
// nodes. It returns nil for a nil list, which means that the reports are unknown.
func byStorageClass(all []storagev1.CSIStorageCapacity) map[string][]capacity {
	if all == nil {
		return nil
	}
	out := map[string][]capacity{}
	for i := range all {
		c := &all[i]
		largest := c.MaximumVolumeSize
		if largest == nil {
			largest = c.Capacity
		}
		if largest == nil || c.NodeTopology == nil {
			continue
		}
		nodes, err := metav1.LabelSelectorAsSelector(c.NodeTopology)
		if err != nil {
			continue // kube-scheduler ignores such a report, too
		}
		out[c.StorageClassName] = append(out[c.StorageClassName], capacity{nodes, largest.Value()})
	}
	return out
}

// tooSmall returns the reason if, by the driver's reports, no volume as large as the claim can be made for the node.
// ok is false if one can, or if nothing shows that it cannot: the claim has no size, the driver does not report
// capacities, or the reports are unknown.
func (s *storage) tooSmall(c *v1.PersistentVolumeClaim, class *storagev1.StorageClass,
	n *v1.Node) (r place.Reason, ok bool) {
	size, asked := c.Spec.Resources.Requests[v1.ResourceStorage]
	if !asked || !s.sized[class.Provisioner] || s.capacities == nil {
		return r, false
	}
	possible, reported := int64(0), false
	for _, x := range s.capacities[class.Name] {
		if x.nodes.Matches(labels.Set(n.Labels)) {
			possible, reported = max(possible, x.largest), true
		}
	}
	if want := size.Value(); !reported || want > possible {
		return place.Reason{Code: place.SmallVolumes, Resource: c.Name, With: class.Name, Want: want, Have: possible}, true
	}
	return r, false
}
