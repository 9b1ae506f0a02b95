package room

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/provisioning"
)

// This file has the scheduler keep places for the successors of pods.

// The label managedBy with the value manager marks what this package creates.
const (
	managedBy = "app.kubernetes.io/managed-by"
	manager   = "kubectl-tenon"
)

// bookingSeconds is how long a place is kept. It ends by itself what a killed command leaves behind.
const bookingSeconds = 900

// BookingName returns the name of the request, and of its PodTemplate, for the successor of a pod.
func BookingName(uid types.UID) string { return "tenon-move-" + string(uid) }

// booking is how a place for a successor is asked for: on a node, or on any if its name is "", and whether the
// successor is held back until it has the place. Then first are the parameters that name the pods which have their turn
// before it.
type booking struct {
	on    string
	hold  bool
	first map[string]string
}

// toNode is the parameter of a request with the node to which its PodTemplate is bound. Only this package reads it.
const toNode = "tenon.sh/to-node"

// request returns the request that keeps a place for the successor of a pod.
func (how booking) request(p *v1.Pod) *provisioning.Request {
	name := BookingName(p.UID)
	r := &provisioning.Request{TypeMeta: metav1.TypeMeta{APIVersion: provisioning.GroupVersion().String(),
		Kind: "ProvisioningRequest"}, ObjectMeta: bookingMeta(p), Spec: provisioning.Spec{
		ProvisioningClassName: apipod.Class,
		PodSets:               []provisioning.PodSet{{Count: 1, PodTemplateRef: provisioning.Reference{Name: name}}},
		Parameters: map[string]string{provisioning.BookingSeconds: strconv.Itoa(bookingSeconds),
			provisioning.PodsOf: string(metav1.GetControllerOfNoCopy(p).UID)}}}
	if how.on != "" {
		r.Spec.Parameters[toNode] = how.on
	}
	if how.hold {
		r.Spec.Parameters[provisioning.HoldSeconds] = strconv.Itoa(holdSeconds)
		maps.Copy(r.Spec.Parameters, how.first)
	}
	return r
}

func bookingMeta(p *v1.Pod) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: p.Namespace, Name: BookingName(p.UID),
		Labels: map[string]string{managedBy: manager}}
}

// usable reports whether a request of an interrupted command can be used in place of a new one: it is not over, asks
// for the same on the same node, and holds pods back for long enough if the new one would.
func usable(old, request *provisioning.Request, now time.Time) bool {
	return !old.Over() && reflect.DeepEqual(old.Spec, request.Spec) &&
		(request.HeldUntil().IsZero() || old.HeldUntil().Sub(now) >= holdAtLeast)
}

// book asks the scheduler to keep a place for the successor of a pod, whichever pod its controller creates next. It
// leaves a usable request of the name as it is, and replaces another one.
func (c *Cluster) book(ctx context.Context, p *v1.Pod, how booking, try bool) error {
	name, request := BookingName(p.UID), how.request(p)
	if !try {
		old, err := c.requests.In(p.Namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case err == nil && usable(old, request, time.Now()):
			return nil
		case err == nil:
			if err := c.unbook(ctx, p.Namespace, name, false); err != nil {
				return err
			}
		case !apierrors.IsNotFound(err):
			return fmt.Errorf("read ProvisioningRequest %s/%s: %w", p.Namespace, name, err)
		}
	}
	if err := c.template(ctx, p, how, try); err != nil {
		return err
	}
	_, err := c.requests.In(p.Namespace).Create(ctx, request, metav1.CreateOptions{DryRun: dry(try)})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create ProvisioningRequest %s: %w", name, err)
	}
	return nil
}

// template creates the PodTemplate of a request. It replaces one that a killed command has left without a request.
func (c *Cluster) template(ctx context.Context, p *v1.Pod, how booking, try bool) error {
	next, name := successor(p), BookingName(p.UID)
	if how.on != "" {
		pin(&next.Spec, how.on)
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&v1.PodTemplate{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodTemplate"}, ObjectMeta: bookingMeta(p), Template: next})
	if err != nil {
		return fmt.Errorf("write PodTemplate %s: %w", name, err)
	}
	in := c.dynamic.Resource(templateResource).Namespace(p.Namespace)
	create := func() error {
		_, err := in.Create(ctx, &unstructured.Unstructured{Object: object}, metav1.CreateOptions{DryRun: dry(try)})
		return err
	}
	if err = create(); apierrors.IsAlreadyExists(err) {
		if try {
			return nil
		}
		if err := in.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete PodTemplate %s/%s: %w", p.Namespace, name, err)
		}
		err = create()
	}
	if err != nil {
		return fmt.Errorf("create PodTemplate %s: %w", name, err)
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
	s.Volumes = slices.DeleteFunc(s.Volumes, func(v v1.Volume) bool { return own(v.Name) })
	for _, list := range [][]v1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			list[i].VolumeMounts = slices.DeleteFunc(list[i].VolumeMounts,
				func(m v1.VolumeMount) bool { return own(m.Name) })
		}
	}
	return out
}

// pin has a pod go to one node, beside what it requires of nodes already.
func pin(s *v1.PodSpec, node string) {
	if s.Affinity == nil {
		s.Affinity = &v1.Affinity{}
	}
	if s.Affinity.NodeAffinity == nil {
		s.Affinity.NodeAffinity = &v1.NodeAffinity{}
	}
	a, is := s.Affinity.NodeAffinity, v1.NodeSelectorRequirement{Key: metav1.ObjectNameField,
		Operator: v1.NodeSelectorOpIn, Values: []string{node}}
	if a.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		a.RequiredDuringSchedulingIgnoredDuringExecution = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{
			{MatchFields: []v1.NodeSelectorRequirement{is}}}}
		return
	}
	terms := a.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	for i := range terms {
		if len(terms[i].MatchExpressions)+len(terms[i].MatchFields) > 0 { // a term without any matches no node
			terms[i].MatchFields = append(terms[i].MatchFields, is)
		}
	}
}

// kept reports whether the scheduler keeps a place for the successor of a pod. answered is false until the scheduler
// has answered, also if it could not read what the successor asks for, such as a template of a claim; over is set if it
// never will, or keeps the place no more; why is the reason if it keeps none.
func (c *Cluster) kept(ctx context.Context, m Move) (is, answered, over bool, why string, err error) {
	r, err := c.requests.In(m.Namespace).Get(ctx, BookingName(m.UID), metav1.GetOptions{})
	if err != nil {
		return false, false, false, "", fmt.Errorf("read ProvisioningRequest %s/%s: %w", m.Namespace, BookingName(m.UID), err)
	}
	if r.Over() {
		for _, kind := range []string{provisioning.Failed, provisioning.BookingExpired, provisioning.CapacityRevoked} {
			if x := meta.FindStatusCondition(r.Status.Conditions, kind); x != nil && x.Status == metav1.ConditionTrue {
				why = x.Message
			}
		}
		return false, true, true, why, nil
	}
	x := meta.FindStatusCondition(r.Status.Conditions, provisioning.Provisioned)
	switch {
	case x == nil:
		return false, false, false, "", nil
	case x.Status != metav1.ConditionTrue && x.Reason == provisioning.Unread:
		return false, false, false, x.Message, nil
	}
	return x.Status == metav1.ConditionTrue, true, false, x.Message, nil
}

// unbook deletes a request and its template, if there are any.
func (c *Cluster) unbook(ctx context.Context, namespace, name string, try bool) error {
	o := metav1.DeleteOptions{DryRun: dry(try)}
	err := c.requests.In(namespace).Delete(ctx, name, o)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete ProvisioningRequest %s/%s: %w", namespace, name, err)
	}
	err = c.dynamic.Resource(templateResource).Namespace(namespace).Delete(ctx, name, o)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete PodTemplate %s/%s: %w", namespace, name, err)
	}
	return nil
}

// abandonedAfter is the age at which a request without a place is taken for one of a killed program.
const abandonedAfter = 2 * time.Hour

// abandoned reports whether a request is one of this package that keeps nothing any more, or that has got no place for
// a long time. One that is being deleted was deleted already, and finalizers keep it.
func abandoned(r *provisioning.Request, now time.Time) bool {
	return r.DeletionTimestamp == nil && strings.HasPrefix(r.Name, BookingName("")) &&
		(r.Over() || !r.Is(provisioning.Provisioned) && now.Sub(r.CreationTimestamp.Time) > abandonedAfter)
}

// maxSwept bounds the requests that one call of Sweep deletes: whoever creates thousands must not hold up a plan.
const maxSwept = 100

// Sweep deletes abandoned requests of this package in any namespace where the user may delete them, and their
// templates, which have the environment of pods: killed programs leave them behind.
func (c *Cluster) Sweep(ctx context.Context) error {
	list, err := c.requests.List(ctx, metav1.ListOptions{LabelSelector: managedBy + "=" + manager})
	if apierrors.IsNotFound(err) {
		return nil // the definition is not installed
	}
	if err != nil {
		return fmt.Errorf("list ProvisioningRequests: %w", err)
	}
	now, swept := time.Now(), 0
	for i := range list.Items {
		if r := &list.Items[i]; abandoned(r, now) && swept < maxSwept {
			swept++
			if err := c.unbook(ctx, r.Namespace, r.Name, false); err != nil && !apierrors.IsForbidden(err) {
				return err
			}
		}
	}
	return nil
}
