package main

import (
	"errors"
	"io"
	"net"
	"testing"
)

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// What one end sends arrives at the other, and when one end closes the connection, the other end sees it.
func TestServe(t *testing.T) {
	server, between := listen(t), listen(t)
	go func() { _ = serve(between, server.Addr().String()) }()
	client, err := net.Dial("tcp", between.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	served, err := server.Accept()
	if err != nil {
		t.Fatal(err)
	}
	for _, ends := range [][2]net.Conn{{client, served}, {served, client}} {
		if _, err := ends[0].Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 5)
		if _, err := io.ReadFull(ends[1], got); err != nil || string(got) != "hello" {
			t.Errorf("%q arrives (%v)", got, err)
		}
	}
	if err := served.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the connection ends with %v", err)
	}
}

func TestNamesAreRefused(t *testing.T) {
	for _, args := range [][]string{nil, {"localhost:443", "10.0.2.2:6443"}, {"127.0.0.1:0", "server:6443"}} {
		if run(args) == nil {
			t.Errorf("%q are taken", args)
		}
	}
}
