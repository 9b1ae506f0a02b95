package whole

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// profileSeconds is the duration of a profile.
const profileSeconds = 8

// profile records a scheduler's CPU profile, and writes it to a file of the given name. The context ends the attempt.
func (a *arena) profile(ctx context.Context, of string, s *stage, address string) <-chan error {
	done := make(chan error, 1)
	go func() {
		text, err := fetchProfile(ctx, s, address)
		if err == nil && len(text) > 0 {
			name := strings.ReplaceAll(fmt.Sprintf("%s-%d.pprof", of, len(a.cluster.Nodes)), " ", "-")
			err = os.WriteFile(filepath.Join(a.Profiles, name), text, 0o644)
		}
		done <- err
	}()
	return done
}

// fetchProfile returns nothing if the scheduler ends before the profile does.
func fetchProfile(ctx context.Context, s *stage, address string) ([]byte, error) {
	cfg := rest.CopyConfig(s.plane.admin)
	cfg.TLSClientConfig = rest.TLSClientConfig{Insecure: true} // its certificate is self-signed, for this host only
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("make client for profiles: %w", err)
	}
	tick := time.NewTicker(sampling)
	defer tick.Stop()
	for {
		url := fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", address, profileSeconds)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return nil, err
		}
		resp, err := (&http.Client{Transport: transport}).Do(req)
		if err != nil {
			select {
			case <-tick.C: // it does not listen yet
				continue
			case <-ctx.Done():
				return nil, nil
			}
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			return nil, nil
		}
		if resp.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("get profile: %s: %s", resp.Status, text)
		}
		return text, nil
	}
}
