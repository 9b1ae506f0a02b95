//go:build upto1.36

package chaos

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
)

var gangAPIs []string

var errNoGangs = errors.New("gangs need Kubernetes 1.37 or later")

// EnableGangs fails: before 1.37, the API of gangs is another one.
func EnableGangs() error { return errNoGangs }

func joinGang(*v1.Pod, string) {}

func (r *run) addGroup(context.Context, string, int) error { return errNoGangs }

func (r *run) dropGroup(context.Context, string) error { return errNoGangs }
