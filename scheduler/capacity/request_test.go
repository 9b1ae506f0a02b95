package capacity

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/api/provisioning"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/scheduler/promise"
)

func sets(counts ...int) (out []set) {
	for _, n := range counts {
		out = append(out, set{pod: &v1.Pod{}, count: n, Pod: promise.Pod{Pod: &place.Pod{}}})
	}
	return out
}

// The places that details has written are read again, in the same order.
func TestPlacesAreWrittenDown(t *testing.T) {
	var places []promise.Place
	for _, node := range []string{"b", "b", "a", "b", "c"} {
		places = append(places, promise.Place{Node: node})
	}
	written, err := details(sets(4, 1), places)
	if err != nil || written["tenon.sh/places-0"] != `[{"node":"b","count":2},{"node":"a","count":1},{"node":"b","count":1}]` {
		t.Fatalf("written are %v (%v)", written, err)
	}
	r := &request{sets: sets(4, 1), object: &provisioning.Request{}}
	r.object.Status.ProvisioningClassDetails = written
	got, err := r.placesOf()
	if err != nil || len(got) != len(places) {
		t.Fatalf("read are %v (%v)", got, err)
	}
	for i := range got {
		if got[i].Node != places[i].Node {
			t.Errorf("place %d is on %s, want %s", i, got[i].Node, places[i].Node)
		}
	}
	var many []promise.Place
	for range 1000 {
		many = append(many, promise.Place{Node: strings.Repeat("n", 60)}, promise.Place{Node: "other"})
	}
	if _, err := details(sets(2000), many); err == nil || !strings.Contains(err.Error(), "too many to write down") {
		t.Errorf("places on 2000 nodes are written: %v", err)
	}
}

// Who may write the status of a request may write anything into its details. Places count only if they are as many as
// the request has pods.
func TestForgedPlaces(t *testing.T) {
	for text, part := range map[string]string{
		``:                                     "unexpected end",
		`null`:                                 "fewer pods",
		`[{"node":"a","count":3}]`:             "other numbers",
		`[{"node":"a","count":1}]`:             "fewer pods",
		`[{"node":"a","count":-1}]`:            "other numbers",
		`[{"node":"a","count":0}]`:             "other numbers",
		`[{"node":"a","count":1000000000000}]`: "other numbers",
		`[{"node":7,"count":2}]`:               "cannot unmarshal",
	} {
		r := &request{sets: sets(2), object: &provisioning.Request{}}
		r.object.Status.ProvisioningClassDetails = map[string]string{"tenon.sh/places-0": text}
		if got, err := r.placesOf(); err == nil || !strings.Contains(err.Error(), part) || len(got) > 2 {
			t.Errorf("%s is read as %v: %v, want an error with %q", text, got, err, part)
		}
	}
}
