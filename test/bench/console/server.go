package console

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// server is the console in a process of its own.
type server struct {
	cmd     *exec.Cmd
	address string // the URL that signs a browser in; it contains the secret
}

const kubeconfig = `apiVersion: v1
kind: Config
current-context: bench
contexts: [{name: bench, context: {cluster: bench, user: bench}}]
clusters: [{name: bench, cluster: {server: %q}}]
users: [{name: bench, user: {}}]
`

// start builds and starts the console for an API server.
func start(ctx context.Context, dir, api string) (*server, error) {
	program, err := build(ctx, dir)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(file, fmt.Appendf(nil, kubeconfig, api), 0o600); err != nil {
		return nil, fmt.Errorf("write the kubeconfig: %w", err)
	}
	s := &server{cmd: exec.CommandContext(ctx, program, "console", "--no-browser")}
	s.cmd.Env = append(os.Environ(), "KUBECONFIG="+file)
	s.cmd.Stderr = os.Stderr
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("read the console's output: %w", err)
	}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the console: %w", err)
	}
	lines := bufio.NewScanner(out)
	for s.address == "" && lines.Scan() {
		s.address = regexp.MustCompile(`http://127\.0\.0\.1:\S+`).FindString(lines.Text())
	}
	if s.address == "" {
		return nil, errors.Join(errors.New("the console ended without an address"), s.cmd.Wait())
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return s, nil
}

// stop interrupts the console and waits for its end. A non-zero exit status is no error, because the interrupt can
// cause one.
func (s *server) stop() error {
	if err := s.cmd.Process.Signal(syscall.SIGINT); err != nil {
		return fmt.Errorf("end the console: %w", err)
	}
	var ended *exec.ExitError
	if err := s.cmd.Wait(); err != nil && !errors.As(err, &ended) {
		return fmt.Errorf("end the console: %w", err)
	}
	return nil
}

// memory reads a size from the process's status, in bytes: VmRSS is the present resident memory, and VmHWM its peak.
func (s *server) memory(name string) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("read the console's memory: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("read the console's memory: %w", err)
			}
			return kb << 10, nil
		}
	}
	return 0, fmt.Errorf("read the console's memory: no line %s", name)
}
