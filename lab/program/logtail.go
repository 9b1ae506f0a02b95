package program

import (
	"bytes"
	"io"
	"os"
	"strings"
)

// Bounds of what LogTail reads and returns. After a panic it returns twice as many lines.
const (
	maxBytes = 256 << 10
	maxLines = 15
)

// LogTail returns the last lines of a log. If a Go program has written a panic or a fatal error there, it returns the
// lines from the first one on instead, because stacks of hundreds of goroutines may follow, and other processes may
// write to the same log. If the log cannot be read, it returns the error as text.
func LogTail(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > maxBytes {
		if _, err := f.Seek(-maxBytes, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	text, err := io.ReadAll(io.LimitReader(f, maxBytes))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(string(bytes.TrimSpace(text)), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			return strings.Join(lines[i:min(len(lines), i+2*maxLines)], "\n")
		}
	}
	return strings.Join(lines[max(0, len(lines)-maxLines):], "\n")
}
