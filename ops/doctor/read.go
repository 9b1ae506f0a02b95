package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/api/objects"
	"github.com/tenon-numa/tenon/api/objects/groups"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/deploy"
	"github.com/tenon-numa/tenon/ops/schedulers"
)

// Resources that are read in addition to nodes, pods and published reports.
var (
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"}
	policies = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1",
		Resource: "validatingadmissionpolicies"}
	bindings = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1",
		Resource: "validatingadmissionpolicybindings"}
	leases = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
)

// policyName is the name of the admission policy for agents.
const policyName = "tenon-agent-writes-its-own-node"

// kinds returns the names of the CustomResourceDefinitions of Tenon's objects, by kind.
func kinds() map[string]string {
	return map[string]string{"NodeLayout": "nodelayouts.tenon.sh", "LayoutBase": "layoutbases.tenon.sh",
		"NodeAffinity": "nodeaffinities.tenon.sh"}
}

// Read reads a cluster through a reader, and with the rights of cfg what the reader does not read; at is the present
// time. A resource that these rights do not cover becomes a limit. Without nodes and layouts no answer is possible, so
// Read returns an error if one of these cannot be read.
func Read(ctx context.Context, reader *kube.Reader, cfg *rest.Config, at time.Time) (*Snapshot, error) {
	v, err := reader.ViewAll(ctx)
	if err != nil {
		return nil, err
	}
	return ReadAround(ctx, v, cfg, at)
}

// ReadAround returns a snapshot with the view v. It reads with the rights of cfg what the doctor needs and a view
// does not have.
func ReadAround(ctx context.Context, v *kube.View, cfg *rest.Config, at time.Time) (*Snapshot, error) {
	cfg = withRate(cfg)
	s := &Snapshot{At: at, View: v}
	all, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	keys := []key{{policies, "", policyName}, {bindings, "", policyName}, {leases, deploy.Namespace, deploy.Scheduler},
		{leases, metav1.NamespaceSystem, deploy.Scheduler}}
	for _, name := range kinds() {
		keys = append(keys, key{definitions, "", name})
	}
	got := fetch(ctx, all, keys)
	return s, errors.Join(s.readInstallation(got), s.readLeases(got), s.readRights(ctx, cfg), s.readSchedulers(ctx, cfg),
		s.readClaims(ctx, cfg))
}

// withRate returns a copy of cfg that permits 50 requests per second, because the doctor sends some fifty at once.
func withRate(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.Burst = 50, 100
	return cfg
}

// key names an object that fetch reads, and answer is what the API server returned for it.
type (
	key struct {
		resource        schema.GroupVersionResource
		namespace, name string
	}
	answer struct {
		object *unstructured.Unstructured
		err    error
	}
)

// fetch reads objects, several at a time. The result has an answer for every key.
func fetch(ctx context.Context, from dynamic.Interface, keys []key) map[key]answer {
	answers := make([]answer, len(keys))
	each(len(keys), func(i int) {
		var in dynamic.ResourceInterface = from.Resource(keys[i].resource)
		if keys[i].namespace != "" {
			in = from.Resource(keys[i].resource).Namespace(keys[i].namespace)
		}
		answers[i].object, answers[i].err = in.Get(ctx, keys[i].name, metav1.GetOptions{})
	})
	out := map[key]answer{}
	for i, k := range keys {
		out[k] = answers[i]
	}
	return out
}

// maxQuestions bounds the requests that are sent at the same time. Some fifty requests one after the other would take
// seconds on a busy API server.
const maxQuestions = 16

// each calls do for the numbers from 0 to n-1, several at a time.
func each(n int, do func(i int)) {
	var all sync.WaitGroup
	free := make(chan struct{}, maxQuestions)
	for i := range n {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			do(i)
		})
	}
	all.Wait()
}

// recordRefusal adds a limit for a Forbidden error, once per resource, and returns nil. It returns other errors.
func (s *Snapshot) recordRefusal(resource string, err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	for _, l := range s.Limits {
		if l.Resource == resource {
			return nil
		}
	}
	s.Limits = append(s.Limits, document.Limit{Resource: resource, Reason: "you may not read them"})
	return nil
}

// readInstallation stores the definitions, and the names of missing objects of the admission policy.
func (s *Snapshot) readInstallation(got map[key]answer) error {
	s.Definitions = map[string]map[string]any{}
	for kind, name := range kinds() {
		switch d := got[key{definitions, "", name}]; {
		case apierrors.IsNotFound(d.err):
			s.Definitions[kind] = map[string]any{}
		case d.err == nil:
			s.Definitions[kind] = d.object.Object
		default:
			if err := s.recordRefusal(definitions.Resource, d.err); err != nil {
				return fmt.Errorf("read the definition of %s: %w", kind, err)
			}
		}
	}
	for _, resource := range []schema.GroupVersionResource{policies, bindings} {
		err := got[key{resource, "", policyName}].err
		if apierrors.IsNotFound(err) {
			s.NoPolicy = append(s.NoPolicy, resource.Resource+"/"+policyName)
			continue
		}
		if err := s.recordRefusal(resource.Resource, err); err != nil {
			return fmt.Errorf("read the admission policy: %w", err)
		}
	}
	return nil
}

// readLeases stores the leases with the scheduler's name. A lease without a duration gets the default, 15 seconds.
func (s *Snapshot) readLeases(got map[key]answer) error {
	for _, namespace := range []string{deploy.Namespace, metav1.NamespaceSystem} {
		a := got[key{leases, namespace, deploy.Scheduler}]
		o, err := a.object, a.err
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			if err := s.recordRefusal(leases.Resource, err); err != nil {
				return fmt.Errorf("read leases: %w", err)
			}
			continue
		}
		text, err := o.MarshalJSON()
		if err != nil {
			return fmt.Errorf("read lease %s/%s: %w", namespace, deploy.Scheduler, err)
		}
		var lease coordinationv1.Lease
		if err := json.Unmarshal(text, &lease); err != nil {
			return fmt.Errorf("read lease %s/%s: %w", namespace, deploy.Scheduler, err)
		}
		l := Lease{Namespace: namespace, Name: deploy.Scheduler, Lasts: 15 * time.Second}
		if h := lease.Spec.HolderIdentity; h != nil {
			l.Holder = *h
		}
		if r := lease.Spec.RenewTime; r != nil {
			l.Renewed = r.Time
		}
		if d := lease.Spec.LeaseDurationSeconds; d != nil {
			l.Lasts = time.Duration(*d) * time.Second
		}
		s.Leases = append(s.Leases, l)
	}
	return nil
}

func (s *Snapshot) readSchedulers(ctx context.Context, cfg *rest.Config) error {
	c, err := schedulers.New(cfg, "doctor")
	if err != nil {
		return err
	}
	all, limits, err := c.List(ctx)
	if err != nil {
		return fmt.Errorf("read the configurations of schedulers: %w", err)
	}
	s.Schedulers, s.Limits = all, append(s.Limits, limits...)
	return nil
}

// readClaims stores the objects of dynamic resource allocation. API servers before 1.34 do not serve them in version
// v1; then there are none.
func (s *Snapshot) readClaims(ctx context.Context, cfg *rest.Config) error {
	devices, err := groups.NewDevices(cfg)
	if err != nil {
		return err
	}
	published, err := devices.Slices.List(ctx, metav1.ListOptions{})
	if err := s.recordRefusal("resourceslices", err); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("list resource slices: %w", err)
	}
	all, err := devices.Claims.List(ctx, metav1.ListOptions{})
	if err := s.recordRefusal("resourceclaims", err); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("list resource claims: %w", err)
	}
	s.Slices, s.Claims = published.Items, all.Items
	return nil
}

// readRights asks the API server whether the service accounts have the rights in the roles of this release. It does
// not ask if NodeLayout is not defined: a cluster without Tenon lacks no rights.
func (s *Snapshot) readRights(ctx context.Context, cfg *rest.Config) error {
	if s.undefined("NodeLayout") {
		return nil
	}
	wanted, err := Needed()
	if err != nil {
		return err
	}
	group, err := objects.NewGroup(cfg, authorizationv1.SchemeGroupVersion, authorizationv1.AddToScheme)
	if err != nil {
		return err
	}
	errs := make([]error, len(wanted))
	each(len(wanted), func(i int) {
		ask := &authorizationv1.SubjectAccessReview{Spec: wanted[i].Review()}
		var answer authorizationv1.SubjectAccessReview
		errs[i] = group.Create(ctx, "subjectaccessreviews", ask, &answer)
		wanted[i].Allowed = answer.Status.Allowed
	})
	for i, r := range wanted {
		if errs[i] != nil {
			if err := s.recordRefusal("subjectaccessreviews", errs[i]); err != nil {
				return fmt.Errorf("ask for the rights of %s: %w", r.User, err)
			}
			return nil
		}
		s.Rights = append(s.Rights, r)
	}
	return nil
}

// Review returns the SubjectAccessReview that checks the right.
func (r Right) Review() authorizationv1.SubjectAccessReviewSpec {
	resource, sub, _ := strings.Cut(r.Resource, "/")
	return authorizationv1.SubjectAccessReviewSpec{User: r.User,
		Groups: []string{"system:serviceaccounts", "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: r.Verb, Group: r.Group, Resource: resource,
			Subresource: sub, Namespace: r.Namespace, Name: r.Name}}
}

// Needed returns the rights that the roles of this release give to the agent and the scheduler, and the rights to
// watch and bind pods, which a scheduler has by other roles.
func Needed() ([]Right, error) {
	users := map[string]string{deploy.Agent: "system:serviceaccount:" + deploy.AgentNamespace + ":" + deploy.Agent,
		deploy.Scheduler: "system:serviceaccount:" + deploy.Namespace + ":" + deploy.Scheduler}
	var out []Right
	for _, file := range deploy.Access() {
		for doc := range bytes.SplitSeq(file, []byte("\n---\n")) {
			var role rbacv1.ClusterRole
			if err := yaml.Unmarshal(doc, &role); err != nil {
				return nil, fmt.Errorf("read the roles of this release: %w", err)
			}
			if user := users[role.Name]; user != "" && (role.Kind == "ClusterRole" || role.Kind == "Role") {
				out = append(out, rightsOf(user, role)...)
			}
		}
	}
	return append(out, Right{User: users[deploy.Scheduler], Verb: "create", Resource: "pods/binding"},
		Right{User: users[deploy.Scheduler], Verb: "watch", Resource: "pods"}), nil
}

// rightsOf returns one right for each verb, resource and name in the rules of a role.
func rightsOf(user string, role rbacv1.ClusterRole) (out []Right) {
	for _, rule := range role.Rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, name := range names {
					for _, verb := range rule.Verbs {
						out = append(out, Right{User: user, Verb: verb, Group: group, Resource: resource, Namespace: role.Namespace,
							Name: name})
					}
				}
			}
		}
	}
	return out
}
