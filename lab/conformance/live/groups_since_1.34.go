//go:build upto1.36

package live

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/lab"
)

// podGroups are Kubernetes' PodGroups.
type podGroups struct{}

// Create implements Groups.
func (podGroups) Create(context.Context, Clients, string, int) error {
	return lab.ErrNoGangs
}

// Join implements Groups.
func (podGroups) Join(*v1.Pod, string) {}
