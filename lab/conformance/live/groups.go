package live

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/conformance"
	"github.com/tenon-numa/tenon/lab/releases"
	"github.com/tenon-numa/tenon/lab/volcano"
)

// Groups writes gangs in the API that a scheduler reads.
type Groups interface {
	// Create creates the group of a gang that needs so many pods.
	Create(ctx context.Context, c Clients, name string, need int) error
	// Join completes a pod before it is created. group is the name of its group, or "".
	Join(p *v1.Pod, group string)
}

// Clients are the clients of a cluster.
type Clients struct {
	kubernetes.Interface
	Dynamic dynamic.Interface
}

// clientsOf makes the clients of a cluster.
func clientsOf(c *lab.Cluster) (out Clients, err error) {
	if out.Interface, err = kubernetes.NewForConfig(c.RESTConfig()); err != nil {
		return out, err
	}
	out.Dynamic, err = dynamic.NewForConfig(c.RESTConfig())
	return out, err
}

// createGroups creates the groups of all gangs.
func (c *cluster) createGroups(ctx context.Context, cases []*conformance.Case) error {
	for _, one := range cases {
		for name, need := range one.Gangs {
			if err := c.Scheduler.groups().Create(ctx, c.client, fullName(one, name), need); err != nil {
				return err
			}
		}
	}
	return nil
}

// Playable returns the cases for the release that this program is built with: cases of later releases are left out, and
// cases with gangs if it has no API for them.
func Playable(cases []*conformance.Case) (out []*conformance.Case) {
	release := version.MustParseGeneric(releases.Version())
	for _, c := range cases {
		later := c.Since != "" && release.LessThan(version.MustParseGeneric(c.Since))
		if !later && (lab.HasGangs || len(c.Gangs) == 0) {
			out = append(out, c)
		}
	}
	return out
}

// volcanoGroups are Volcano's PodGroups.
type volcanoGroups struct{}

// Create implements Groups.
func (volcanoGroups) Create(ctx context.Context, c Clients, name string, need int) error {
	g := &unstructured.Unstructured{Object: map[string]any{"apiVersion": volcano.PodGroups.GroupVersion().String(),
		"kind": "PodGroup", "metadata": map[string]any{"name": name, "namespace": metav1.NamespaceDefault},
		"spec": map[string]any{"minMember": int64(need), "queue": "default"}}}
	_, err := c.Dynamic.Resource(volcano.PodGroups).Namespace(metav1.NamespaceDefault).Create(ctx, g,
		metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create PodGroup %s of Volcano: %w", name, err)
	}
	return nil
}

// Join implements Groups. Volcano evicts only pods that are marked as preemptable.
func (volcanoGroups) Join(p *v1.Pod, group string) {
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, "volcano.sh/preemptable", "true")
	if group != "" {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, "scheduling.k8s.io/group-name", group)
	}
}
