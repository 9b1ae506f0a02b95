package console

import (
	"context"
	"errors"
	"net/netip"
	"time"
)

// Bounds of the checks of credentials that have no session. Each check costs a request to the API server.
const (
	checking = 4 // credentials that are checked at a time
	// afterBad is the time for which a wrong credential keeps its place. So at most 200 wrong credentials are checked
	// in a second. Other clients are not refused meanwhile; they wait in turn, by address.
	afterBad = 20 * time.Millisecond
)

// checks bounds the checking of credentials: a few at a time, in turn by address. As many may wait as there may be
// connections, so none is refused for lack of room. Credentials from one address are checked in order of arrival,
// even if many clients share that address, as behind an ingress.
type checks struct{ *turns }

func newChecks() checks { return checks{newTurns(checking, checking, maxConns)} }

// do checks a credential that came from an address, "IP:port", by calling examine. It returns the error of the
// context if its turn does not come before ctx ends, or within maxAnswer.
func (c checks) do(ctx context.Context, remote string, examine func() (*Identity, error)) (*Identity, error) {
	ctx, cancel := context.WithTimeout(ctx, maxAnswer)
	defer cancel()
	leave, err := c.enter(ctx, network(remote).String())
	if err != nil {
		return nil, err
	}
	who, err := examine()
	if errors.Is(err, ErrSignIn) {
		time.AfterFunc(afterBad, leave)
	} else {
		leave()
	}
	return who, err
}

// network returns the address of a client. For IPv6 it returns the /64, because its owner can use every address in
// that network. Clients whose address cannot be parsed count as one.
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
