package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// An agent that waits for something that never comes ends all the same when it is told to stop.
func TestSignalEndsAStuckAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		stopped, code := false, -1
		endAfter(ctx, func() { stopped = true }, func(c int) { code = c })
		time.Sleep(time.Hour)
		synctest.Wait()
		if stopped || code != -1 {
			t.Errorf("before any signal: stopped %v, exit %d", stopped, code)
		}
		cancel()
		synctest.Wait()
		if !stopped || code != -1 {
			t.Errorf("after the signal: stopped %v, exit %d", stopped, code)
		}
		time.Sleep(stopTime)
		synctest.Wait()
		if code != 1 {
			t.Errorf("%s after the signal: exit %d", stopTime, code)
		}
	})
}
