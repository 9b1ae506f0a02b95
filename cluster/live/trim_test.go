package live

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apipod "github.com/tenon-numa/tenon/api/pod"
)

// Pods are judged by their claims, and by whether they keep data on the node; other volumes may hold secrets.
func TestOfVolumesOnlyClaimsAreKept(t *testing.T) {
	claim := &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data", ReadOnly: true}
	in := []v1.Volume{
		{Name: "token", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s3cret"}}},
		{Name: "a", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: claim}},
		{Name: "scratch", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
		{Name: "b", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{
			VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{}}}}}
	want := []v1.Volume{
		{Name: "a", VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
		{Name: "b", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}},
		{Name: "data", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
	if got := trimPod(&v1.Pod{Spec: v1.PodSpec{Volumes: in}}).Spec.Volumes; !reflect.DeepEqual(got, want) {
		t.Errorf("kept %+v, want %+v", got, want)
	}
	pages := v1.Volume{Name: "p", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: "HugePages"}}}
	if got := trimVolumes([]v1.Volume{pages}); got != nil {
		t.Errorf("hugepages are no data: %+v", got)
	}
	if got := trimVolumes([]v1.Volume{in[2], pages, in[2]}); len(got) != 1 || got[0].EmptyDir == nil {
		t.Errorf("data on a disk: %+v", got)
	}
}

// What keeps a pod where it is keeps it there in the console, too.
func TestMarksThatKeepPodsAreKept(t *testing.T) {
	in := map[string]string{apipod.SafeToEvict: "false", apipod.VolcanoGroup: "g", apipod.KoordinatorGang: "k",
		apipod.MoveCostAnnotation: "7"}
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: maps.Clone(in)}}
	p.Annotations["example.com/secret"] = "s3cret"
	if got := trimPod(p).Annotations; !maps.Equal(got, in) {
		t.Errorf("kept %v, want %v", got, in)
	}
}

// Annotations that package pod reads decide in the console as they do in the scheduler, and a warning names Katalyst's.
func TestAnnotationsThatDecideAreKept(t *testing.T) {
	files, err := filepath.Glob("../../api/pod/*.go")
	if err != nil {
		t.Fatal(err)
	}
	key := regexp.MustCompile(`"([a-z0-9.-]+\.[a-z0-9]+/[A-Za-z0-9._-]+)"`)
	labels := []string{apipod.CoschedulingGroup, apipod.KoordinatorGroup, apipod.KoordinatorLightweight} // are kept
	in := map[string]string{v1.MirrorPodAnnotationKey: "x", "katalyst.kubewharf.io/qos_level": ""}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range key.FindAllStringSubmatch(string(text), -1) {
			if !strings.HasSuffix(file, "_test.go") && !slices.Contains(labels, m[1]) {
				in[m[1]] = "x"
			}
		}
	}
	if _, read := in["volcano.sh/numa-topology-policy"]; !read || len(in) < 15 {
		t.Errorf("package pod reads %v", in)
	}
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: in}}
	if got := trimPod(p).Annotations; !maps.Equal(got, in) {
		t.Errorf("kept %v, want %v", got, in)
	}
}
