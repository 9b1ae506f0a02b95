//go:build !linux

package traffic

import (
	"errors"
	"time"
)

// ProcessTime is the CPU time that the process has used.
func ProcessTime() time.Duration { return 0 }

// Sockets is the Reader of this kernel, which is none.
func Sockets(string, int, func(Socket)) (whole bool, err error) {
	return false, errors.New("sockets are read on Linux only")
}
