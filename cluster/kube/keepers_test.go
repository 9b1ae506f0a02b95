package kube

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/provisioning"
	"github.com/tenon-numa/tenon/core/whatif"
)

// A pod uses up the room of the request that it names, or else of the first one of its controller that is not younger
// than the pod and keeps room.
func TestWhoseRoomAPodUsesUp(t *testing.T) {
	amounts := func(names ...string) map[string]whatif.Amounts {
		out := map[string]whatif.Amounts{}
		for _, name := range names {
			out[name] = whatif.Amounts{"pods": 1}
		}
		return out
	}
	k := KeepersOf(map[string]*Kept{
		"a": {Amounts: amounts("ml/b", "ml/other"), Owners: map[string]KeptOwner{"ml/b": {"ml/set", 10}}},
		"b": {Amounts: amounts("ml/a", "ml/b"), Owners: map[string]KeptOwner{"ml/a": {"ml/set", 20}, "ml/b": {"ml/set", 10}}},
	})
	for _, x := range []struct {
		names, owner string
		created      int64
		want         string
	}{
		{"", "", 30, ""}, {"other", "", 0, "ml/other"}, {"gone", "", 30, "ml/gone"}, {"", "set", 9, ""},
		{"", "set", 10, "ml/b"}, {"", "set", 20, "ml/a"}, {"other", "set", 20, "ml/other"}, {"gone", "set", 20, "ml/a"},
		{"gone", "set", 9, "ml/gone"}, {"", "another", 30, ""},
	} {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", CreationTimestamp: metav1.Unix(x.created, 0)}}
		if x.names != "" {
			p.Annotations = map[string]string{apipod.ConsumeAnnotation: x.names, apipod.ClassAnnotation: apipod.Class}
		}
		if x.owner != "" {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", UID: types.UID(x.owner), Controller: new(true)}}
		}
		if got := k.Of(p); got != x.want {
			t.Errorf("%+v: %q", x, got)
		}
	}
}

// What is kept names the controller of its request, and when the request was created.
func TestOwnersOfKeptRoom(t *testing.T) {
	r := booking(t)
	r.CreationTimestamp = metav1.Unix(10, 0)
	r.Spec.Parameters = map[string]string{provisioning.PodsOf: "set"}
	kept, _ := KeptBy([]provisioning.Request{r}, nil, noon)
	for _, node := range []string{"a", "b"} {
		if got := kept[node].Owners["ml/job"]; got != (KeptOwner{r.Owner(), 10}) || got.Owner == "" {
			t.Errorf("node %s: %+v", node, got)
		}
	}
}
