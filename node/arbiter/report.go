package arbiter

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/api/objects"
	"github.com/tenon-numa/tenon/core/pin"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/node/nri"
)

// The reasons of events about pods.
const (
	decisionIgnored  = "PlacementIgnored"  // the annotation is not for this pod, or cannot be read
	decisionReplaced = "PlacementReplaced" // what it says was not free, or not what the pod requests
	notAligned       = "NotAligned"        // the node's policies refuse the pod
	sharesCPUs       = "SharesCPUs"        // too few CPUs are free
	placedHere       = "PlacedByAgent"     // the pod came without a decision
)

// maxEvents bounds the events that wait to be sent. What is beyond is in the log alone.
const maxEvents = 128

// maxMessage is what the API server takes of the text of an event.
const maxMessage = 1024

// reporter writes what happens to pods to the log, and to the API server as events.
type reporter struct {
	node   string
	events *objects.Client[*v1.Event, *v1.EventList]
	queue  chan *v1.Event
	log    logr.Logger
}

func newReporter(cfg Config) (*reporter, error) {
	core, err := objects.NewCore(cfg.REST)
	if err != nil {
		return nil, err
	}
	return &reporter{cfg.NodeName, core.Events, make(chan *v1.Event, maxEvents), cfg.Logger}, nil
}

// run sends events until ctx ends.
func (r *reporter) run(ctx context.Context) {
	failed := false
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-r.queue:
			_, err := r.events.In(e.Namespace).Create(ctx, e, metav1.CreateOptions{})
			if err != nil && !failed {
				r.log.Error(err, "cannot write events; what they say is in this log, too")
			}
			failed = err != nil
		}
	}
}

// placed reports how a pod was placed.
func (r *reporter) placed(a nri.Arriving, p pin.Pod) {
	if a.Refusal != nil {
		r.report(a, p.UID, v1.EventTypeWarning, decisionIgnored,
			fmt.Sprintf("%v; the agent of node %s placed the pod itself", a.Refusal, r.node))
	}
	switch {
	case p.Fault != nil:
		reason, text := faultOf(*p.Fault)
		r.report(a, p.UID, v1.EventTypeWarning, reason, fmt.Sprintf("node %s: %s", r.node, text))
	case !p.Decided && a.Refusal == nil && len(p.Holdings) > 0:
		r.report(a, p.UID, v1.EventTypeNormal, placedHere,
			fmt.Sprintf("no scheduler decided what the pod gets, so the agent of node %s did: CPUs %s", r.node, cpusOf(p)))
	}
}

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
	default:
		return sharesCPUs, "too few CPUs are free, so the pod shares CPUs" + because
	}
}

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

func (r *reporter) report(a nri.Arriving, uid, kind, reason, text string) {
	if len(text) > maxMessage {
		text = text[:maxMessage-3] + "..."
	}
	r.log.Info(text, "pod", a.Namespace+"/"+a.Name, "reason", reason)
	now := metav1.NewTime(time.Now())
	e := &v1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, GenerateName: "tenon-agent-"},
		InvolvedObject: v1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: a.Namespace, Name: a.Name,
			UID: types.UID(uid)},
		Reason: reason, Message: text, Type: kind, Count: 1, FirstTimestamp: now, LastTimestamp: now,
		Source: v1.EventSource{Component: "tenon-agent", Host: r.node}, ReportingController: "tenon.sh/agent",
		ReportingInstance: r.node,
	}
	select {
	case r.queue <- e:
	default:
	}
}
