package arbiter

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/objects"
)

// maxEvents bounds the events that wait to be sent. Events beyond the bound are only in the log.
const maxEvents = 128

// The pauses between attempts to send an event; they double from the first to the longest.
const (
	firstPause = 200 * time.Millisecond
	lastPause  = 30 * time.Second
)

// When the API server forbids an event, the sender tries it triesAtOnce times, because the agent may soon get the
// right to create events. Then it sets the events of the namespace aside, and tries again every lastPause. After
// triesAside tries without success it drops them, because a quota or a policy may forbid them permanently.
const (
	triesAtOnce = 3
	triesAside  = 20
)

// sender sends events to the API server, and retries each until the API server accepts or refuses it. Events of one
// namespace are sent in the order in which they were queued.
type sender struct {
	events *objects.Client[*v1.Event, *v1.EventList]
	queue  chan *v1.Event
	aside  map[string]*forbidden // by namespace
	log    logr.Logger
}

// forbidden are the events of a namespace that the API server forbids.
type forbidden struct {
	events []*v1.Event
	tries  int
}

func newSender(events *objects.Client[*v1.Event, *v1.EventList], log logr.Logger) *sender {
	return &sender{events, make(chan *v1.Event, maxEvents), map[string]*forbidden{}, log}
}

// send queues an event, or drops it if the queue is full. It returns at once.
func (s *sender) send(e *v1.Event) {
	select {
	case s.queue <- e:
	default:
	}
}

// run sends events until ctx ends.
func (s *sender) run(ctx context.Context) {
	tick := time.NewTicker(lastPause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.retry(ctx)
		case e := <-s.queue:
			if f := s.aside[e.Namespace]; f != nil || !s.deliver(ctx, e, triesAtOnce) {
				s.keep(e)
			}
		}
	}
}

// keep sets aside an event in a namespace whose events the API server forbids. It drops the event if maxEvents are set
// aside already.
func (s *sender) keep(e *v1.Event) {
	waiting := 0
	for _, f := range s.aside {
		waiting += len(f.events)
	}
	if waiting >= maxEvents {
		return
	}
	f := s.aside[e.Namespace]
	if f == nil {
		f = &forbidden{}
		s.aside[e.Namespace] = f
	}
	f.events = append(f.events, e)
}

// retry sends the events that were set aside.
func (s *sender) retry(ctx context.Context) {
	for _, namespace := range slices.Sorted(maps.Keys(s.aside)) {
		f := s.aside[namespace]
		for len(f.events) > 0 && s.deliver(ctx, f.events[0], 1) {
			f.events, f.tries = f.events[1:], 0
		}
		if f.tries++; len(f.events) == 0 {
			delete(s.aside, namespace)
		} else if f.tries >= triesAside {
			s.log.Info("the API server forbids events; what they say is in this log, too", "namespace", namespace,
				"events", len(f.events))
			delete(s.aside, namespace)
		}
	}
}

// deliver sends one event, and retries while the API server does not answer or may still accept it. It returns false
// if the API server has forbidden the event for the given number of attempts. It returns true if the event was
// accepted or refused permanently, or if ctx has ended.
func (s *sender) deliver(ctx context.Context, e *v1.Event, times int) bool {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		_, err := s.events.In(e.Namespace).Create(ctx, e, metav1.CreateOptions{})
		switch {
		case err == nil || apierrors.IsAlreadyExists(err):
			return true
		case !retryable(err):
			s.log.Error(err, "the API server takes no event about the pod; what it says is in this log, too",
				"pod", e.Namespace+"/"+e.InvolvedObject.Name)
			return true
		case pause == firstPause && ctx.Err() == nil:
			s.log.Error(err, "cannot write events yet; what they say is in this log, too")
		}
		if apierrors.IsForbidden(err) {
			if times--; times <= 0 {
				return false
			}
		}
		select {
		case <-ctx.Done():
			return true
		case <-time.After(pause):
		}
	}
}

// retryable reports whether the API server may accept an event later. It never accepts a wrong event, or an event in
// a namespace that is being deleted. It may accept an event once the agent has a missing right.
func retryable(err error) bool {
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
