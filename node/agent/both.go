package agent

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/core/state"
)

// Both publishes the objects of two publishers: first the object of the embedded Publisher, then the object of
// Second. The agent watches only the first object. If another writer changes the second object, the agent corrects it
// when it next reads the published objects.
type Both struct {
	Publisher
	Second Publisher
}

// Publish publishes both objects, the second one also if the first fails. It returns the first object; wrote is true if
// either was written.
func (b *Both) Publish(ctx context.Context, n *state.Node, meta metav1.ObjectMeta, read *metav1.GetOptions) (
	object metav1.Object, wrote bool, err error) {
	object, wrote, err = b.Publisher.Publish(ctx, n, meta, read)
	_, wroteSecond, secondErr := b.Second.Publish(ctx, n, meta, read)
	return object, wrote || wroteSecond, errors.Join(err, secondErr)
}
