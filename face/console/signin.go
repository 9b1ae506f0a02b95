package console

import (
	"context"
	"errors"
	"net/netip"
	"time"
)

// Bounds of credentials without a session: each one costs a request to the API server.
const (
	checking = 4 // credentials that are examined at a time
	// afterBad is how long a wrong credential occupies its place: at most 200 wrong ones are examined in a second.
	// Meanwhile no client is refused: newcomers wait in turn, by address.
	afterBad = 20 * time.Millisecond
)

// checks examines credentials, a few at a time. A correct credential from a shared address, such as an ingress, waits
// at most for the credentials of the open connections.
type checks struct{ *turns }

func newChecks() checks { return checks{newTurns(checking, checking, maxConns)} }

// do examines a credential that came from an address, "IP:port".
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

// network returns the address of a client, or the /64 of an IPv6 address, because its owner can use every address in
// it. Clients without an address count as one.
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
