package room

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/provisioning"
)

// This file has the scheduler keep places for the successors of pods.

// manager marks what this package creates.
const manager = "kubectl-tenon"

// bookingSeconds is how long a place is kept. It is longer than a round should take, and ends by itself what an
// interrupted command leaves behind.
const bookingSeconds = 900

// BookingName returns the name of the request, and of its PodTemplate, for the successor of a pod.
func BookingName(uid types.UID) string { return "tenon-move-" + string(uid) }

// book asks the scheduler to keep a place for the successor of a pod: whichever pod its controller creates next. What
// exists already, from an interrupted command, is left as it is.
func (c *Cluster) book(ctx context.Context, p *v1.Pod, try bool) error {
	name, labels := BookingName(p.UID), map[string]string{"app.kubernetes.io/managed-by": manager}
	at := metav1.ObjectMeta{Namespace: p.Namespace, Name: name, Labels: labels}
	template, err := object(&v1.PodTemplate{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodTemplate"},
		ObjectMeta: at, Template: successor(p)})
	if err != nil {
		return fmt.Errorf("write PodTemplate %s: %w", name, err)
	}
	_, err = c.dynamic.Resource(templateResource).Namespace(p.Namespace).Create(ctx, template,
		metav1.CreateOptions{DryRun: dry(try)})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create PodTemplate %s: %w", name, err)
	}
	request := &provisioning.Request{TypeMeta: metav1.TypeMeta{APIVersion: provisioning.GroupVersion().String(),
		Kind: "ProvisioningRequest"}, ObjectMeta: at, Spec: provisioning.Spec{ProvisioningClassName: apipod.Class,
		PodSets: []provisioning.PodSet{{Count: 1, PodTemplateRef: provisioning.Reference{Name: name}}},
		Parameters: map[string]string{provisioning.BookingSeconds: strconv.Itoa(bookingSeconds),
			provisioning.PodsOf: string(metav1.GetControllerOfNoCopy(p).UID)}}}
	_, err = c.requests.In(p.Namespace).Create(ctx, request, metav1.CreateOptions{DryRun: dry(try)})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create ProvisioningRequest %s: %w", name, err)
	}
	return nil
}

// successor returns the template of a pod like p, without what only the API server, the scheduler and admission add.
func successor(p *v1.Pod) v1.PodTemplateSpec {
	out := v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: p.Labels, Annotations: map[string]string{}},
		Spec: *p.Spec.DeepCopy()}
	for key, value := range p.Annotations {
		if !strings.HasPrefix(key, "cni.") && !strings.HasPrefix(key, "k8s.v1.cni.cncf.io/network-status") {
			out.Annotations[key] = value
		}
	}
	s := &out.Spec
	s.NodeName, s.Hostname, s.EphemeralContainers = "", "", nil
	own := func(name string) bool { return strings.HasPrefix(name, "kube-api-access-") }
	s.Volumes = without(s.Volumes, func(v v1.Volume) bool { return own(v.Name) })
	for _, list := range [][]v1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			list[i].VolumeMounts = without(list[i].VolumeMounts, func(m v1.VolumeMount) bool { return own(m.Name) })
		}
	}
	return out
}

func without[T any](list []T, drop func(T) bool) (out []T) {
	for _, x := range list {
		if !drop(x) {
			out = append(out, x)
		}
	}
	return out
}

// kept reports whether the scheduler keeps a place for the successor of a pod. answered is false until the scheduler
// has answered; why is the reason if it keeps none.
func (c *Cluster) kept(ctx context.Context, m Move) (is, answered bool, why string, err error) {
	r, err := c.requests.In(m.Namespace).Get(ctx, BookingName(m.UID), metav1.GetOptions{})
	if err != nil {
		return false, false, "", fmt.Errorf("read ProvisioningRequest %s/%s: %w", m.Namespace, BookingName(m.UID), err)
	}
	if r.Over() {
		for _, kind := range []string{provisioning.Failed, provisioning.BookingExpired, provisioning.CapacityRevoked} {
			if x := meta.FindStatusCondition(r.Status.Conditions, kind); x != nil && x.Status == metav1.ConditionTrue {
				why = x.Message
			}
		}
		return false, true, why, nil
	}
	x := meta.FindStatusCondition(r.Status.Conditions, provisioning.Provisioned)
	if x == nil {
		return false, false, "", nil
	}
	return x.Status == metav1.ConditionTrue, true, x.Message, nil
}

// release deletes the request and the template for the successor of a pod, if there are any.
func (c *Cluster) release(ctx context.Context, m Move) error {
	name := BookingName(m.UID)
	for what, remove := range map[string]func() error{
		"ProvisioningRequest": func() error { return c.requests.In(m.Namespace).Delete(ctx, name, metav1.DeleteOptions{}) },
		"PodTemplate": func() error {
			return c.dynamic.Resource(templateResource).Namespace(m.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
		},
	} {
		if err := remove(); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete %s %s/%s: %w", what, m.Namespace, name, err)
		}
	}
	return nil
}
