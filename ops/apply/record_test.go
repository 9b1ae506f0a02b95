package apply

import (
	"encoding/json"
	"errors"
	"testing"
)

// However steps end, a change ends with the new configuration, with the old one, or at a step that an administrator
// has to repair.
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

// Everybody who may read nodes can read the record, even without the right to read pods: it names no pod and quotes
// no log. The administrator who applies the plan sees the full error.
func TestARecordNamesNoPods(t *testing.T) {
	budget := remainingError{errors.New("not all pods were evicted within 1m0s: pod shop/db-0: a budget"), 1}
	for _, c := range []struct {
		step Step
		err  error
		want string
	}{
		{Evict, budget, `{"plan":"","step":"uncordon","why":"step evict failed: pods that remained: 1"}`},
		{Evict, errors.New("evict pod shop/db-0: no"), `{"plan":"","step":"uncordon","why":"step evict failed"}`},
		{Change, errors.New("a line of a log"), `{"plan":"","step":"undo","why":"step change failed"}`},
	} {
		r, _ := Record{Step: c.step}.next(c.err)
		if text, err := json.Marshal(r); err != nil || string(text) != c.want {
			t.Errorf("%v: the record is %s, error %v, want %s", c.err, text, err, c.want)
		}
		if r.Reason() != c.err.Error() {
			t.Errorf("who applies the plan reads %q, want %q", r.Reason(), c.err)
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
		if err := checkConfigz(dropIn, []byte(test.configz)); (err == nil) != test.ok {
			t.Errorf("%s: %v", test.configz, err)
		}
	}
}
