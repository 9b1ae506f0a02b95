package arbiter

import (
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/api/objects"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/pin"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/printable"
	"github.com/tenon-numa/tenon/node/nri"
)

// The reasons in events about pods.
const (
	decisionIgnored  = "PlacementIgnored"  // the decision is for another pod, cannot be read, or came too late
	decisionReplaced = "PlacementReplaced" // what was decided is not free, or not what the pod requests
	notAligned       = "NotAligned"        // the node's policies refuse the pod
	sharesCPUs       = "SharesCPUs"        // too few CPUs are free, or the computed ones are not
	placedHere       = "PlacedByAgent"     // the pod came without a decision
)

// maxMessage is the longest event message that the API server accepts, in bytes.
const maxMessage = 1024

// reporter reports what happens to pods: it writes to the log, and events to the API server.
type reporter struct {
	node   string
	events *sender
	log    logr.Logger
}

func newReporter(cfg Config) (*reporter, error) {
	core, err := objects.NewCore(cfg.REST)
	if err != nil {
		return nil, err
	}
	return &reporter{cfg.NodeName, newSender(core.Events, cfg.Logger), cfg.Logger}, nil
}

// placed reports a decision that cannot be used, a fault of the placement, or a placement without a decision. It does
// not report a pod that was placed as decided.
func (r *reporter) placed(a nri.Arriving, p pin.Pod) {
	if a.Refusal != nil {
		r.report(a.Namespace, a.Name, p.UID, v1.EventTypeWarning, decisionIgnored,
			fmt.Sprintf("%v; the agent of node %s placed the pod itself", a.Refusal, r.node))
	}
	switch {
	case p.Fault != nil:
		r.faulty(a.Namespace, a.Name, p)
	case !p.Decided && a.Refusal == nil && len(p.Holdings) > 0:
		r.report(a.Namespace, a.Name, p.UID, v1.EventTypeNormal, placedHere,
			fmt.Sprintf("no scheduler decided what the pod gets, so the agent of node %s did: CPUs %s", r.node, cpusOf(p)))
	}
}

// faulty reports the fault of a pod's placement.
func (r *reporter) faulty(namespace, name string, p pin.Pod) {
	reason, text := faultOf(*p.Fault)
	r.report(namespace, name, p.UID, v1.EventTypeWarning, reason, fmt.Sprintf("node %s: %s", r.node, text))
}

// late reports a decision that came after the agent had placed the pod.
func (r *reporter) late(pod *v1.Pod, p pin.Pod) {
	r.report(pod.Namespace, pod.Name, p.UID, v1.EventTypeWarning, decisionIgnored,
		fmt.Sprintf("annotation %s: it came after the agent of node %s had placed the pod, which keeps CPUs %s",
			v1alpha1.DecisionAnnotation, r.node, cpusOf(p)))
}

// faultOf returns the reason and the text of the event about a fault.
func faultOf(f pin.Fault) (reason, text string) {
	var why []string
	for _, x := range f.Reasons {
		why = append(why, x.Text())
	}
	because := ""
	if len(why) > 0 {
		because = ": " + strings.Join(why, "; ")
	}
	switch f.Code {
	case pin.Replaced:
		return decisionReplaced, "what the scheduler decided is not free, or not what the pod requests; " +
			"the pod was placed anew" + because
	case pin.Unaligned:
		return notAligned, "the node's policies refuse the pod, which runs without alignment" + because
	case pin.Refused:
		return sharesCPUs, "the computed CPUs are not free, which is a fault of Tenon, so they were not used: " + f.Detail
	}
	if f.Resize {
		return sharesCPUs, "too few CPUs are free for the resize, so the pod keeps what it has" + because
	}
	return sharesCPUs, "too few CPUs are free, so the pod shares CPUs" + because
}

// cpusOf returns the exclusive CPUs of a pod's app containers and sidecars, or "shared" if it has none.
func cpusOf(p pin.Pod) string {
	var out []string
	for _, h := range p.Holdings {
		if h.Kind != place.Init && !h.CPUs.Empty() {
			out = append(out, h.CPUs.String())
		}
	}
	if len(out) == 0 {
		return "shared"
	}
	return strings.Join(out, ",")
}

// report writes a text to the log, and queues it as an event about the pod. kind is the type of the event, Normal or
// Warning.
func (r *reporter) report(namespace, name, uid, kind, reason, text string) {
	text = printable.Clip(text, maxMessage-len("..."))
	r.log.Info(text, "pod", namespace+"/"+name, "reason", reason)
	now := metav1.NewTime(time.Now())
	r.events.send(&v1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: eventName(uid, reason, text)},
		InvolvedObject: v1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: name,
			UID: types.UID(uid)},
		Reason: reason, Message: text, Type: kind, Count: 1, FirstTimestamp: now, LastTimestamp: now,
		Source: v1.EventSource{Component: "tenon-agent", Host: r.node}, ReportingController: "tenon.sh/agent",
		ReportingInstance: r.node,
	})
}

// eventName returns the same name for events with the same pod, reason and text. So if this agent or a later one
// sends such an event again, the API server still has it once.
func eventName(uid, reason, text string) string {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s %s %s", uid, reason, text) // it never fails
	return fmt.Sprintf("tenon-agent.%016x", h.Sum64())
}
