package guest

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// Bounds on data through the serial port, in bytes. The port is slow, so larger data are files.
const (
	MaxScript = 32 << 10
	MaxOutput = 8 << 20
	maxLine   = 4 << 10
)

// ExitError is a script that failed.
type ExitError struct {
	Status int
	Output string
}

func (e *ExitError) Error() string {
	return fmt.Sprintf("script in guest: exit status %d:\n%s", e.Status, lastLines(e.Output, 20))
}

// shell is the host's end of the serial port on which the guest receives scripts; serve.sh is the guest's end. A
// request is a line "TAG SCRIPT"; the answer is "TAG begin", the output, and "TAG end STATUS SIZE". Script and output
// are in base64, and the output is compressed first, so that no text in them looks like an answer.
type shell struct {
	conn     net.Conn
	in       *bufio.Reader
	requests int // so far
}

func newShell(conn net.Conn) *shell {
	return &shell{conn: conn, in: bufio.NewReaderSize(conn, maxLine)}
}

func (s *shell) close() error { return s.conn.Close() }

// boundBy makes reads and writes fail once a context ends, until the returned function is called.
func (s *shell) boundBy(ctx context.Context) (release func()) {
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		_ = s.conn.SetDeadline(time.Unix(1, 0)) // it fails on a closed connection only, which ends reading, too
	})
	return func() {
		if !stop() {
			<-ended
			_ = s.conn.SetDeadline(time.Time{})
		}
	}
}

// awaitReady waits for the guest's first line.
func (s *shell) awaitReady(ctx context.Context) error {
	defer s.boundBy(ctx)()
	return s.skipTo("guest ready")
}

// send sends a script, and returns its tag.
func (s *shell) send(script string) (tag string, err error) {
	s.requests++
	tag = fmt.Sprintf("r%d", s.requests)
	_, err = fmt.Fprintf(s.conn, "%s %s\n", tag, base64.StdEncoding.EncodeToString([]byte(script)))
	return tag, err
}

// sendOnly sends a script that does not answer.
func (s *shell) sendOnly(ctx context.Context, script string) error {
	defer s.boundBy(ctx)()
	_, err := s.send(script)
	return err
}

// run sends a script and returns its output. If the context ends first, the script's answer stays in the connection,
// and the next call skips it.
func (s *shell) run(ctx context.Context, script string) (string, error) {
	if len(script) > MaxScript {
		return "", fmt.Errorf("a script of %d bytes, the most is %d: put it in a file", len(script), MaxScript)
	}
	defer s.boundBy(ctx)()
	tag, err := s.send(script)
	if err != nil {
		return "", err
	}
	// Earlier lines answer a request whose context ended.
	if err := s.skipTo(tag + " begin"); err != nil {
		return "", err
	}
	var encoded bytes.Buffer
	for {
		line, err := s.readLine()
		if err != nil {
			return "", err
		}
		var status, size int
		if n, _ := fmt.Sscanf(line, tag+" end %d %d", &status, &size); n == 2 {
			return decodeAnswer(encoded.Bytes(), status, size)
		}
		if encoded.Len() > 2*MaxOutput {
			return "", fmt.Errorf("more output than %d bytes", MaxOutput)
		}
		encoded.WriteString(line)
	}
}

// decodeAnswer decodes the result of a script.
func decodeAnswer(encoded []byte, status, size int) (string, error) {
	if size > MaxOutput {
		return "", fmt.Errorf("%d bytes of output, the most is %d", size, MaxOutput)
	}
	z, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, bytes.NewReader(encoded)))
	if err != nil {
		return "", fmt.Errorf("read output: %w", err)
	}
	out, err := io.ReadAll(io.LimitReader(z, MaxOutput+1))
	if err != nil {
		return "", fmt.Errorf("read output: %w", err)
	}
	if len(out) != size {
		return "", fmt.Errorf("read output: %d bytes came, the guest sent %d", len(out), size)
	}
	if status != 0 {
		return string(out), &ExitError{status, string(out)}
	}
	return string(out), nil
}

func (s *shell) skipTo(want string) error {
	for {
		if line, err := s.readLine(); err != nil {
			return err
		} else if line == want {
			return nil
		}
	}
}

// readLine reads one line without its end. A line of more than maxLine bytes is returned in pieces; no answer has
// such a line.
func (s *shell) readLine() (string, error) {
	line, err := s.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		err = nil
	}
	return strings.TrimRight(string(line), "\r\n"), err
}
