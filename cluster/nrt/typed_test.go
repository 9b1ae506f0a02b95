package nrt_test

import (
	"testing"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/cluster/nrt"
)

// Only Tenon's agent sees what pods keep from init containers: an object counts as whole if no other writer has a field
// in it, whatever the object itself claims.
func TestWhoseAmountsAreWhole(t *testing.T) {
	for name, c := range map[string]struct {
		managers []string
		want     bool
	}{
		"the agent":              {[]string{client.FieldManager}, true},
		"an exporter":            {[]string{"resource-topology-exporter"}, false},
		"both":                   {[]string{client.FieldManager, "nfd-topology-updater"}, false},
		"nobody says":            {nil, false},
		"an exporter that lies":  {[]string{"exporter"}, false},
		"the agent, several ops": {[]string{client.FieldManager, client.FieldManager}, true},
	} {
		o := &v1alpha2.NodeResourceTopology{
			ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{"tenon.sh/whole": "true"}},
			Zones:      v1alpha2.ZoneList{{Name: "node-0", Type: "Node"}},
		}
		for _, m := range c.managers {
			o.ManagedFields = append(o.ManagedFields, metav1.ManagedFieldsEntry{Manager: m})
		}
		typed, err := nrt.Typed(o)
		if err != nil {
			t.Fatal(err)
		}
		r, err := nrt.Read(typed.(*v1alpha2.NodeResourceTopology))
		if err != nil {
			t.Fatal(err)
		}
		if r.Whole != c.want {
			t.Errorf("%s: whole is %v", name, r.Whole)
		}
	}
}
