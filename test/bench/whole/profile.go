package whole

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// profileSeconds is the duration of a profile.
const profileSeconds = 8

// profile records the CPU profile of a program that serves at address, and writes it to a file whose name begins with
// the given name. It returns at once; the channel receives the result. If the context ends first, no file is written.
func (a *arena) profile(ctx context.Context, contender string, s *stage, address string) <-chan error {
	done := make(chan error, 1)
	go func() {
		text, err := fetchProfile(ctx, s, address)
		if err == nil && len(text) > 0 {
			err = os.WriteFile(a.profileName(contender, "pprof"), text, 0o644)
		}
		done <- err
	}()
	return done
}

// writeProfiles writes a scheduler's metrics, a profile of its memory, and the bindings of a round into the folder of
// profiles. The bindings show which pods were bound last.
func (a *arena) writeProfiles(ctx context.Context, contender string, s *stage, address string,
	bindings []binding) error {
	if a.Profiles == "" {
		return nil
	}
	var lines strings.Builder
	for _, b := range bindings {
		fmt.Fprintf(&lines, "%.3f\t%s\t%s\n", b.at.Sub(bindings[0].at).Seconds(), b.pod, b.node)
	}
	if err := os.WriteFile(a.profileName(contender, "bindings"), []byte(lines.String()), 0o644); err != nil {
		return fmt.Errorf("write bindings: %w", err)
	}
	for _, kind := range []struct{ name, path string }{{"metrics", "/metrics"}, {"heap", "/debug/pprof/heap"}} {
		text, err := fetch(ctx, s, address+kind.path)
		if err != nil {
			return fmt.Errorf("read %s of %s: %w", kind.name, contender, err)
		}
		if err := os.WriteFile(a.profileName(contender, kind.name), text, 0o644); err != nil {
			return fmt.Errorf("write %s: %w", kind.name, err)
		}
	}
	return nil
}

// profileName returns the path of a file in the folder of profiles. The name consists of a scheduler, the number of
// nodes, and the kind of data.
func (a *arena) profileName(contender, kind string) string {
	name := fmt.Sprintf("%s-%d.%s", contender, len(a.cluster.Nodes), kind)
	return filepath.Join(a.Profiles, strings.ReplaceAll(name, " ", "-"))
}

// fetchProfile waits until the scheduler listens, and returns a CPU profile. It returns nothing if the scheduler or the
// context ends first.
func fetchProfile(ctx context.Context, s *stage, address string) ([]byte, error) {
	tick := time.NewTicker(sampling)
	defer tick.Stop()
	for {
		text, err := fetch(ctx, s, fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", address, profileSeconds))
		var unanswered *url.Error
		if !errors.As(err, &unanswered) {
			return text, err
		}
		select {
		case <-tick.C: // it does not listen yet
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// fetch returns what a scheduler serves at an address, or nil without an error if the scheduler ends while it
// answers.
func fetch(ctx context.Context, s *stage, address string) ([]byte, error) {
	cfg := rest.CopyConfig(s.plane.admin)
	cfg.TLSClientConfig = rest.TLSClientConfig{Insecure: true} // its certificate is self-signed, for this host only
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, nil
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("get %s: %s: %s", address, resp.Status, text)
	}
	return text, nil
}
