package apply

import (
	"errors"
	"testing"
)

// However steps end, a change ends with the new configuration, with the old one, or at a step that a person has to
// mend.
func TestStepsFollowEachOther(t *testing.T) {
	no := errors.New("no")
	for _, test := range []struct {
		name  string
		fails Step
		want  []Step
		stuck bool
	}{
		{"all go well", "", []Step{Cordon, Evict, Change, Verify, Keep, Uncordon}, false},
		{"a budget refuses", Evict, []Step{Cordon, Evict, Uncordon}, false},
		{"the node cannot be written", Change, []Step{Cordon, Evict, Change, Undo, Uncordon}, false},
		{"the kubelet refuses", Verify, []Step{Cordon, Evict, Change, Verify, Undo, Uncordon}, false},
		{"it is not known whether the node keeps it", Keep, []Step{Cordon, Evict, Change, Verify, Keep}, true},
		{"the API server refuses", Uncordon, []Step{Cordon, Evict, Change, Verify, Keep, Uncordon}, true},
	} {
		r, more := Record{Step: Cordon}, true
		var got []Step
		stuck := false
		for more {
			got = append(got, r.Step)
			var err error
			if r.Step == test.fails {
				err = no
			}
			r, more = r.next(err)
			stuck = err != nil && !more
		}
		if len(got) != len(test.want) || stuck != test.stuck {
			t.Errorf("%s: steps %v, stuck %v; want %v, %v", test.name, got, stuck, test.want, test.stuck)
			continue
		}
		for i := range got {
			if got[i] != test.want[i] {
				t.Errorf("%s: steps %v, want %v", test.name, got, test.want)
			}
		}
		if undone := r.Why != ""; undone != (!test.stuck && test.fails != "") {
			t.Errorf("%s: the record says %q", test.name, r.Why)
		}
	}
}

func TestVerifiesWhatTheKubeletRunsWith(t *testing.T) {
	const dropIn = `
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
topologyManagerPolicy: restricted
cpuManagerPolicyOptions: {full-pcpus-only: "true"}
reservedMemory:
- {numaNode: 0, limits: {memory: 1024Mi}}
`
	for _, test := range []struct {
		configz string
		ok      bool
	}{
		{`{"kubeletconfig": {"topologyManagerPolicy": "restricted", "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
			"reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}], "maxPods": 110}}`, true},
		{`{"kubeletconfig": {"topologyManagerPolicy": "none", "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
			"reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}]}}`, false},
		{`{"kubeletconfig": {"topologyManagerPolicy": "restricted",
			"reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}]}}`, false},
		{`{"kubeletconfig": {"topologyManagerPolicy": "restricted", "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
			"reservedMemory": [{"numaNode": 0, "limits": {"memory": "2Gi"}}]}}`, false},
		{`{}`, false},
		{`not found`, false},
	} {
		if err := within(dropIn, []byte(test.configz)); (err == nil) != test.ok {
			t.Errorf("%s: %v", test.configz, err)
		}
	}
}
