package stage

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/place"
)

// This file judges claims of volumes, like kube-scheduler's plugins VolumeBinding, VolumeZone, VolumeRestrictions and
// NodeVolumeLimits. Linking the plugins would link most of kube-scheduler; a test compares the results (lab/scheduler).

// storage has the volume objects of a cluster by name.
type storage struct {
	claims  map[types.NamespacedName]*v1.PersistentVolumeClaim
	volumes map[string]*v1.PersistentVolume
	byClass map[string][]*v1.PersistentVolume
	classes map[string]*storagev1.StorageClass
	// sized is true for the drivers that report storage capacities.
	sized map[string]bool
	// capacities are what these drivers report, by storage class; nil if unknown.
	capacities map[string][]capacity
	// limits has how many volumes a node may attach, by node and driver.
	limits map[string]map[string]int
	// attached has the volumes that each node has attached.
	attached map[string]attachments
}

// attachments has the driver of each volume. Its keys identify volumes by driver and handle, or by provisioner and
// claim while the claim is not bound.
type attachments map[string]string

// newStorage indexes volume objects. It returns nil if these were not read.
func newStorage(in *kube.Storage) *storage {
	if in == nil {
		return nil
	}
	s := &storage{claims: map[types.NamespacedName]*v1.PersistentVolumeClaim{},
		volumes: map[string]*v1.PersistentVolume{}, byClass: map[string][]*v1.PersistentVolume{},
		classes: map[string]*storagev1.StorageClass{}, sized: map[string]bool{}, limits: map[string]map[string]int{},
		attached: map[string]attachments{}}
	for i := range in.Claims {
		s.claims[types.NamespacedName{Namespace: in.Claims[i].Namespace, Name: in.Claims[i].Name}] = &in.Claims[i]
	}
	for i := range in.Volumes {
		pv := &in.Volumes[i]
		class := classOfVolume(pv)
		s.volumes[pv.Name], s.byClass[class] = pv, append(s.byClass[class], pv)
	}
	for i := range in.Classes {
		s.classes[in.Classes[i].Name] = &in.Classes[i]
	}
	for i := range in.Drivers {
		capacity := in.Drivers[i].Spec.StorageCapacity
		s.sized[in.Drivers[i].Name] = capacity != nil && *capacity
	}
	s.capacities = byStorageClass(in.Capacities)
	for i := range in.Nodes {
		limits := map[string]int{}
		for _, d := range in.Nodes[i].Spec.Drivers {
			if d.Allocatable != nil && d.Allocatable.Count != nil {
				limits[d.Name] = int(*d.Allocatable.Count)
			}
		}
		s.limits[in.Nodes[i].Name] = limits
	}
	for i := range in.Attachments {
		s.attach(&in.Attachments[i].Spec)
	}
	return s
}

// attach records that a node has attached a volume.
func (s *storage) attach(a *storagev1.VolumeAttachmentSpec) {
	if a.Attacher == "" || a.Source.PersistentVolumeName == nil {
		return
	}
	pv := s.volumes[*a.Source.PersistentVolumeName]
	if pv == nil || pv.Spec.CSI == nil {
		return
	}
	if s.attached[a.NodeName] == nil {
		s.attached[a.NodeName] = attachments{}
	}
	s.attached[a.NodeName][a.Attacher+"/"+pv.Spec.CSI.VolumeHandle] = a.Attacher
}

// mounts are the claims of a pod, sorted by how they restrict its nodes.
type mounts struct {
	// why has the reasons that bar the pod from every node.
	why []place.Reason
	// bound are claims with their volumes. loose are claims that get a volume only when their first pod is placed
	// (WaitForFirstConsumer).
	bound []mount
	loose []*v1.PersistentVolumeClaim
	// unjudged names the parts of the claims that are not judged.
	unjudged []string
}

type mount struct {
	claim  *v1.PersistentVolumeClaim
	volume *v1.PersistentVolume
}

// mounts reads the claims of a pod. The claims of a pod of the cluster must exist; claims of other pods may be created
// with the pod.
func (s *storage) mounts(p *v1.Pod) (out mounts) {
	if s == nil {
		if volumes(&p.Spec) {
			out.unjudged = []string{"volumes"}
		}
		return out
	}
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		name := claimName(p, v)
		if name == "" {
			continue
		}
		claim := s.claims[types.NamespacedName{Namespace: p.Namespace, Name: name}]
		refuse := func(why string) {
			out.why = append(out.why, place.Reason{Code: place.BadClaim, Resource: name, With: why})
		}
		switch {
		case claim == nil && p.UID == "":
			out.unjudged = append(out.unjudged, "claim "+name+", which is not there yet")
		case claim == nil && v.Ephemeral != nil:
			refuse("is not there yet: the kube-controller-manager creates it")
		case claim == nil:
			refuse("is not there")
		case claim.Status.Phase == v1.ClaimLost:
			refuse("has lost its volume " + claim.Spec.VolumeName)
		case claim.DeletionTimestamp != nil:
			refuse("is being deleted")
		case v.Ephemeral != nil && p.UID != "" && !metav1.IsControlledBy(claim, p):
			refuse("was not created for the pod")
		default:
			s.sortClaim(claim, &out, refuse)
		}
	}
	return out
}

// claimName returns the name of the claim of a volume, or "".
func claimName(p *v1.Pod, v *v1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return p.Name + "-" + v.Name
	}
	return ""
}

// sortClaim adds an existing claim to out, as bound or loose. If kube-scheduler would refuse the claim on every node,
// sortClaim calls refuse with the reason instead.
func (s *storage) sortClaim(c *v1.PersistentVolumeClaim, out *mounts, refuse func(string)) {
	if c.Spec.VolumeName != "" && metav1.HasAnnotation(c.ObjectMeta, bindCompleted) {
		pv := s.volumes[c.Spec.VolumeName]
		if pv == nil {
			refuse("is bound to volume " + c.Spec.VolumeName + ", which is not there")
			return
		}
		if pv.Spec.CSI == nil && inTree(&pv.Spec.PersistentVolumeSource) {
			out.unjudged = append(out.unjudged, "volume "+pv.Name+" of an old kind")
		}
		out.bound = append(out.bound, mount{c, pv})
		return
	}
	name := classOf(c)
	class := s.classes[name]
	switch {
	case name != "" && class == nil:
		refuse("has the storage class " + name + ", which is not there")
	case class != nil && class.VolumeBindingMode == nil:
		refuse("has the storage class " + name + " without a volumeBindingMode")
	case class == nil || c.Spec.VolumeName != "" ||
		*class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer:
		refuse("is not bound to a volume")
	default:
		out.loose = append(out.loose, c)
		if s.sized[class.Provisioner] && s.capacities == nil {
			out.unjudged = append(out.unjudged, "storage capacity for claim "+c.Name)
		}
	}
}

// inTree reports whether a volume is of a kind that kube-scheduler translates to a CSI volume (CSI migration).
func inTree(v *v1.PersistentVolumeSource) bool {
	return v.AWSElasticBlockStore != nil || v.GCEPersistentDisk != nil || v.AzureDisk != nil || v.AzureFile != nil ||
		v.Cinder != nil || v.VsphereVolume != nil || v.PortworxVolume != nil
}

// bar returns why a pod's claims exclude a node. Claims without a volume are judged by the volumes that they could
// get on this node, the smallest claim first.
func (s *storage) bar(m *mounts, n *v1.Node) (out []place.Reason, err error) {
	out = slices.Clone(m.why)
	for _, x := range m.bound {
		if !reaches(x.volume, n) || !inZone(x.volume, n) {
			out = append(out, place.Reason{Code: place.VolumeElsewhere, Resource: x.claim.Name, With: "volume " + x.volume.Name})
		}
	}
	all := slices.Clone(m.loose)
	slices.SortStableFunc(all, func(a, b *v1.PersistentVolumeClaim) int {
		x, y := a.Spec.Resources.Requests[v1.ResourceStorage], b.Spec.Resources.Requests[v1.ResourceStorage]
		return x.Cmp(y)
	})
	chosen := map[string]bool{}
	for _, c := range all {
		class := s.classes[classOf(c)]
		if on := c.Annotations[selectedNode]; on != "" {
			if on != n.Name {
				out = append(out, place.Reason{Code: place.VolumeElsewhere, Resource: c.Name, With: "node " + on})
				continue
			}
		} else if pv, err := volumeFor(c, s.byClass[class.Name], n, chosen); err != nil {
			return nil, fmt.Errorf("find a volume for claim %s: %w", c.Name, err)
		} else if pv != nil {
			chosen[pv.Name] = true
			continue
		}
		if !provisions(class, n) {
			out = append(out, place.Reason{Code: place.NoVolume, Resource: c.Name, With: class.Name})
		} else if r, ok := s.tooSmall(c, class, n); ok {
			out = append(out, r)
		}
	}
	return out, nil
}

// provisions reports whether the provisioner of a storage class makes volumes for a node, by the class's
// allowedTopologies.
func provisions(c *storagev1.StorageClass, n *v1.Node) bool {
	if c.Provisioner == "" || c.Provisioner == noProvisioner {
		return false
	}
	differs := func(x v1.TopologySelectorLabelRequirement) bool {
		value, ok := n.Labels[x.Key]
		return !ok || !slices.Contains(x.Values, value)
	}
	allows := func(t v1.TopologySelectorTerm) bool {
		return len(t.MatchLabelExpressions) > 0 && !slices.ContainsFunc(t.MatchLabelExpressions, differs)
	}
	return len(c.AllowedTopologies) == 0 || slices.ContainsFunc(c.AllowedTopologies, allows)
}

// zones has the labels that tie a volume to nodes. The value is the label that a node may have in place of the key.
var zones = map[string]string{
	v1.LabelFailureDomainBetaZone: v1.LabelTopologyZone, v1.LabelFailureDomainBetaRegion: v1.LabelTopologyRegion,
	v1.LabelTopologyZone: v1.LabelTopologyZone, v1.LabelTopologyRegion: v1.LabelTopologyRegion,
}

// inZone reports whether a node is in the zone of a volume's labels. A node without zone labels is in every zone.
func inZone(pv *v1.PersistentVolume, n *v1.Node) bool {
	zoned := false
	for key := range zones {
		_, has := n.Labels[key]
		zoned = zoned || has
	}
	for key, other := range zones {
		want, ok := pv.Labels[key]
		values := strings.Split(want, "__")
		if !zoned || !ok || slices.Contains(values, "") {
			continue
		}
		has, labelled := n.Labels[key]
		if !labelled {
			has, labelled = n.Labels[other]
		}
		if !labelled || !slices.Contains(values, has) {
			return false
		}
	}
	return true
}

// attaching returns the volumes of a pod that count when kube-scheduler limits how many volumes a node attaches.
func (s *storage) attaching(p *v1.Pod) attachments {
	if s == nil {
		return nil
	}
	out := attachments{}
	for i := range p.Spec.Volumes {
		name := claimName(p, &p.Spec.Volumes[i])
		if c := s.claims[types.NamespacedName{Namespace: p.Namespace, Name: name}]; name != "" && c != nil {
			if pv := s.volumes[c.Spec.VolumeName]; pv == nil {
				if class := s.classes[classOf(c)]; class != nil {
					out[class.Provisioner+"/claim "+p.Namespace+"/"+name] = class.Provisioner
				}
			} else if csi := pv.Spec.CSI; csi != nil {
				out[csi.Driver+"/"+csi.VolumeHandle] = csi.Driver
			}
		}
	}
	return out
}

// exclusive returns the names of a pod's claims that only one pod of the cluster may use at a time
// (ReadWriteOncePod).
func (s *storage) exclusive(p *v1.Pod) (out []string) {
	if s == nil {
		return nil
	}
	for _, name := range claimNames(p) {
		c := s.claims[types.NamespacedName{Namespace: p.Namespace, Name: name}]
		if c != nil && slices.Contains(c.Spec.AccessModes, v1.ReadWriteOncePod) {
			out = append(out, name)
		}
	}
	return out
}

// claimNames returns the claims that a pod names itself.
func claimNames(p *v1.Pod) (out []string) {
	for i := range p.Spec.Volumes {
		if v := p.Spec.Volumes[i].PersistentVolumeClaim; v != nil {
			out = append(out, v.ClaimName)
		}
	}
	return out
}

// recordUse records which exclusive claims another pod uses, and which volumes that pod attaches to a node.
func (n *neighbours) recordUse(p *v1.Pod, node int) {
	if p.Namespace == n.pod.Namespace {
		for _, name := range claimNames(p) {
			by := p.Namespace + "/" + p.Name
			if slices.Contains(n.exclusive, name) && (n.users[name] == "" || by < n.users[name]) {
				n.users[name] = by
			}
		}
	}
	if len(n.attaches) == 0 {
		return
	}
	if n.attached[node] == nil {
		n.attached[node] = attachments{}
	}
	maps.Copy(n.attached[node], n.stage.storage.attaching(p))
}

// byVolumes returns why a node is excluded by a claim that another pod uses exclusively, or by the number of volumes
// that the node may attach.
func (n *neighbours) byVolumes(node int) (out []place.Reason) {
	for _, name := range n.exclusive {
		if by := n.users[name]; by != "" {
			out = append(out, place.Reason{Code: place.ClaimInUse, Resource: name, With: by})
		}
	}
	if len(n.attaches) == 0 {
		return out
	}
	limits := n.stage.storage.limits[n.nodes[node].Name]
	// As in kube-scheduler, a volume of the pod that another pod on the node uses, too, counts once. A volume of the
	// pod that is attached without such a pod counts twice.
	usedByPods := n.attached[node]
	all := maps.Clone(n.stage.storage.attached[n.nodes[node].Name])
	if all == nil {
		all = attachments{}
	}
	maps.Copy(all, usedByPods)
	for _, driver := range slices.Sorted(maps.Keys(limits)) {
		have, more := 0, 0
		for _, d := range all {
			have += oneIf(d == driver)
		}
		for unique, d := range n.attaches {
			_, shared := usedByPods[unique]
			more += oneIf(d == driver && !shared)
		}
		if more == 0 || have+more <= limits[driver] {
			continue
		}
		r := place.Reason{Code: place.VolumeLimit, Resource: driver, Want: int64(more), Never: more > limits[driver]}
		if r.Have = int64(limits[driver]); !r.Never {
			r.Have = int64(max(0, limits[driver]-have))
		}
		out = append(out, r)
	}
	return slices.Compact(out)
}

func oneIf(b bool) int {
	if b {
		return 1
	}
	return 0
}

// disks names the first kind of volumes in the pod's own spec for which kube-scheduler has rules about sharing; "" if
// the pod has no such volume.
func disks(p *v1.PodSpec) string {
	for i := range p.Volumes {
		v := &p.Volumes[i].VolumeSource
		for _, x := range []struct {
			present bool
			kind    string
		}{{v.GCEPersistentDisk != nil, "gcePersistentDisk"}, {v.AWSElasticBlockStore != nil, "awsElasticBlockStore"},
			{v.ISCSI != nil, "iscsi"}, {v.RBD != nil, "rbd"}} {
			if x.present {
				return x.kind + " volumes"
			}
		}
	}
	return ""
}

// decodeStorage adds one object of a storage kind.
func decodeStorage(s *kube.Storage, kind string, text []byte) error {
	switch kind {
	case "PersistentVolumeClaim":
		return decodeInto(&s.Claims, text)
	case "PersistentVolume":
		return decodeInto(&s.Volumes, text)
	case "StorageClass":
		return decodeInto(&s.Classes, text)
	case "CSIDriver":
		return decodeInto(&s.Drivers, text)
	case "CSINode":
		return decodeInto(&s.Nodes, text)
	case "CSIStorageCapacity":
		return decodeInto(&s.Capacities, text)
	}
	return decodeInto(&s.Attachments, text)
}

func decodeInto[T any](all *[]T, text []byte) error {
	var x T
	err := json.Unmarshal(text, &x)
	*all = append(*all, x)
	return err
}
