// Command forward is the service of a real node through which its pods reach the API server: it forwards connections.
//
//	forward LISTEN TO   two addresses, each IP:PORT
//
// It prints "listens" on its standard output, once, and then runs until it is ended. A connection ends in both
// directions when one end has closed it or is lost. It refuses names, and forwards at most maxConnections at a time.
package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
)

const maxConnections = 256

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "forward:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("want LISTEN TO")
	}
	for _, a := range args {
		if _, err := netip.ParseAddrPort(a); err != nil {
			return fmt.Errorf("address %q is not IP:PORT: %w", a, err)
		}
	}
	l, err := net.Listen("tcp", args[0])
	if err != nil {
		return fmt.Errorf("listen at %s: %w", args[0], err)
	}
	fmt.Println("listens")
	return serve(l, args[1])
}

// serve forwards connections until the listener fails.
func serve(l net.Listener, to string) error {
	slots := make(chan struct{}, maxConnections)
	for {
		from, err := l.Accept()
		if err != nil {
			return fmt.Errorf("accept at %s: %w", l.Addr(), err)
		}
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			if err := forward(from, to); err != nil {
				fmt.Fprintln(os.Stderr, "forward:", err)
			}
		}()
	}
}

// forward forwards one connection until one of its ends is closed.
func forward(from net.Conn, address string) error {
	defer from.Close()
	to, err := net.Dial("tcp", address)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", address, err)
	}
	ended := make(chan struct{}, 2)
	for _, ends := range [][2]net.Conn{{from, to}, {to, from}} {
		go func() {
			_, _ = io.Copy(ends[0], ends[1]) // for either direction
			ended <- struct{}{}
		}()
	}
	<-ended
	return to.Close()
}
