package console

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/util/flowcontrol"
)

// This file decides who counts as one person, and who has more than a fair share.

// person returns the name under which requests are counted. All service accounts of a namespace are one person: a user
// who may create service accounts there has as many names as he likes.
func person(name string) string {
	if of, ok := strings.CutPrefix(name, "system:serviceaccount:"); ok {
		namespace, _, _ := strings.Cut(of, ":")
		return "system:serviceaccounts:" + namespace
	}
	return name
}

// givesWay returns the person who gives up a place for a newcomer. held has the number of places of each person. The
// person with most places gives one up. ok is false if no person has at least two places more than the newcomer.
func givesWay(held map[string]int, newcomer string) (who string, ok bool) {
	most, at := held[newcomer]+1, ""
	for _, who := range slices.Sorted(maps.Keys(held)) {
		if n := held[who]; n > most {
			most, at = n, who
		}
	}
	return at, at != ""
}

// rates bounds how often each of many people or addresses makes requests.
type rates struct {
	each int // per second

	mu sync.Mutex
	// recent and older are the limits. When recent is full, it replaces older.
	recent, older map[string]flowcontrol.RateLimiter
}

// Bounds of rates.
const (
	bursts     = 6    // seconds' worth that may come at once, as after a restart of the console
	remembered = 1024 // people or addresses that are surely remembered
)

func newRates(each int) *rates {
	return &rates{each: each, recent: map[string]flowcontrol.RateLimiter{}}
}

// accept reports whether who may make a request now.
func (r *rates) accept(who string) bool { return r.of(who).TryAccept() }

func (r *rates) of(who string) flowcontrol.RateLimiter {
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

// streams bounds the streams of changes. Where all places are taken, a newcomer gets a place of the person with most
// streams, unless that would be unfair.
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

// begin returns the context of a person's stream. The context ends when another person needs its place. The caller
// calls end.
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
