//go:build upto1.36

package live

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
)

// HasGangs is true if the release of Kubernetes has the API for gangs of [Groups].
const HasGangs = false

// groupAPIs are the APIs that gangs need at the API server.
var groupAPIs []string

// EnableGangs does nothing: before 1.37, the API of gangs is another one.
func EnableGangs() error { return nil }

// podGroups are Kubernetes' PodGroups.
type podGroups struct{}

// Create implements Groups.
func (podGroups) Create(context.Context, Clients, string, int) error {
	return errors.New("gangs need Kubernetes 1.37 or later")
}

// Join implements Groups.
func (podGroups) Join(*v1.Pod, string) {}
