package guest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// Bounds on what is kept of a console: in memory its end, in the file its beginning.
const (
	consoleTail = 64 << 10
	consoleFile = 8 << 20
)

// console takes what the guest's first serial port shows.
type console struct {
	mu   sync.Mutex
	tail []byte
	file *os.File // nil: none, or closed
	left int      // bytes that the file may still take
}

func newConsole(dir string) (*console, error) {
	c := &console{}
	if dir == "" {
		return c, nil
	}
	f, err := os.OpenFile(filepath.Join(dir, "console.log"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the console's log: %w", err)
	}
	c.file, c.left = f, consoleFile
	return c, nil
}

// Write never fails: a guest is not stopped for a full disk.
func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tail = append(c.tail, p...)
	c.tail = c.tail[max(0, len(c.tail)-consoleTail):]
	if c.file != nil && c.left > 0 {
		n, _ := c.file.Write(p[:min(len(p), c.left)])
		c.left -= n
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
