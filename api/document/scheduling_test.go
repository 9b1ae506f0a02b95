package document

import (
	"strings"
	"testing"
)

// Where a kube-scheduler leads, it may have a profile of the name that the pod gives, so the answer does not claim that
// no such scheduler exists, and names the lease by which the reader can check.
func TestUnseenSchedulerNamesTheLease(t *testing.T) {
	s := Scheduling{State: Unseen, Scheduler: "batch"}
	const doubt = "A kube-scheduler leads (lease kube-system/kube-scheduler); " +
		"whether it has a profile of that name is not known."
	const unseen = `No scheduler named "batch" has been seen`
	if got := s.Text(); !strings.HasPrefix(got, unseen) || strings.Contains(got, "lease") {
		t.Errorf("without a lease: %q", got)
	}
	s.Lease = "kube-system/kube-scheduler"
	if got := s.Text(); !strings.HasSuffix(got, " "+doubt) {
		t.Errorf("with a lease: %q, want it to end in %q", got, doubt)
	}
	if got := s.Remedy(); got != "start a scheduler of that name" {
		t.Errorf("the remedy is %q", got)
	}
}
