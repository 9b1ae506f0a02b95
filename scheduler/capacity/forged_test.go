package capacity

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/provisioning"
)

// claims writes into the status of a request that its pods have places on a node, as who may write it can.
func (w *world) claims(name, node string, count int, since time.Time) {
	o, _, _ := w.objects.GetByKey("ml/" + name)
	r, _ := o.(*provisioning.Request)
	r, _ = r.DeepCopyObject().(*provisioning.Request)
	w.version++
	r.ResourceVersion = fmt.Sprint(w.version)
	r.Status.ProvisioningClassDetails = map[string]string{
		"tenon.sh/places-0": fmt.Sprintf(`[{"node": %q, "count": %d}]`, node, count)}
	r.Status.Conditions = []metav1.Condition{{Type: provisioning.Provisioned, Status: metav1.ConditionTrue,
		LastTransitionTime: metav1.NewTime(since)}}
	if err := w.objects.Update(r); err != nil {
		panic(err)
	}
}

// Places of a status count after a start only, and no longer than the booking, whatever time the status has.
func TestForgedStatusesKeepNoRoom(t *testing.T) {
	w := newWorld(t, 1, 8)
	w.round(t.Context())
	w.ask("late", 1, 2)
	w.time = w.time.Add(Restoring)
	w.claims("late", "n0000", 1, w.time)
	for range 3 {
		w.round(t.Context())
	}
	if w.keeper.Any() {
		t.Error("a status that was written long after the start keeps room")
	}

	w = newWorld(t, 1, 8)
	w.ask("future", 1, 2)
	w.claims("future", "n0000", 1, time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))
	w.round(t.Context())
	w.wants(t, "future", provisioning.BookingExpired, "True")
	if w.keeper.Any() {
		t.Error("a status of the year 9999 keeps room")
	}

	w = newWorld(t, 1, 8)
	w.ask("renewed", 1, 2)
	w.claims("renewed", "n0000", 1, w.time)
	w.round(t.Context())
	if !w.keeper.Any() {
		t.Error("a scheduler that starts does not keep what a status has")
	}
	for range 2 {
		w.time = w.time.Add(300 * time.Second)
		w.claims("renewed", "n0000", 1, w.time)
		w.round(t.Context())
	}
	w.wants(t, "renewed", provisioning.BookingExpired, "True")
	if w.keeper.Any() {
		t.Error("a booking is made longer by its status")
	}
}

// More places on one node than requests get there are not kept again.
func TestForgedStatusesAreBounded(t *testing.T) {
	w := newWorld(t, 1, 64)
	for i := range 3 {
		name := fmt.Sprint("r", i)
		w.ask(name, 60, 1)
		w.claims(name, "n0000", 60, w.time)
	}
	w.round(t.Context())
	w.wants(t, "r1", provisioning.BookingExpired, "")
	w.wants(t, "r2", provisioning.BookingExpired, "True: node n0000")
	if left := w.keeper.Left(); left["ml/r0"] != 60 || left["ml/r1"] != 60 || left["ml/r2"] != 0 {
		t.Errorf("places are kept: %v", left)
	}
}
