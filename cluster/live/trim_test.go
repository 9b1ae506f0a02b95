package live

import (
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// Pods are judged by their claims; other volumes may hold secrets.
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
		{Name: "b", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}}}
	if got := trimPod(&v1.Pod{Spec: v1.PodSpec{Volumes: in}}).Spec.Volumes; !reflect.DeepEqual(got, want) {
		t.Errorf("kept %+v, want %+v", got, want)
	}
}
