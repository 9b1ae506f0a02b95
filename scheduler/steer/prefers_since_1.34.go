//go:build upto1.34

package steer

import (
	"context"
	"math"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// prefers returns the same for all attempts: the wrapped plugin of this release gives no scores.
func (p *Plugin) prefers(context.Context, *attempt, *v1.Pod, fwk.NodeInfo) int64 {
	return math.MaxInt64
}
