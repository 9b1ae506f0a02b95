package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/core/state"
)

// Seen are the namespaces whose pods were read. Nil means all namespaces.
//
// An identity that may read the pods of some namespaces only still reads the layouts, which list the holdings of all
// pods. If a layout lists a pod of another namespace, the pod counts as existing: it holds what the layout lists, and
// its node is not in doubt.
type Seen struct {
	Namespaces []string // ascending
}

// Has reports whether the pods of a namespace were read.
func (s *Seen) Has(namespace string) bool {
	return s == nil || slices.Contains(s.Namespaces, namespace)
}

// Text describes what was not read and how answers suffer from it; "" if all was read.
func (s *Seen) Text() string {
	of := ": "
	switch {
	case s == nil:
		return ""
	case len(s.Namespaces) > 0:
		of = " of other namespaces than " + strings.Join(s.Namespaces, ", ") + ": of those "
	}
	return "you may not list pods" + of + "only what layouts list counts, so a node may have less left than is said " +
		"here: plain amounts and host ports of other pods, and pods that were bound a moment ago, do not count"
}

// gone reports whether a pod that a node reports has ended or was deleted by force: the pods of its namespace were
// read, and it is not among them. known is true if the pod was read.
func (s *Seen) gone(id state.PodID, known bool) bool { return !known && s.Has(id.Namespace) }

// Within adds namespaces whose pods the reader lists if it may not list the pods of all.
func (r *Reader) Within(namespaces ...string) {
	r.within = slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(slices.Concat(r.within, namespaces)))),
		func(name string) bool { return name == "" })
}

// pods lists the pods of all namespaces or, if that is forbidden, the pods of each namespace of Within that it may
// list; seen then names these, perhaps none.
func (r *Reader) pods(ctx context.Context) (out []v1.Pod, seen *Seen, err error) {
	all, err := r.cluster.Pods.List(ctx, metav1.ListOptions{})
	if err == nil {
		return all.Items, nil, nil
	}
	if !apierrors.IsForbidden(err) {
		return nil, nil, fmt.Errorf("list pods: %w", err)
	}
	seen = &Seen{}
	for _, namespace := range r.within {
		some, listErr := r.cluster.Pods.In(namespace).List(ctx, metav1.ListOptions{})
		if apierrors.IsForbidden(listErr) {
			continue
		}
		if listErr != nil {
			return nil, nil, fmt.Errorf("list pods in namespace %s: %w", namespace, listErr)
		}
		out, seen.Namespaces = append(out, some.Items...), append(seen.Namespaces, namespace)
	}
	return out, seen, nil
}
