//go:build upto1.36

package chaos

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/lab"
)

func joinGang(*v1.Pod, string) {}

func (r *run) addGroup(context.Context, string, int) error { return lab.ErrNoGangs }

func (r *run) dropGroup(context.Context, string) error { return lab.ErrNoGangs }
