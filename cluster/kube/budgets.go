package kube

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/objects"
)

// Budgets returns the PodDisruptionBudgets of all namespaces. If the identity may not list them, the result is nil and
// known is false.
func (r *Reader) Budgets(ctx context.Context) (list []policyv1.PodDisruptionBudget, known bool, err error) {
	g, err := objects.NewGroup(r.cfg, policyv1.SchemeGroupVersion, policyv1.AddToScheme)
	if err != nil {
		return nil, false, err
	}
	c := objects.NewClient(g, "poddisruptionbudgets",
		func() *policyv1.PodDisruptionBudget { return &policyv1.PodDisruptionBudget{} },
		func() *policyv1.PodDisruptionBudgetList { return &policyv1.PodDisruptionBudgetList{} })
	all, err := c.List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("list disruption budgets: %w", err)
	}
	return all.Items, true, nil
}

// Jobs returns the Jobs of a namespace. If the identity may not list them, the result is nil and known is false.
func (r *Reader) Jobs(ctx context.Context, namespace string) (list []batchv1.Job, known bool, err error) {
	g, err := objects.NewGroup(r.cfg, batchv1.SchemeGroupVersion, batchv1.AddToScheme)
	if err != nil {
		return nil, false, err
	}
	c := objects.NewClient(g, "jobs", func() *batchv1.Job { return &batchv1.Job{} },
		func() *batchv1.JobList { return &batchv1.JobList{} })
	all, err := c.In(namespace).List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("list jobs of namespace %s: %w", namespace, err)
	}
	return all.Items, true, nil
}
