package console

import (
	"net/netip"
	"sync"

	"k8s.io/client-go/util/flowcontrol"
)

// Bounds of attempts.
const (
	bursts    = 10   // seconds' worth of attempts that may come at once, as after a restart of the console
	together  = 3    // times what one address may try are what all may try together
	addresses = 1024 // that are remembered for certain
)

// attempts bounds how often credentials are tried that belong to no session: each costs a request to the API server.
// One address cannot use up what others may try.
type attempts struct {
	each int // attempts a second
	all  flowcontrol.RateLimiter

	mu sync.Mutex
	// recent and older are the addresses' own limits. When recent is full, it replaces older.
	recent, older map[netip.Prefix]flowcontrol.RateLimiter
}

func newAttempts(each int) *attempts {
	return &attempts{each: each, all: limit(together * each), recent: map[netip.Prefix]flowcontrol.RateLimiter{}}
}

func limit(perSecond int) flowcontrol.RateLimiter {
	return flowcontrol.NewTokenBucketRateLimiter(float32(perSecond), bursts*perSecond)
}

// accept reports whether a client may try a credential now. remote is its "IP:port".
func (a *attempts) accept(remote string) bool {
	return a.of(network(remote)).TryAccept() && a.all.TryAccept()
}

// alone is accept without regard to what all try together.
func (a *attempts) alone(remote string) bool { return a.of(network(remote)).TryAccept() }

func (a *attempts) of(p netip.Prefix) flowcontrol.RateLimiter {
	a.mu.Lock()
	defer a.mu.Unlock()
	own := a.recent[p]
	if own != nil {
		return own
	}
	if own = a.older[p]; own == nil {
		own = limit(a.each)
	}
	if len(a.recent) >= addresses {
		a.older, a.recent = a.recent, map[netip.Prefix]flowcontrol.RateLimiter{}
	}
	a.recent[p] = own
	return own
}

// network returns the address of a client, or the /64 of an IPv6 address, whose owner can use every address in it.
// Clients without an address are one.
func network(remote string) netip.Prefix {
	from, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	ip, bits := from.Addr().Unmap(), 64
	if ip.Is4() {
		bits = 32
	}
	p, err := ip.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}
