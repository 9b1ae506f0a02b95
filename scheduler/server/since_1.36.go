//go:build !upto1.35

package server

import "k8s.io/client-go/tools/events"

// recorder is what a profile records events with.
type recorder = events.EventRecorderLogger
