package kube

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
)

// This file reports that a cluster has changed, to tools that then read it again.

// rewatch is the pause before an ended watch is started again.
const rewatch = time.Second

// watcher starts a watch of one resource.
type watcher func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)

// Changes returns a channel that receives after nodes, layouts or pods have changed, until ctx ends. One receive may
// stand for several changes. The error is the error of the first watches; later watches are started again after errors.
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

// follow sends to changed after each event of w and, after w has ended, of further watches that begin starts. A watch
// without a resource version begins with the existing objects as events. So a change between two watches is not
// missed.
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
			default: // a receive is pending
			}
		}
		w = nil
		return false, nil
	})
}
