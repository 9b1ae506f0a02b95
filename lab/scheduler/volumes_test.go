//go:build !upto1.34

package scheduler_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	tf "k8s.io/kubernetes/pkg/scheduler/testing/framework"
	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/cluster/stage"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// The nodes that volumes leave open to a pod are the same as in kube-scheduler's plugins.
func TestVolumesAgreeWithKubeScheduler(t *testing.T) {
	metrics.Register()
	rapid.Check(t, func(rt *rapid.T) {
		nodes := drawNodes(rt)
		for i := range nodes {
			nodes[i].Spec.Taints = nil
			if zone := nodes[i].Labels["zone"]; zone != "" && rapid.Bool().Draw(rt, "well-known") {
				nodes[i].Labels[v1.LabelTopologyZone] = zone
			}
		}
		objects := drawStorage(rt, nodes)
		var pods []v1.Pod
		for i := range rapid.IntRange(0, 5).Draw(rt, "pods") {
			pods = append(pods, *drawMounting(rt, fmt.Sprint("p", i), rapid.SampledFrom(nodes).Draw(rt, "on").Name))
		}
		pod := drawMounting(rt, "new", "")
		said := volumePlugins(t, rt, nodes, pods, objects, pod)
		barred := barredByVolumes(rt, nodes, pods, objects, pod)
		for i := range nodes {
			if (said[i] == "") != (len(barred[i]) == 0) {
				rt.Fatalf("node %s: kube-scheduler says %q, here it is %v", nodes[i].Name, said[i], barred[i])
			}
		}
	})
}

// barredByVolumes returns this project's result for each node.
func barredByVolumes(t *rapid.T, nodes []v1.Node, pods []v1.Pod, objects []runtime.Object, pod *v1.Pod) [][]string {
	items := []any{}
	for i := range nodes {
		items = append(items, nodes[i])
	}
	for i := range pods {
		items = append(items, pods[i])
	}
	for _, o := range objects {
		items = append(items, o)
	}
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := stage.Export(text)
	if err != nil {
		t.Fatal(err)
	}
	w, err := s.Existing(pod)
	if err != nil || len(w.Unjudged) > 0 {
		t.Fatalf("%v: %v", err, w)
	}
	var out [][]string
	for _, all := range w.Want.Barred(s.Nodes()) {
		var texts []string
		for _, r := range all {
			if r.Remedy() == "" {
				t.Fatalf("no remedy for %q", r.Text())
			}
			texts = append(texts, r.Text())
		}
		out = append(out, texts)
	}
	return out
}

// volumePlugins returns the result of kube-scheduler's plugins for each node, "" if they accept the pod.
func volumePlugins(t *testing.T, rt *rapid.T, nodes []v1.Node, pods []v1.Pod, objects []runtime.Object,
	pod *v1.Pod) (out []string) {
	var there []*v1.Pod
	for i := range pods {
		there = append(there, &pods[i])
	}
	var all []*v1.Node
	for i := range nodes {
		all = append(all, &nodes[i])
	}
	client := fake.NewClientset(objects...)
	factory, registry := informers.NewSharedInformerFactory(client, 0), plugins.NewInTreeRegistry()
	register := []tf.RegisterPluginFunc{tf.RegisterQueueSortPlugin(queuesort.Name, queuesort.New),
		tf.RegisterBindPlugin(defaultbinder.Name, defaultbinder.New)}
	for _, name := range []string{names.VolumeRestrictions, names.NodeVolumeLimits, names.VolumeBinding,
		names.VolumeZone} {
		register = append(register, tf.RegisterPluginAsExtensions(name, registry[name], "PreFilter", "Filter"))
	}
	f, err := tf.NewFramework(t.Context(), register, "", frameworkruntime.WithClientSet(client),
		frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())),
		frameworkruntime.WithSnapshotSharedLister(internalcache.NewSnapshot(there, all)))
	if err != nil {
		rt.Fatal(err)
	}
	stop := make(chan struct{})
	factory.Start(stop)
	defer factory.Shutdown()
	defer close(stop)
	factory.WaitForCacheSync(stop)
	cs := framework.NewCycleState()
	_, status, _ := f.RunPreFilterPlugins(t.Context(), cs, pod)
	infos, err := f.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		rt.Fatal(err)
	}
	slices.SortFunc(infos, func(a, b fwk.NodeInfo) int { return strings.Compare(a.Node().Name, b.Node().Name) })
	for _, info := range infos {
		s := status
		if s.IsSuccess() {
			s = f.RunFilterPlugins(t.Context(), cs, pod, info)
		}
		text := ""
		if !s.IsSuccess() {
			text = s.Message()
		}
		out = append(out, text)
	}
	return out
}

// drawMounting draws a pod with up to two claims.
func drawMounting(t *rapid.T, name, on string) *v1.Pod {
	p := &v1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "m", UID: types.UID(name)}}
	p.Spec.NodeName, p.Spec.Containers = on, []v1.Container{{Name: "c", Image: "i"}}
	for i := range rapid.IntRange(0, 2).Draw(t, "mounts") {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: fmt.Sprint("v", i), VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{
				ClaimName: rapid.SampledFrom([]string{"c0", "c1", "c2", "c3"}).Draw(t, "claim")}}})
	}
	if len(p.Spec.Volumes) == 2 && p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName ==
		p.Spec.Volumes[1].PersistentVolumeClaim.ClaimName {
		p.Spec.Volumes = p.Spec.Volumes[:1]
	}
	return p
}

// drawStorage draws classes, volumes, claims and the limits of nodes.
func drawStorage(t *rapid.T, nodes []v1.Node) (out []runtime.Object) {
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}
	}
	wait, now := storagev1.VolumeBindingWaitForFirstConsumer, storagev1.VolumeBindingImmediate
	kind := metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "StorageClass"}
	zoned := []v1.TopologySelectorTerm{{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{{Key: "zone",
		Values: []string{"x"}}}}}
	out = append(out,
		&storagev1.StorageClass{TypeMeta: kind, ObjectMeta: meta("now"), Provisioner: "d", VolumeBindingMode: &now},
		&storagev1.StorageClass{TypeMeta: kind, ObjectMeta: meta("wait"), Provisioner: "d", VolumeBindingMode: &wait},
		&storagev1.StorageClass{TypeMeta: kind, ObjectMeta: meta("zoned"), Provisioner: "d", VolumeBindingMode: &wait,
			AllowedTopologies: zoned},
		&storagev1.StorageClass{TypeMeta: kind, ObjectMeta: meta("local"), Provisioner: "kubernetes.io/no-provisioner",
			VolumeBindingMode: &wait})
	out = append(out, drawCapacities(t)...)
	for i := range 4 {
		if rapid.IntRange(0, 9).Draw(t, "missing") > 0 {
			out = append(out, drawClaim(t, fmt.Sprint("c", i), fmt.Sprint("v", i), nodes))
		}
		if rapid.IntRange(0, 9).Draw(t, "no volume") > 0 {
			out = append(out, drawVolume(t, fmt.Sprint("v", i), fmt.Sprint("c", i)))
		}
		out = append(out, drawVolume(t, fmt.Sprint("free", i), ""))
	}
	for i := range nodes {
		if rapid.Bool().Draw(t, "limited") {
			most := int32(rapid.IntRange(0, 2).Draw(t, "limit"))
			out = append(out, &storagev1.CSINode{TypeMeta: metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "CSINode"},
				ObjectMeta: meta(nodes[i].Name), Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "d",
					NodeID: "n", Allocatable: &storagev1.VolumeNodeResources{Count: &most}}}}})
		}
		if volume := "v0"; rapid.IntRange(0, 3).Draw(t, "attached") == 0 {
			out = append(out, &storagev1.VolumeAttachment{
				TypeMeta:   metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "VolumeAttachment"},
				ObjectMeta: meta("a-" + nodes[i].Name), Spec: storagev1.VolumeAttachmentSpec{Attacher: "d",
					NodeName: nodes[i].Name, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}}})
		}
	}
	return out
}

// drawCapacities draws whether the driver reports how large volumes can be, and reports of it.
func drawCapacities(t *rapid.T) (out []runtime.Object) {
	reports := rapid.Bool().Draw(t, "reports capacity")
	out = append(out, &storagev1.CSIDriver{TypeMeta: metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "CSIDriver"},
		ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: storagev1.CSIDriverSpec{StorageCapacity: &reports}})
	size := func() *resource.Quantity {
		text := rapid.SampledFrom([]string{"", "512Mi", "1Gi", "4Gi"}).Draw(t, "largest")
		if text == "" {
			return nil
		}
		q := resource.MustParse(text)
		return &q
	}
	for i := range rapid.IntRange(1, 4).Draw(t, "capacities") {
		c := &storagev1.CSIStorageCapacity{
			TypeMeta:   metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "CSIStorageCapacity"},
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("capacity", i), Namespace: "m"},
			Capacity:   size(), MaximumVolumeSize: size(),
			StorageClassName: rapid.SampledFrom([]string{"wait", "zoned", "now"}).Draw(t, "class of capacity")}
		switch rapid.IntRange(0, 3).Draw(t, "where") {
		case 1:
			c.NodeTopology = &metav1.LabelSelector{}
		case 2, 3:
			c.NodeTopology = &metav1.LabelSelector{MatchLabels: map[string]string{
				"zone": rapid.SampledFrom([]string{"x", "y"}).Draw(t, "zone of capacity")}}
		}
		out = append(out, c)
	}
	return out
}

func drawClaim(t *rapid.T, name, volume string, nodes []v1.Node) *v1.PersistentVolumeClaim {
	class := rapid.SampledFrom([]string{"now", "wait", "zoned", "local", "none"}).Draw(t, "class")
	c := &v1.PersistentVolumeClaim{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "m", UID: types.UID("uid-" + name),
			Annotations: map[string]string{}},
		Spec: v1.PersistentVolumeClaimSpec{StorageClassName: &class, AccessModes: []v1.PersistentVolumeAccessMode{
			rapid.SampledFrom([]v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadWriteOncePod}).Draw(t, "mode")}}}
	c.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse(
		rapid.SampledFrom([]string{"1Gi", "3Gi"}).Draw(t, "size"))}
	switch rapid.IntRange(0, 7).Draw(t, "bound") {
	case 0, 1, 2, 3:
		c.Spec.VolumeName, c.Annotations["pv.kubernetes.io/bind-completed"] = volume, "yes"
		c.Status.Phase = v1.ClaimBound
	case 4:
		c.Spec.VolumeName = volume
	case 5:
		c.Annotations["volume.kubernetes.io/selected-node"] = rapid.SampledFrom(nodes).Draw(t, "selected").Name
	}
	switch rapid.IntRange(0, 15).Draw(t, "bad") {
	case 0:
		c.Status.Phase = v1.ClaimLost
	case 1:
		c.DeletionTimestamp, c.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"f"}
	}
	return c
}

func drawVolume(t *rapid.T, name, claim string) *v1.PersistentVolume {
	mode := v1.PersistentVolumeFilesystem
	v := &v1.PersistentVolume{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"},
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{}},
		Spec: v1.PersistentVolumeSpec{Capacity: v1.ResourceList{v1.ResourceStorage: resource.MustParse("2Gi")},
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadWriteOncePod}, VolumeMode: &mode,
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "d",
				VolumeHandle: name}}}}
	v.Status.Phase = v1.VolumeAvailable
	if claim != "" {
		v.Status.Phase = v1.VolumeBound
		v.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "m", Name: claim,
			UID: types.UID("uid-" + claim)}
	} else {
		v.Spec.StorageClassName = rapid.SampledFrom([]string{"wait", "zoned", "local"}).Draw(t, "class of volume")
	}
	if rapid.Bool().Draw(t, "affine") {
		v.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: v1.NodeSelectorOpIn,
				Values: []string{rapid.SampledFrom([]string{"x", "y"}).Draw(t, "zone of volume")}}}}}}}
	}
	if rapid.IntRange(0, 3).Draw(t, "labelled") == 0 {
		v.Labels[v1.LabelTopologyZone] = rapid.SampledFrom([]string{"x", "x__y", "", "z"}).Draw(t, "label")
	}
	return v
}
