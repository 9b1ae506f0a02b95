// Package provisioning has the ProvisioningRequests (autoscaling.x-k8s.io/v1) of Tenon's class, by which queues such as
// Kueue ask whether the pods of a job fit now, all of them together.
//
// Invariant: the types have the fields of Cluster Autoscaler's definition that Tenon reads or writes, with the same
// names in JSON. Cluster Autoscaler's own module is not used, because its types import packages for tests. The package
// judges nothing.
package provisioning

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/objects"
)

// Types of conditions, as Cluster Autoscaler and Kueue read them.
const (
	// Accepted: the request is well formed, and will be answered.
	Accepted = "Accepted"
	// Provisioned: all its pods fit, and room is kept for them.
	Provisioned = "Provisioned"
	// Failed: its pods will not fit, whatever ends.
	Failed = "Failed"
	// BookingExpired: the room is not kept any more.
	BookingExpired = "BookingExpired"
	// CapacityRevoked: the room is lost. Tenon only reads it, since Kueue stops a job for it for good.
	CapacityRevoked = "CapacityRevoked"
	// MoreNodes: more nodes of a kind that the cluster has would give the request room. It is Tenon's own.
	MoreNodes = "tenon.sh/MoreNodes"
)

// GroupVersion returns the group and version of the package.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "autoscaling.x-k8s.io", Version: "v1"}
}

// Resource returns the resource of the requests at the API server.
func Resource() schema.GroupVersionResource {
	return GroupVersion().WithResource("provisioningrequests")
}

// Request is a ProvisioningRequest.
type Request struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   Spec   `json:"spec"`
	Status Status `json:"status,omitempty"`
}

// Spec is what is asked for. It does not change.
type Spec struct {
	PodSets               []PodSet          `json:"podSets"`
	ProvisioningClassName string            `json:"provisioningClassName"`
	Parameters            map[string]string `json:"parameters,omitempty"`
}

// PodSet is Count equal pods of a PodTemplate of the request's namespace.
type PodSet struct {
	PodTemplateRef Reference `json:"podTemplateRef"`
	Count          int32     `json:"count"`
}

// Reference names an object of the same namespace.
type Reference struct {
	Name string `json:"name,omitempty"`
}

// Status is the answer.
type Status struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// ProvisioningClassDetails has what the class adds, by name.
	ProvisioningClassDetails map[string]string `json:"provisioningClassDetails,omitempty"`
}

// RequestList is a list of requests.
type RequestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []Request `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (r *Request) DeepCopyObject() runtime.Object { return copied(r, &Request{}) }

// DeepCopyObject implements runtime.Object.
func (l *RequestList) DeepCopyObject() runtime.Object { return copied(l, &RequestList{}) }

// copied copies an object by its JSON, which never fails for the types of this package.
func copied[T any](from, to *T) *T {
	data, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(data, to)
	}
	if err != nil {
		panic(fmt.Sprintf("copy a ProvisioningRequest: %v", err))
	}
	return to
}

// AddToScheme registers the types of the package.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypeWithName(GroupVersion().WithKind("ProvisioningRequest"), &Request{})
	s.AddKnownTypeWithName(GroupVersion().WithKind("ProvisioningRequestList"), &RequestList{})
	metav1.AddToGroupVersion(s, GroupVersion())
	return nil
}

// Client has the methods of objects.Client, and SetStatus.
type Client struct {
	*objects.Client[*Request, *RequestList]
}

// NewClient returns a client of the server in cfg.
func NewClient(cfg *rest.Config) (*Client, error) {
	c := rest.CopyConfig(cfg)
	c.ContentType = runtime.ContentTypeJSON
	c.AcceptContentTypes = runtime.ContentTypeJSON
	g, err := objects.NewGroup(c, GroupVersion(), AddToScheme)
	if err != nil {
		return nil, err
	}
	return &Client{objects.NewClient(g, Resource().Resource, func() *Request { return &Request{} },
		func() *RequestList { return &RequestList{} })}, nil
}

// SetStatus writes the status of a request. It fails with a conflict if the request has changed since it was read.
func (c *Client) SetStatus(ctx context.Context, r *Request) error {
	o := metav1.UpdateOptions{FieldManager: "tenon-scheduler"}
	if _, err := c.In(r.Namespace).UpdateStatus(ctx, r, o); err != nil {
		return fmt.Errorf("write the status of request %s/%s: %w", r.Namespace, r.Name, err)
	}
	return nil
}
