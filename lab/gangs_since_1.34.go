//go:build upto1.36

package lab

import "errors"

// HasGangs is true if the release of Kubernetes has the API of gangs that Tenon reads.
const HasGangs = false

// GangAPIs are the APIs that gangs need at the API server; see [Config].
var GangAPIs []string

// ErrNoGangs is the error of releases without gangs.
var ErrNoGangs = errors.New("gangs need Kubernetes 1.37 or later")

// EnableGangs fails: before 1.37, the API of gangs is another one.
func EnableGangs() error { return ErrNoGangs }

// GangsEnabled reports whether this process has enabled gangs.
func GangsEnabled() bool { return false }
