package main

import (
	"bufio"
	"io"
	"net"
	"strings"
	"time"
)

// The ports of work MIB talk. Data that arrive at dropPort are dropped. A line that arrives at addressPort is the
// address to which the program sends data from then on.
const (
	dropPort    = ":7"
	addressPort = ":8"
)

// chunk bytes are sent every tick, 4 MB/s: few enough for a guest without hardware acceleration.
const (
	chunk = 64 << 10
	tick  = 16 * time.Millisecond
)

// stopAddress is written to the second port to end the sending.
const stopAddress = "-"

// talk serves both ports and sends data until one port cannot be served. It returns why.
func talk() error {
	to := make(chan string)
	go send(to)
	errs := make(chan error)
	go func() {
		errs <- serve(dropPort, func(c net.Conn) error {
			_, err := io.Copy(io.Discard, c)
			return err
		})
	}()
	go func() {
		errs <- serve(addressPort, func(c net.Conn) error {
			line, err := bufio.NewReader(io.LimitReader(c, 256)).ReadString('\n')
			if err == nil {
				to <- strings.TrimSpace(line)
			}
			return err
		})
	}()
	return <-errs
}

// serve handles the connections of a port. A connection that fails does not affect others.
func serve(port string, handle func(net.Conn) error) error {
	l, err := net.Listen("tcp", port)
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			_ = handle(c) // the other end sees the failure
			_ = c.Close()
		}()
	}
}

// send sends data to the last address that it received, over one connection. If the connection breaks, send opens it
// again.
func send(to <-chan string) {
	data := make([]byte, chunk)
	address := stopAddress
	var c net.Conn
	t := time.NewTicker(tick)
	for {
		select {
		case address = <-to:
			c = hangUp(c)
			continue
		case <-t.C:
		}
		if address == stopAddress {
			continue
		}
		if c == nil {
			c, _ = net.DialTimeout("tcp", address, time.Second) // the next tick tries again
			continue
		}
		if _, err := c.Write(data); err != nil {
			c = hangUp(c)
		}
	}
}

// hangUp closes a connection, if there is one, and returns none.
func hangUp(c net.Conn) net.Conn {
	if c != nil {
		_ = c.Close()
	}
	return nil
}
