package agent

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/core/state"
)

// Both publishes a second object after the first. The agent watches the first one only: a change of the second by
// others is found when the objects are read again.
type Both struct {
	Publisher
	Second Publisher
}

// Publish publishes both, the second one also if the first fails.
func (b *Both) Publish(ctx context.Context, n *state.Node, meta metav1.ObjectMeta, read *metav1.GetOptions) (
	object metav1.Object, wrote bool, err error) {
	object, wrote, err = b.Publisher.Publish(ctx, n, meta, read)
	_, also, second := b.Second.Publish(ctx, n, meta, read)
	return object, wrote || also, errors.Join(err, second)
}
