package schedulers

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/api/objects"
)

// Client reads and changes the configurations of schedulers with the rights of one identity.
type Client struct {
	user        string // the identity's name in events
	configMaps  *objects.Client[*v1.ConfigMap, *v1.ConfigMapList]
	events      *objects.Client[*v1.Event, *v1.EventList]
	deployments *objects.Client[*appsv1.Deployment, *appsv1.DeploymentList]
	access      *objects.Group
	now         func() time.Time
}

// New returns a client of the cluster in cfg, with the rights of cfg. user is the identity's name in events.
func New(cfg *rest.Config, user string) (*Client, error) {
	core, err := objects.NewGroup(cfg, v1.SchemeGroupVersion, v1.AddToScheme)
	if err != nil {
		return nil, err
	}
	apps, err := objects.NewGroup(cfg, appsv1.SchemeGroupVersion, appsv1.AddToScheme)
	if err != nil {
		return nil, err
	}
	access, err := objects.NewGroup(cfg, authorizationv1.SchemeGroupVersion, authorizationv1.AddToScheme)
	if err != nil {
		return nil, err
	}
	return &Client{user: user, access: access, now: time.Now,
		configMaps: objects.NewClient(core, "configmaps", func() *v1.ConfigMap { return &v1.ConfigMap{} },
			func() *v1.ConfigMapList { return &v1.ConfigMapList{} }),
		events: objects.NewClient(core, "events", func() *v1.Event { return &v1.Event{} },
			func() *v1.EventList { return &v1.EventList{} }),
		deployments: objects.NewClient(apps, "deployments", func() *appsv1.Deployment { return &appsv1.Deployment{} },
			func() *appsv1.DeploymentList { return &appsv1.DeploymentList{} })}, nil
}

// kind describes how to find one kind of scheduler.
type kind struct {
	schedulerType       document.SchedulerType
	selector            string   // label selector of its Deployments
	namespace           string   // its usual namespace
	configMap, fileName string   // usual ConfigMap and key, used if no Deployment is found or may be read
	flags               []string // flags of the command line with the path of its configuration, each ending with "="
}

func kinds() []kind {
	return []kind{
		{document.KubeScheduler, "app.kubernetes.io/name=tenon-scheduler", "tenon-system", "tenon-scheduler",
			"scheduler.yaml", []string{"--config="}},
		{document.Volcano, "app=volcano-scheduler", "volcano-system", "volcano-scheduler-configmap",
			"volcano-scheduler.conf", []string{"--scheduler-conf="}},
	}
}

// place is the location of a scheduler's configuration.
type place struct {
	namespace, name, key string
	deployment           string // "" if it is not known
	schedulerType        document.SchedulerType
}

func (p place) id() string { return p.namespace + "/" + p.name }

// maxFound bounds the Deployments of a kind that are looked at: each costs requests, and anybody may label some.
const maxFound = 16

// places returns where schedulers have their configurations, according to their Deployments. If a kind has no
// Deployment that may be listed, places returns the usual place of that kind: its scheduler may be a static pod, or
// may not run yet. limits are the Deployments that may not be listed.
func (c *Client) places(ctx context.Context) (out []place, limits []document.Limit, err error) {
	for _, k := range kinds() {
		list, listed, err := c.find(ctx, k)
		if err != nil {
			return nil, nil, fmt.Errorf("list Deployments of %s: %w", k.schedulerType, err)
		}
		if !listed {
			limits = append(limits, document.Limit{Resource: "deployments",
				Reason: "you may not list Deployments in namespace " + k.namespace})
		}
		if len(list) == 0 {
			out = append(out, k.usual())
		}
		out = append(out, list...)
	}
	slices.SortFunc(out, func(a, b place) int { return cmp.Compare(a.id(), b.id()) })
	return slices.Compact(out), slices.Compact(limits), nil
}

// find returns where the Deployments of a kind have their configurations, at most maxFound. It looks in all namespaces
// only if the usual ones have none: there, users may have labelled theirs like a scheduler's. listed is false if
// nothing was found, and neither the usual namespace of the kind may be listed nor all.
func (c *Client) find(ctx context.Context, k kind) (out []place, listed bool, err error) {
	for _, namespace := range []string{k.namespace, metav1.NamespaceSystem, metav1.NamespaceAll} {
		if namespace == metav1.NamespaceAll && len(out) > 0 {
			break
		}
		list, err := c.deployments.In(namespace).List(ctx, metav1.ListOptions{LabelSelector: k.selector, Limit: maxFound})
		switch {
		case apierrors.IsForbidden(err):
			continue
		case err != nil:
			return nil, false, err
		}
		listed = listed || namespace != metav1.NamespaceSystem
		for i := range list.Items {
			if p, ok := k.mounted(&list.Items[i]); ok && len(out) < maxFound {
				out = append(out, p)
			}
		}
	}
	return out, listed, nil
}

// usual returns the usual place of the configuration.
func (k kind) usual() place { return place{k.namespace, k.configMap, k.fileName, "", k.schedulerType} }

// mounted returns the ConfigMap and key that a Deployment mounts at the path in its scheduler's flag; false if there
// is none.
func (k kind) mounted(d *appsv1.Deployment) (place, bool) {
	spec := d.Spec.Template.Spec
	for _, container := range spec.Containers {
		file := flagOf(slices.Concat(container.Command, container.Args), k.flags)
		for _, m := range container.VolumeMounts {
			inside, ok := strings.CutPrefix(file, strings.TrimSuffix(m.MountPath, "/")+"/")
			if m.SubPath != "" && file == m.MountPath {
				inside, ok = m.SubPath, true
			}
			if !ok {
				continue
			}
			for _, v := range spec.Volumes {
				if v.Name == m.Name && v.ConfigMap != nil {
					return place{d.Namespace, v.ConfigMap.Name, keyOf(v.ConfigMap.Items, inside), d.Name,
						k.schedulerType}, true
				}
			}
		}
	}
	return place{}, false
}

// keyOf returns the key of a ConfigMap whose value a volume shows as a file. Without an item for the file, key and
// file have the same name.
func keyOf(items []v1.KeyToPath, file string) string {
	for _, i := range items {
		if i.Path == file {
			return i.Key
		}
	}
	return file
}

// flagOf returns the path that one of the flags has in a command line; "" if none is there.
func flagOf(args, flags []string) string {
	for i, a := range args {
		for _, f := range flags {
			if file, ok := strings.CutPrefix(a, f); ok {
				return path.Clean(file)
			}
			if a == strings.TrimSuffix(f, "=") && i+1 < len(args) {
				return path.Clean(args[i+1])
			}
		}
	}
	return ""
}

// List returns the schedulers of the cluster, in ascending order of ID, and the resources that may not be read.
func (c *Client) List(ctx context.Context) (out []document.Scheduler, limits []document.Limit, err error) {
	all, limits, err := c.places(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range all {
		s := document.Scheduler{ID: p.id(), Type: p.schedulerType, Key: p.key,
			Profiles: []document.SchedulerProfile{}}
		if p.deployment != "" {
			s.Deployment = p.namespace + "/" + p.deployment
		}
		m, err := c.configMaps.In(p.namespace).Get(ctx, p.name, metav1.GetOptions{})
		switch {
		case apierrors.IsForbidden(err):
			limits = append(limits, document.Limit{Resource: "configmaps", Reason: "you may not read ConfigMap " + p.id()})
			continue
		case apierrors.IsNotFound(err) && p.deployment == "":
			continue // there is nothing at the usual place
		case apierrors.IsNotFound(err):
			s.Problem = "there is no ConfigMap " + p.id()
		case err != nil:
			return nil, nil, fmt.Errorf("get ConfigMap %s: %w", p.id(), err)
		default:
			read(&s, m)
			s.MayWrite = c.may(ctx, p)
		}
		out = append(out, s)
	}
	return out, limits, nil
}

// read adds the content of a ConfigMap to s. If the content is no valid configuration, it sets s.Problem.
func read(s *document.Scheduler, m *v1.ConfigMap) {
	text, ok := m.Data[s.Key]
	s.Version, s.Text = m.ResourceVersion, text
	if !ok {
		s.Problem = fmt.Sprintf("ConfigMap %s has no key %s", s.ID, s.Key)
		return
	}
	conf, err := Parse(text)
	if err != nil {
		s.Problem = err.Error()
		return
	}
	s.Plugin, s.Enabled, s.Profiles = conf.Plugin(), conf.Enabled(), conf.Profiles
}

// may reports whether the identity may change a configuration. It returns false if the API server does not answer.
func (c *Client) may(ctx context.Context, p place) bool {
	in := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: p.namespace, Verb: "update",
			Resource: "configmaps", Name: p.name}}}
	var out authorizationv1.SelfSubjectAccessReview
	return c.access.Create(ctx, "selfsubjectaccessreviews", in, &out) == nil && out.Status.Allowed
}
