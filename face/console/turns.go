package console

import (
	"context"
	"net/http"
	"slices"
	"sync"
)

// turns bounds the work that is done at a time, in all and for each person. Of the waiting people, the one who was
// served least recently is next. So an occasional user waits for the work in progress, but not for the queues of
// others.
type turns struct {
	limit      int // turns at a time; 0: only each person is bounded
	perPerson  int // turns of one person at a time
	maxWaiting int // turns of one person that may wait

	mu   sync.Mutex
	busy int            // turns that are taken
	held map[string]int // turns that each person has taken
	// queues are the waiting turns by person, and order has the people who wait, both in order of arrival.
	queues map[string][]chan struct{}
	order  []string
	served map[string]int // value of count when each person was served last; forgotten when it has too many people
	count  int            // turns that were given so far
}

func newTurns(limit, perPerson, maxWaiting int) *turns {
	return &turns{limit: limit, perPerson: perPerson, maxWaiting: maxWaiting, held: map[string]int{},
		queues: map[string][]chan struct{}{}, served: map[string]int{}}
}

// enter waits for a turn of the person. It returns the error of ctx if ctx ends first, and a failure if too many
// turns of the person wait. Otherwise the caller must call leave.
func (t *turns) enter(ctx context.Context, who string) (leave func(), err error) {
	t.mu.Lock()
	if len(t.queues[who]) >= t.maxWaiting && !t.free(who) {
		t.mu.Unlock()
		return nil, fail(http.StatusTooManyRequests, "", "too many of your requests wait: try again in a second")
	}
	turn := make(chan struct{})
	if len(t.queues[who]) == 0 {
		t.order = append(t.order, who)
	}
	t.queues[who] = append(t.queues[who], turn)
	t.serve()
	t.mu.Unlock()
	leave = sync.OnceFunc(func() { t.leave(who) })
	select {
	case <-turn:
		return leave, nil
	case <-ctx.Done():
		if !t.withdraw(who, turn) {
			leave()
		}
		return nil, ctx.Err()
	}
}

// free reports whether a person may begin now. Callers of free and of serve hold the lock.
func (t *turns) free(who string) bool {
	return (t.limit == 0 || t.busy < t.limit) && t.held[who] < t.perPerson
}

// serve gives turns to waiting people, as far as the bounds allow.
func (t *turns) serve() {
	for {
		i := -1
		for at, who := range t.order {
			if t.free(who) && (i < 0 || t.served[who] < t.served[t.order[i]]) {
				i = at
			}
		}
		if i < 0 {
			return
		}
		who := t.order[i]
		close(t.queues[who][0])
		if len(t.served) >= remembered {
			clear(t.served)
		}
		t.count++
		t.served[who] = t.count
		t.busy++
		t.held[who]++
		t.order = slices.Delete(t.order, i, i+1)
		if t.queues[who] = t.queues[who][1:]; len(t.queues[who]) > 0 {
			t.order = append(t.order, who)
		} else {
			delete(t.queues, who)
		}
	}
}

// withdraw removes a waiting turn. It returns false if the turn was already given.
func (t *turns) withdraw(who string, turn chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.queues[who], turn)
	if i < 0 {
		return false
	}
	if t.queues[who] = slices.Delete(t.queues[who], i, i+1); len(t.queues[who]) == 0 {
		delete(t.queues, who)
		t.order = slices.DeleteFunc(t.order, func(s string) bool { return s == who })
	}
	return true
}

// leave ends a turn of the person, and gives waiting people their turns.
func (t *turns) leave(who string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy--
	if t.held[who]--; t.held[who] == 0 {
		delete(t.held, who)
	}
	t.serve()
}
