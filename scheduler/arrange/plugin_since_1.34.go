//go:build upto1.36

package arrange

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// New returns an error: before 1.37 no profile needs the plugin.
func New(context.Context, runtime.Object, fwk.Handle, Planner) (fwk.Plugin, error) {
	return nil, errors.New("plugin " + Name + " needs a scheduler of Kubernetes 1.37 or later: remove it from the profile")
}

// Planned returns false.
func Planned(fwk.CycleState) bool { return false }

// Placed records that a pod was reserved.
func Placed(fwk.CycleState, string, func() int64) {}
