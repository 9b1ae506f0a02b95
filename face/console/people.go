package console

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/util/flowcontrol"
)

// This file decides who counts as one person, and who gives up a place when all places are taken.

// person returns the name under which requests are counted. All service accounts of a namespace count as one person,
// because a user who may create service accounts there can have any number of names.
func person(name string) string {
	if account, ok := strings.CutPrefix(name, "system:serviceaccount:"); ok {
		namespace, _, _ := strings.Cut(account, ":")
		return "system:serviceaccounts:" + namespace
	}
	return name
}

// givesWay returns the person who gives up a place for newcomer: the one with the most places. held has the number of
// places of each person. ok is false if no person has at least two places more than newcomer, because a person with
// one place more would only change roles with the newcomer.
func givesWay(held map[string]int, newcomer string) (who string, ok bool) {
	most := held[newcomer] + 1
	for _, candidate := range slices.Sorted(maps.Keys(held)) {
		if n := held[candidate]; n > most {
			most, who = n, candidate
		}
	}
	return who, who != ""
}

// rates bounds how many requests each person or address makes per second.
type rates struct {
	each int // requests per second

	mu sync.Mutex
	// recent and older have the limiters by person or address. When recent is full, it becomes older, and the
	// previous older is dropped. So memory is bounded.
	recent, older map[string]flowcontrol.RateLimiter
}

// Bounds of rates.
const (
	bursts     = 6    // a person may make the requests of this many seconds at once, as after a restart of the console
	remembered = 1024 // this many people or addresses, at least, are remembered
)

func newRates(each int) *rates {
	return &rates{each: each, recent: map[string]flowcontrol.RateLimiter{}}
}

// accept reports whether who may make a request now.
func (r *rates) accept(who string) bool { return r.limiter(who).TryAccept() }

// limiter returns the limiter of a person or address, and adds it if it is new.
func (r *rates) limiter(who string) flowcontrol.RateLimiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	own := r.recent[who]
	if own != nil {
		return own
	}
	if own = r.older[who]; own == nil {
		own = flowcontrol.NewTokenBucketRateLimiter(float32(r.each), bursts*r.each)
	}
	if len(r.recent) >= remembered {
		r.older, r.recent = r.recent, map[string]flowcontrol.RateLimiter{}
	}
	r.recent[who] = own
	return own
}

// streams bounds the number of streams of changes. If all places are taken, a newcomer gets a place from the person
// that givesWay returns.
type streams struct {
	mu   sync.Mutex
	all  []openStream // the oldest first
	next int
}

type openStream struct {
	id  int
	who string
	end context.CancelFunc
}

// begin returns the context of a new stream of a person. The context ends when another person gets the stream's
// place. If there is no place, ok is false; otherwise the caller must call end.
func (s *streams) begin(ctx context.Context, who string) (_ context.Context, end func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) >= maxStreams {
		held := map[string]int{}
		for _, x := range s.all {
			held[x.who]++
		}
		from, ok := givesWay(held, who)
		if !ok {
			return nil, nil, false
		}
		i := slices.IndexFunc(s.all, func(x openStream) bool { return x.who == from })
		s.all[i].end()
		s.all = slices.Delete(s.all, i, i+1)
	}
	ctx, cancel := context.WithCancel(ctx)
	s.next++
	id := s.next
	s.all = append(s.all, openStream{id, who, cancel})
	return ctx, func() { s.close(id); cancel() }, true
}

func (s *streams) close(id int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, func(x openStream) bool { return x.id == id })
}
