// Package coarse runs a cluster in which every node has only a NodeResourceTopology: a control plane and Tenon's
// scheduler, with Node objects but without kubelets.
//
// The package imitates what kubelets write to the API server: a bound pod runs at once, or is refused if the name of
// its node begins with [Stubborn]. Tests write the nodes' reports ([Cluster.Report]), with a fingerprint of the
// running pods if they choose. Invariant: no report is written unless a test writes it, so between two reports the
// scheduler has only its own records. The package does not decide about alignment: the lab's real kubelets do.
package coarse

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/tenon-numa/tenon/api/nrt"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/deploy"
	"github.com/tenon-numa/tenon/deploy/crd"
	"github.com/tenon-numa/tenon/lab/control"
	"github.com/tenon-numa/tenon/lab/rights"
	"github.com/tenon-numa/tenon/lab/scheduler"
	"github.com/tenon-numa/tenon/lab/workload"
)

// Stubborn is the prefix of the names of nodes that refuse every pod with a TopologyAffinityError.
const Stubborn = "stubborn"

// Cluster is a running cluster.
type Cluster struct {
	Client     kubernetes.Interface
	Topologies *nrt.Client
	Layouts    *client.Client
	// Kubeconfig is the path of a file with an administrator's access.
	Kubeconfig string
	Pods       *workload.Watch
	// Scheduler is set by Schedule.
	Scheduler *scheduler.Running

	dir     string
	access  string // the scheduler's kubeconfig
	plane   *control.Plane
	cancel  context.CancelFunc
	kubelet chan error // the result of imitateKubelets
}

// Start starts the control plane and the imitated kubelets, with files below dir. The scheduler starts later, so that
// nodes can be made before it lists them.
func Start(ctx context.Context, dir string) (*Cluster, error) {
	c, err := StartBare(ctx, dir)
	if err != nil {
		return nil, err
	}
	if err := c.Define(ctx, crd.NodeResourceTopology()); err != nil {
		return nil, errors.Join(fmt.Errorf("start cluster: %w", err), c.Stop())
	}
	return c, nil
}

// StartBare is Start without the definition of NodeResourceTopology.
func StartBare(ctx context.Context, dir string) (*Cluster, error) {
	c := &Cluster{dir: dir}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start cluster: %w", err), c.Stop())
	}
	return c, nil
}

// Define installs the definition of a kind, and waits until it is served.
func (c *Cluster) Define(ctx context.Context, definition []byte) error {
	return c.plane.Define(ctx, definition)
}

// Undefine removes the definition of NodeResourceTopology, and with it all objects, and waits until it is gone.
func (c *Cluster) Undefine(ctx context.Context) error {
	all, err := dynamic.NewForConfig(c.plane.Admin)
	if err != nil {
		return fmt.Errorf("make client for definitions: %w", err)
	}
	definitions := all.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"})
	name := nrt.Resource + "." + v1alpha2.SchemeGroupVersion.Group
	if err := definitions.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete definition %s: %w", name, err)
	}
	err = wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, err := definitions.Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	if err != nil {
		return fmt.Errorf("wait until definition %s is gone: %w", name, err)
	}
	return nil
}

func (c *Cluster) start(ctx context.Context) (err error) {
	home := filepath.Join(c.dir, "control")
	if err := os.Mkdir(home, 0o700); err != nil {
		return err
	}
	c.plane, err = control.Start(ctx, control.Options{Dir: home, Manifests: deploy.Access(),
		CRDs: append(crd.Layouts(), crd.NodeAffinity())})
	if err != nil {
		return err
	}
	c.Kubeconfig = c.plane.Kubeconfig
	if c.Client, err = kubernetes.NewForConfig(c.plane.Admin); err != nil {
		return err
	}
	if c.Topologies, err = nrt.NewClient(c.plane.Admin); err != nil {
		return err
	}
	if c.Layouts, err = client.New(c.plane.Admin); err != nil {
		return err
	}
	account, err := rights.As(ctx, c.plane.Admin, rights.Account{Namespace: deploy.Namespace, Name: deploy.Scheduler})
	if err != nil {
		return err
	}
	c.access = filepath.Join(c.dir, "scheduler.kubeconfig")
	if err := rights.WriteKubeconfig(c.access, deploy.Scheduler, account); err != nil {
		return err
	}
	if c.Pods, err = workload.Follow(ctx, c.Client); err != nil {
		return err
	}
	playing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.cancel, c.kubelet = cancel, make(chan error, 1)
	go func() { c.kubelet <- c.imitateKubelets(playing) }()
	return nil
}

// Schedule starts the scheduler with the given profiles, and with the rights of its service account in package
// deploy.
func (c *Cluster) Schedule(profiles string) (err error) {
	c.Scheduler, err = scheduler.Start(c.dir, c.access, profiles, nil)
	return err
}

// ScheduleToo starts one more scheduler. The caller stops it before it stops the cluster.
func (c *Cluster) ScheduleToo(profiles string) (*scheduler.Running, error) {
	dir, err := os.MkdirTemp(c.dir, "scheduler")
	if err != nil {
		return nil, fmt.Errorf("directory of another scheduler: %w", err)
	}
	return scheduler.Start(dir, c.access, profiles, nil)
}

// Stop ends everything.
func (c *Cluster) Stop() error {
	var errs []error
	if c.Scheduler != nil {
		errs = append(errs, c.Scheduler.Stop())
	}
	if c.cancel != nil {
		c.cancel()
		errs = append(errs, <-c.kubelet)
	}
	if c.Pods != nil {
		c.Pods.Stop()
	}
	if c.plane != nil {
		errs = append(errs, c.plane.Stop())
	}
	return errors.Join(errs...)
}

// imitateKubelets imitates the kubelets until the context ends: it admits or refuses every bound pod that has no
// start time.
func (c *Cluster) imitateKubelets(ctx context.Context) error {
	for {
		pods, changed := c.Pods.Pods()
		for _, p := range pods {
			if p.Spec.NodeName == "" || p.Status.StartTime != nil {
				continue
			}
			if err := c.admit(ctx, p); err != nil && ctx.Err() == nil {
				return err
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// admit writes the status that a kubelet writes after it has admitted or refused a pod. It ignores a pod that has
// been deleted meanwhile.
func (c *Cluster) admit(ctx context.Context, p *v1.Pod) error {
	status := map[string]any{"phase": v1.PodRunning, "startTime": time.Now().UTC().Format(time.RFC3339)}
	if strings.HasPrefix(p.Spec.NodeName, Stubborn) {
		status["phase"], status["reason"] = v1.PodFailed, "TopologyAffinityError"
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.UID}, "status": status})
	if err != nil {
		return fmt.Errorf("encode status of pod %s: %w", p.Name, err)
	}
	_, err = c.Client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.MergePatchType, patch, metav1.PatchOptions{},
		"status")
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("write status of pod %s: %w", p.Name, err)
	}
	return nil
}

// Report creates the NodeResourceTopology of a node, or replaces the existing one.
func (c *Cluster) Report(ctx context.Context, o *v1alpha2.NodeResourceTopology) error {
	old, err := c.Topologies.Get(ctx, o.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = c.Topologies.Create(ctx, o, metav1.CreateOptions{})
	case err == nil:
		o = o.DeepCopy()
		o.ResourceVersion = old.ResourceVersion
		_, err = c.Topologies.Update(ctx, o, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("report of node %s: %w", o.Name, err)
	}
	return nil
}
