package kube

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/objects"
)

// Trial asks the API server how it would store new pods, or why it would refuse them. Nothing is stored: every
// request is a dry run. The API server refuses a dry run if an admission webhook may have side effects.
type Trial struct {
	core   *objects.Core
	access *objects.Group
	may    map[string]error // by namespace: why nothing is asked there, or nil if pods may be created
}

// NewTrial returns a trial with the identity of cfg.
func NewTrial(cfg *rest.Config) (*Trial, error) {
	core, err := objects.NewCore(cfg)
	if err != nil {
		return nil, err
	}
	access, err := objects.NewGroup(cfg, authorizationv1.SchemeGroupVersion, authorizationv1.AddToScheme)
	if err != nil {
		return nil, err
	}
	return &Trial{core: core, access: access, may: map[string]error{}}, nil
}

// Create returns the pod as the API server would store it, or why the API server refuses it. unasked is why there is
// no such answer: the identity may not create pods, or the request failed for another reason.
func (t *Trial) Create(ctx context.Context, p *v1.Pod) (stored *v1.Pod, refused, unasked error) {
	if err := t.allowed(ctx, p.Namespace); err != nil {
		return nil, nil, err
	}
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	stored, err := t.core.Pods.In(p.Namespace).Create(ctx, p, dry)
	// A taken name hides how the API server would judge the rest of the pod, so the pod is sent again without this
	// name.
	if apierrors.IsAlreadyExists(err) && p.Name != "" {
		p = p.DeepCopy()
		p.GenerateName, p.Name = p.Name+"-", ""
		stored, err = t.core.Pods.In(p.Namespace).Create(ctx, p, dry)
	}
	switch {
	case err == nil:
		return stored, nil, nil
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err):
		return nil, err, nil
	}
	return nil, nil, err
}

// allowed returns nil if the identity may create pods in a namespace. Otherwise it returns why not, or why that is
// unknown.
func (t *Trial) allowed(ctx context.Context, namespace string) error {
	if err, known := t.may[namespace]; known {
		return err
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "create", Resource: "pods"}}}
	var out authorizationv1.SelfSubjectAccessReview
	err := t.access.Create(ctx, "selfsubjectaccessreviews", review, &out)
	if err == nil && !out.Status.Allowed {
		err = fmt.Errorf("you may not create pods in namespace %s", namespace)
	}
	t.may[namespace] = err
	return err
}
