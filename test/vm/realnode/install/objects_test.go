package install_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
)

// objects returns the names of all objects of the cluster except events, as KIND NAMESPACE/NAME.
func (w *world) objects(ctx context.Context) (map[string]bool, error) {
	kinds, err := w.client.Discovery().ServerPreferredResources()
	if err != nil {
		return nil, fmt.Errorf("list kinds: %w", err)
	}
	all, err := dynamic.NewForConfig(w.plane.Admin)
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for _, group := range kinds {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range group.APIResources {
			if !slices.Contains(r.Verbs, "list") || r.Kind == "Event" || r.Kind == "ComponentStatus" {
				continue
			}
			list, err := all.Resource(version.WithResource(r.Name)).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, fmt.Errorf("list %s: %w", r.Name, err)
			}
			for _, o := range list.Items {
				if o.GetNamespace() == v1.NamespaceNodeLease || r.Kind == "ServiceAccount" && o.GetNamespace() == "kube-system" {
					continue // the kubelet's and the controllers', made some time after their start
				}
				out[fmt.Sprintf("%s %s/%s", r.Kind, o.GetNamespace(), o.GetName())] = true
			}
		}
	}
	return out, nil
}

// remain waits until the objects are the earlier ones and the objects of a list, and fails if that never happens.
func (w *world) remain(ctx context.Context, t *testing.T, before map[string]bool, more ...string) {
	t.Helper()
	var added, lost []string
	err := wait.PollUntilContextTimeout(ctx, time.Second, time.Minute, true, func(ctx context.Context) (bool, error) {
		now, err := w.objects(ctx)
		if err != nil {
			return false, nil // a kind may have gone meanwhile
		}
		added, lost = nil, nil
		for _, o := range slices.Sorted(maps.Keys(now)) {
			if !before[o] && !slices.Contains(more, o) {
				added = append(added, o)
			}
		}
		for _, o := range append(slices.Sorted(maps.Keys(before)), more...) {
			if !now[o] {
				lost = append(lost, o)
			}
		}
		return len(added)+len(lost) == 0, nil
	})
	if err != nil {
		t.Errorf("objects that should not be left:\n  %s\nobjects that should be there:\n  %s",
			strings.Join(added, "\n  "), strings.Join(lost, "\n  "))
		return
	}
	t.Logf("%d objects of %d are left", len(more), len(before)+len(more))
}
