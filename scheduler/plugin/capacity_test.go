package plugin

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/tenon-numa/tenon/scheduler/capacity"
	"github.com/tenon-numa/tenon/scheduler/follow"
	"github.com/tenon-numa/tenon/scheduler/fwk"
	"github.com/tenon-numa/tenon/scheduler/steer"
)

// following is a handle of a scheduler with informers, and with dynamic resource allocation.
type following struct {
	fwk.Handle
	factory informers.SharedInformerFactory
}

func (f following) SharedInformerFactory() informers.SharedInformerFactory { return f.factory }

func (f following) SharedDRAManager() fwk.SharedDRAManager { return struct{ fwk.SharedDRAManager }{} }

// Requests are not answered before the informers of nodes, pods, claims, slices and classes are synced: without an
// election, nothing else waits for them.
func TestRequestsWaitForInformers(t *testing.T) {
	h := following{factory: informers.NewSharedInformerFactory(fake.NewClientset(), 0)}
	c := capacity.New(nil, nil, nil, nil, time.Now, klog.Background())
	synced, err := kickAtEvents(h, c, &follow.Gathered{})
	if err != nil {
		t.Fatal(err)
	}
	if len(synced) != 5 || allSynced(synced) {
		t.Errorf("%d informers are waited for, want 5, and they count as synced before they run: %t", len(synced),
			allSynced(synced))
	}
	h.factory.Start(t.Context().Done())
	if !cache.WaitForCacheSync(t.Context().Done(), synced...) || !allSynced(synced) {
		t.Error("the informers are never synced")
	}
}

// Devices can be kept only for pods of a profile with TenonClaims: another one gives them to anybody.
func TestDevicesAreKeptForProfilesWithTenonClaims(t *testing.T) {
	s := &Shared{planner: &steer.Planner{}, claiming: []string{"near"}}
	h := following{factory: informers.NewSharedInformerFactory(fake.NewClientset(), 0)}
	for profile, keeps := range map[string]bool{"near": true, "plain": false} {
		p := &v1.Pod{Spec: v1.PodSpec{SchedulerName: profile}}
		if _, err := (devices{seen: seen{Shared: s, handle: h}}).Serves(p); (err == nil) != keeps {
			t.Errorf("for pods of profile %s, Serves returns the error %v", profile, err)
		}
	}
}

// A pod waits if the informer has it without a node, by its UID, and not being deleted.
func TestPodsThatWaitForANode(t *testing.T) {
	now := metav1.Now()
	waits, leaves := cpus("waits", 2), cpus("leaves", 2)
	leaves.DeletionTimestamp = &now
	bound := bind(cpus("bound", 2), "n")
	c := seen{Shared: &Shared{amounts: inMemory(t, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, waits, leaves,
		bound)}}
	for _, x := range []struct {
		name string
		uid  types.UID
		want bool
	}{{"waits", waits.UID, true}, {"waits", "another", false}, {"waits", "", false}, {"leaves", leaves.UID, false},
		{"bound", bound.UID, false}, {"gone", "uid-gone", false}} {
		if got := c.Waits(waits.Namespace, x.name, x.uid); got != x.want {
			t.Errorf("pod %s of UID %q waits: %t", x.name, x.uid, got)
		}
	}
}
