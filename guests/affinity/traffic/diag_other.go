//go:build !linux

package traffic

import (
	"errors"
	"time"
)

// ProcessTime returns 0: there is nothing to measure.
func ProcessTime() time.Duration { return 0 }

// Sockets is the Reader of this kernel. It always returns an error.
func Sockets(string, int, func(Socket)) (whole bool, err error) {
	return false, errors.New("sockets are read on Linux only")
}
