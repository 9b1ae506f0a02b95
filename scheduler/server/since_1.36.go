//go:build !upto1.35

package server

import "k8s.io/client-go/tools/events"

// recorder is the type of the recorder of events that scheduler.New takes for each profile.
type recorder = events.EventRecorderLogger
