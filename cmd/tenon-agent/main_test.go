package main

import (
	"bytes"
	"context"
	"io"
	"regexp"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// An agent that waits for something that never happens still ends after a signal.
func TestSignalEndsAStuckAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var stopped atomic.Bool
		var code atomic.Int64
		code.Store(-1)
		endAfter(ctx, func() { stopped.Store(true) }, func(c int) { code.Store(int64(c)) })
		time.Sleep(time.Hour)
		synctest.Wait()
		if stopped.Load() || code.Load() != -1 {
			t.Errorf("before any signal: stopped %v, exit %d", stopped.Load(), code.Load())
		}
		cancel()
		synctest.Wait()
		if !stopped.Load() || code.Load() != -1 {
			t.Errorf("after the signal: stopped %v, exit %d", stopped.Load(), code.Load())
		}
		time.Sleep(stopTime)
		synctest.Wait()
		if code.Load() != 1 {
			t.Errorf("%s after the signal: exit %d", stopTime, code.Load())
		}
	})
}

func TestVersion(t *testing.T) {
	var out bytes.Buffer
	err := run(t.Context(), []string{"--version"}, env{}, &out, io.Discard)
	want := regexp.MustCompile(`^tenon-agent \S+ \(.*Kubernetes 1\.\d+\.\d+, go1\.\d+.*\)\n$`)
	if err != nil || !want.MatchString(out.String()) {
		t.Errorf("--version prints %q, %v, want %s", out.String(), err, want)
	}
}
