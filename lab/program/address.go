package program

import (
	"fmt"
	"net"
)

// Host is the address on which child programs listen. No client connects from it: on 127.0.0.1, a client could take the
// port that was chosen for a program.
const Host = "127.0.0.2"

// FreePort returns a port of [Host] on which nothing listens, for a program that takes no listener. Another program may
// take the port before that; the program then ends with an error.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", Host+":0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}
