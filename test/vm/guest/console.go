package guest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// Bounds on the kept part of a console: the end in memory, the beginning in the file.
const (
	maxTail    = 64 << 10
	maxLogFile = 8 << 20
)

// console receives the output of the guest's first serial port.
type console struct {
	mu        sync.Mutex
	tail      []byte
	file      *os.File // nil: none, or closed
	fileSpace int      // bytes that the file may still take
	// hung is closed when the kernel reports that a CPU has been stuck for a minute; stuck is set then.
	hung  chan struct{}
	stuck bool
}

// ErrHung is a guest that hangs. This happens now and then if QEMU emulates several CPUs by several threads on a busy
// host with fewer CPUs; another boot succeeds.
var ErrHung = errors.New("the guest's CPUs are stuck")

// lockupMessage matches the message of Linux' watchdog, which repeats it every half minute while a CPU is stuck.
var lockupMessage = regexp.MustCompile(`soft lockup - CPU#[0-9]+ stuck for ([0-9]+)s`)

// maxLockupSeconds is how many seconds a CPU may be stuck before the guest counts as hung. On a busy host, a CPU of a
// healthy guest may be stuck for some twenty seconds.
const maxLockupSeconds = 60

func newConsole(dir string) (*console, error) {
	c := &console{hung: make(chan struct{})}
	if dir == "" {
		return c, nil
	}
	f, err := os.OpenFile(filepath.Join(dir, "console.log"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the console's log: %w", err)
	}
	c.file, c.fileSpace = f, maxLogFile
	return c, nil
}

// Write never fails, because a full disk must not stop a guest.
func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tail = append(c.tail, p...)
	c.tail = c.tail[max(0, len(c.tail)-maxTail):]
	if !c.stuck && bytes.Contains(c.tail, []byte("soft lockup")) {
		for _, m := range lockupMessage.FindAllSubmatch(c.tail, -1) {
			if n, err := strconv.Atoi(string(m[1])); !c.stuck && (err != nil || n >= maxLockupSeconds) {
				c.stuck = true
				close(c.hung)
			}
		}
	}
	if c.file != nil && c.fileSpace > 0 {
		n, _ := c.file.Write(p[:min(len(p), c.fileSpace)])
		c.fileSpace -= n
	}
	return len(p), nil
}

func (c *console) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.ReplaceAll(string(c.tail), "\r", "")
}

func (c *console) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file == nil {
		return nil
	}
	err := c.file.Close()
	c.file = nil
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}
