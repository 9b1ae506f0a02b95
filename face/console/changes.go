package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/live"
)

// Times of a stream.
const (
	eventPause = 250 * time.Millisecond // between two events
	heartbeat  = 15 * time.Second       // a comment is sent after this time without an event
	eventWrite = 10 * time.Second       // a client that takes longer for one event is disconnected
)

// changes streams changes of the cluster as server-sent events. The first event makes the client read everything,
// because the client may have missed earlier changes. The stream ends when the API server no longer accepts the
// identity.
func (h *Handler) changes(w http.ResponseWriter, q *request) error {
	ctx, end, ok := h.streams.begin(q.Context(), q.who.person())
	if !ok {
		return fail(http.StatusTooManyRequests, "", "too many pages follow the cluster: close some")
	}
	defer end()
	f := q.who.View.Follow()
	defer f.Close()
	s := &stream{w: w, out: http.NewResponseController(w)}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	state := q.who.View.State()
	if s.send(document.ClusterChange{Version: state.Version, All: true, PodCount: state.Pods,
		Waiting: state.Waiting}) != nil {
		return nil
	}
	for q.who.Valid == nil || q.who.Valid() {
		c, err := next(ctx, f)
		switch {
		case errors.Is(err, errQuiet):
			if s.write(": nothing has changed\n\n") != nil {
				return nil
			}
			continue
		case err != nil:
			return nil // the client has gone, or another person has got its place; see streams
		}
		if s.send(q.who.changeOf(q.who.View.State(), c)) != nil || !pause(ctx, eventPause) {
			return nil
		}
	}
	_ = s.write("event: signedOut\ndata: {}\n\n")
	return nil
}

// errQuiet is the error of next if nothing has changed for the time of a heartbeat.
var errQuiet = errors.New("nothing has changed")

// next returns the next change. It returns errQuiet if nothing changes for the time of a heartbeat.
func next(ctx context.Context, f live.Follower) (live.Change, error) {
	quiet, cancel := context.WithTimeoutCause(ctx, heartbeat, errQuiet)
	defer cancel()
	c, err := f.Next(quiet)
	if err != nil {
		err = context.Cause(quiet)
	}
	return c, err
}

// pause waits for the time d. It returns false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// manyNodes is the largest number of nodes in one event. For more nodes the client reads the overview again, which is
// smaller.
const manyNodes = 500

// changeOf returns the event about a change: the changed nodes as they are in s, and the names of removed ones.
func (i *Identity) changeOf(s live.State, c live.Change) document.ClusterChange {
	out := document.ClusterChange{Version: s.Version, All: c.All || len(c.Nodes) > manyNodes, PodCount: s.Pods,
		Waiting: s.Waiting}
	if out.All {
		return out
	}
	out.Pods = c.Pods
	i.overviews.mu.Lock()
	defer i.overviews.mu.Unlock()
	for _, name := range c.Nodes {
		if n, ok := s.Node(name); ok {
			out.Nodes = append(out.Nodes, overviewOf(n, i.misaligned(n), nil))
		} else {
			out.Gone = append(out.Gone, name)
		}
	}
	return out
}

// stream writes server-sent events.
type stream struct {
	w   http.ResponseWriter
	out *http.ResponseController
}

func (s *stream) send(doc document.ClusterChange) error {
	data, err := json.Marshal(doc)
	if err != nil {
		return fmt.Errorf("encode change: %w", err)
	}
	return s.write(fmt.Sprintf("id: %d\nevent: change\ndata: %s\n\n", doc.Version, data))
}

func (s *stream) write(text string) error {
	if err := s.out.SetWriteDeadline(time.Now().Add(eventWrite)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("set deadline: %w", err)
	}
	if _, err := s.w.Write([]byte(text)); err != nil {
		return fmt.Errorf("write event: %w", err)
	}
	return s.out.Flush()
}
