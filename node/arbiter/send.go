package arbiter

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/objects"
)

// maxEvents bounds the events that wait to be sent. What is beyond is in the log alone.
const maxEvents = 128

// The pauses between attempts to send an event double from the first to the longest.
const (
	firstPause = 200 * time.Millisecond
	lastPause  = 30 * time.Second
)

// sender sends events in their order, each until the API server has it or refuses it.
type sender struct {
	events *objects.Client[*v1.Event, *v1.EventList]
	queue  chan *v1.Event
	log    logr.Logger
}

func newSender(events *objects.Client[*v1.Event, *v1.EventList], log logr.Logger) *sender {
	return &sender{events, make(chan *v1.Event, maxEvents), log}
}

// send queues an event. It returns at once.
func (s *sender) send(e *v1.Event) {
	select {
	case s.queue <- e:
	default:
	}
}

// run sends events until ctx ends.
func (s *sender) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-s.queue:
			s.deliver(ctx, e)
		}
	}
}

// deliver sends one event. While the API server is away, or does not let the agent write events, it tries again.
func (s *sender) deliver(ctx context.Context, e *v1.Event) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		_, err := s.events.In(e.Namespace).Create(ctx, e, metav1.CreateOptions{})
		switch {
		case err == nil || apierrors.IsAlreadyExists(err):
			return
		case !again(err):
			s.log.Error(err, "the API server takes no event about the pod; what it says is in this log, too",
				"pod", e.Namespace+"/"+e.InvolvedObject.Name)
			return
		case pause == firstPause && ctx.Err() == nil:
			s.log.Error(err, "cannot write events yet; what they say is in this log, too")
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// again reports whether an event may be taken later. It may not where the event is wrong or its namespace ends. A right
// that is missing may be given.
func again(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return true // the API server was not reached
	}
	switch code := status.Status().Code; {
	case apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause):
		return false
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusTooManyRequests:
		return true
	default:
		return code >= http.StatusInternalServerError
	}
}
