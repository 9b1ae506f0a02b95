package whole

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/test/bench/synthetic"
)

// creators is how many clients create objects at the same time.
const creators = 8

// seed writes a cluster to an empty API server: nodes, their layouts, and their pods. The pods have not been admitted
// yet.
func seed(ctx context.Context, cfg *rest.Config, c *synthetic.Cluster) error {
	k, err := typed(cfg)
	if err != nil {
		return err
	}
	layouts, err := client.New(cfg)
	if err != nil {
		return err
	}
	err = parallel(len(c.Nodes), func(i int) error {
		n := c.Nodes[i].DeepCopy()
		n.UID, n.CreationTimestamp = "", metav1.Time{}
		if _, err := k.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create node %s: %w", n.Name, err)
		}
		return createLayout(ctx, layouts, c, i)
	})
	if err != nil {
		return err
	}
	return create(ctx, k, "run", c.Pods)
}

// create creates pods. Their names contain their positions, because clients list pods in the order of names.
func create(ctx context.Context, k kubernetes.Interface, what string, pods []*v1.Pod) error {
	return parallel(len(pods), func(i int) error {
		_, err := createOne(ctx, k, fmt.Sprintf("%s-%06d", what, i), pods[i])
		return err
	})
}

// createOne creates a copy of a pod under another name, and returns its UID.
func createOne(ctx context.Context, k kubernetes.Interface, name string, like *v1.Pod) (types.UID, error) {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault,
		Labels: like.Labels, Annotations: like.Annotations}, Spec: *like.Spec.DeepCopy()}
	p.Spec.Priority = nil // the API server computes it
	made, err := k.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("create pod %s: %w", p.Name, err)
	}
	return made.UID, nil
}

// typed returns a client that uses protobuf, as Kubernetes' own programs do.
func typed(cfg *rest.Config) (kubernetes.Interface, error) {
	c := rest.CopyConfig(cfg)
	c.ContentType = "application/vnd.kubernetes.protobuf"
	k, err := kubernetes.NewForConfig(c)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return k, nil
}

// parallel calls do for 0 to n-1, in this order, up to [creators] at a time. A worker stops at its first error while
// the other workers go on; parallel returns all errors.
func parallel(n int, do func(i int) error) error {
	var next atomic.Int64
	errs := make([]error, creators)
	var all sync.WaitGroup
	for w := range creators {
		all.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if errs[w] = do(i); errs[w] != nil {
					return
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
