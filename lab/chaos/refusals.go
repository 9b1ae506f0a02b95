package chaos

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// blame is the cause of a kubelet's refusal of a pod. It answers whether the scheduler could have predicted the
// refusal.
type blame string

// The causes of refusals. Those from overtaken to combined name information that the scheduler had not received when
// it bound the pod. Without this information the pod fits: judge computes that with package place.
const (
	// knowable: the scheduler had received everything that led to the refusal. This is a fault.
	knowable blame = "could have been known"
	// overtaken: another scheduler had bound a pod to the node, which this scheduler had not received.
	overtaken blame = "a foreign pod was bound at the same time"
	// roomier: a pod had ended. More room may be worse for a pod with init containers, since the managers may then
	// place these where the other containers do not fit
	// (core/place/testdata/more_room_may_refuse_a_pod_with_init_containers.txt).
	roomier blame = "a pod ended at the same time"
	// ruled: the kubelet was restarted with other rules, which the scheduler had not received.
	ruled blame = "the kubelet was restarted with other rules"
	// stale: the kubelet was restarted, and still counts pods that are gone: until it has handled its first pods, its
	// managers release nothing (pkg/kubelet/kubelet.go, syncLoopIteration).
	stale blame = "a restarted kubelet counted pods that are gone"
	// unplugged: the kubelet was restarted, and its device plugins had not registered.
	unplugged blame = "a restarted kubelet had no devices yet"
	// combined: several of the causes from overtaken to unplugged made the kubelet refuse the pod.
	combined blame = "several of these together"
	// unheard: the node counted as silent, and the profile permits pods there (silentNodes: Allow). The scheduler then
	// relies on the last report and its predictions since, and keeps only the likeliest possible state of the node.
	unheard blame = "the node counted as silent"
	// remade: the machine changed before an agent had published the kubelet's machine, so no agent can read it any more.
	// The layout reports that predictions are inexact, and the profile permits that (inexactNodes: Allow).
	remade blame = "no agent had read the kubelet's machine"
	// notReadmitted: the pod ran, and the restarted kubelet did not admit it again.
	notReadmitted blame = "the pod ran, and a restarted kubelet refused it"
)

// A refusal is judged by the objects that the scheduler had received when the pod got its turn. A scheduler that has
// ended has no record of that time. The judge then assumes that the pod got its turn at least lag before its binding
// was stored.
const (
	// lag bounds the time from the turn until the binding is in the store.
	lag = 500 * time.Millisecond
	// skew is how much later than the recorded time the scheduler's own handler may receive an object.
	skew = 50 * time.Millisecond
)

// refusal is a pod that a kubelet refused.
type refusal struct {
	life
	why    blame
	detail string
}

func (r refusal) String() string {
	return fmt.Sprintf("pod %s (%s) on node %s: %s: %s; bound %s, refused %s: %s; %s", r.pod.Name, r.pod.UID,
		r.pod.Spec.NodeName, r.pod.Status.Reason, r.why, r.bound, r.ended, r.pod.Status.Message, r.detail)
}

// refused reports whether a kubelet refused the pod: it failed, with a reason or a message that kubelets give when
// they refuse a pod.
func refused(l life) bool {
	return l.pod.Status.Phase == v1.PodFailed && l.bound.known() &&
		(strings.HasPrefix(l.pod.Status.Reason, "OutOf") || strings.HasSuffix(l.pod.Status.Reason, "Error") ||
			strings.HasPrefix(l.pod.Status.Message, "Pod was rejected"))
}

// endMoment returns when the API server recorded that the pod holds nothing any more.
func (l life) endMoment() moment {
	if l.ended.known() {
		return l.ended
	}
	return l.gone
}

// scene is the information by which a refusal on one node is judged.
type scene struct {
	machine     *topo.Machine
	rules       place.Rules     // without the topology manager's rules, which admissions have
	allocatable v1.ResourceList // the most that the node had
	lives       []life
	admissions  []admission                      // oldest first
	received    *deliveries                      // of the scheduler that bound the pod
	agentSince  func(agent string) (t time.Time) // when an agent's process wrote its first layout
	decided     time.Time                        // when the pod got its turn, or zero
	silent      bool                             // the node counted as silent
	remade      bool                             // its layout had another machine than the kubelet, and reported that
}

// judge returns whether the scheduler could have predicted a refusal. It removes what the scheduler had not received
// when it bound the pod, one thing after the other, and asks place whether the kubelet would then have admitted it.
func (s *scene) judge(l life) refusal {
	out := refusal{life: l, why: knowable}
	uid := string(l.pod.UID)
	at := lastOf(s.admissions, func(a admission) bool { return a.UID == uid })
	if at < 0 {
		out.detail = "its kubelet has recorded no decision"
		return out
	}
	e := s.admissions[at]
	if s.admittedBefore(l, at) {
		out.why, out.detail = notReadmitted, s.readmission(l, at)
		return out
	}
	p, err := pod.ToPlace(l.pod)
	if err != nil {
		out.detail = err.Error()
		return out
	}
	t := &trial{scene: s, pod: p, life: l, at: at, admission: e}
	t.findUnreceived()
	if e.Admitted { // by the managers, and then refused for its plain amounts
		out.why, out.detail = t.causeByAmounts()
		return out
	}
	out.why, out.detail = t.cause()
	return out
}

// lastOf returns the index of the last admission that satisfies a condition, or -1.
func lastOf(all []admission, match func(admission) bool) int {
	for i := len(all) - 1; i >= 0; i-- {
		if match(all[i]) {
			return i
		}
	}
	return -1
}

// admittedBefore reports whether an earlier process of the kubelet had admitted the pod that was refused at
// s.admissions[at]. It reads the journal too, because a kubelet that was killed may not have written the pod's
// status.
func (s *scene) admittedBefore(l life, at int) bool {
	e := s.admissions[at]
	return l.started.known() && l.started.at.Before(e.Began) ||
		slices.ContainsFunc(s.admissions[:at], func(a admission) bool {
			return a.UID == e.UID && a.Admitted && a.Began.Before(e.Began)
		})
}

// readmission describes, as text, what differs between the first admission of a pod and the refusal at
// s.admissions[at].
func (s *scene) readmission(l life, at int) string {
	uid, e := string(l.pod.UID), s.admissions[at]
	var parts []string
	first := slices.IndexFunc(s.admissions[:at], func(a admission) bool { return a.UID == uid && a.Admitted })
	if first >= 0 {
		if before := s.admissions[first].rules(); before != e.rules() {
			parts = append(parts, fmt.Sprintf("the rules were %s and are %s", before, e.rules()))
		}
	}
	if len(e.held[uid]) == 0 {
		parts = append(parts, "the managers' files had nothing of it")
	}
	if missing := s.missing(e); len(missing) > 0 {
		parts = append(parts, "there were no devices of "+strings.Join(missing, ", "))
	}
	if len(parts) == 0 {
		return "neither other rules nor lost state explains that"
	}
	return strings.Join(parts, "; ")
}

// missing returns the resources that have devices on the machine, but had none in the kubelet at the admission a.
func (s *scene) missing(a admission) (out []string) {
	for _, r := range s.machine.Resources() {
		if a.Devices[r.Name] == 0 && len(r.Devices) > 0 {
			out = append(out, r.Name)
		}
	}
	return out
}
