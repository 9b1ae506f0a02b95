package rollout

import (
	"context"
	"fmt"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/kube"
)

// Read reads the input of a plan with the rights of cfg.
func Read(ctx context.Context, reader *kube.Reader, cfg *rest.Config) (*Scene, error) {
	v, err := reader.ViewAll(ctx)
	if err != nil {
		return nil, err
	}
	return ReadAround(ctx, v, cfg)
}

// ReadAround returns the scene of a view. It reads the PodDisruptionBudgets, which a view lacks, with the rights of
// cfg. If cfg may not list them, the plan is made without them, and has a document.Limit that says so.
func ReadAround(ctx context.Context, v *kube.View, cfg *rest.Config) (*Scene, error) {
	all, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	of := schema.GroupVersionResource{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"}
	list, err := all.Resource(of).List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return SceneOf(v, nil, []document.Limit{{Resource: of.Resource, Reason: "you may not list them"}})
	case err != nil:
		return nil, fmt.Errorf("list PodDisruptionBudgets: %w", err)
	}
	budgets := make([]policyv1.PodDisruptionBudget, len(list.Items))
	for i := range list.Items {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &budgets[i]); err != nil {
			return nil, fmt.Errorf("read budget %s/%s: %w", list.Items[i].GetNamespace(), list.Items[i].GetName(), err)
		}
	}
	return SceneOf(v, budgets, nil)
}
