package kube

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
)

// This file notices that a cluster changes, for tools that then read it again.

// rewatch is the pause before a watch that has ended begins again.
const rewatch = time.Second

// watcher begins a watch of one resource.
type watcher func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)

// Changes returns a channel that receives after nodes, layouts or pods have changed, until ctx ends. Several changes
// may be one receive. The error is that of the first watch; later watches begin again after errors.
func (r *Reader) Changes(ctx context.Context) (<-chan struct{}, error) {
	out := make(chan struct{}, 1)
	for what, begin := range map[string]watcher{"node layouts": r.layouts.Watch, "nodes": r.cluster.Nodes.Watch,
		"pods": r.cluster.Pods.Watch} {
		w, err := begin(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("watch %s: %w", what, err)
		}
		go follow(ctx, w, begin, out)
	}
	return out, nil
}

// follow passes on that something has changed. A watch without a version begins with what is there, so nothing is
// missed between two of them.
func follow(ctx context.Context, w watch.Interface, begin watcher, changed chan<- struct{}) {
	_ = wait.PollUntilContextCancel(ctx, rewatch, true, func(ctx context.Context) (bool, error) {
		if w == nil {
			var err error
			if w, err = begin(ctx, metav1.ListOptions{}); err != nil {
				w = nil
				return false, nil
			}
		}
		for range w.ResultChan() {
			select {
			case changed <- struct{}{}:
			default: // a receive is due
			}
		}
		w = nil
		return false, nil
	})
}
