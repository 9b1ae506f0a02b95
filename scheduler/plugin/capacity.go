package plugin

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	poll "k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/tenon-numa/tenon/api/provisioning"
	"github.com/tenon-numa/tenon/cluster/claims"
	"github.com/tenon-numa/tenon/cluster/kube"
	staged "github.com/tenon-numa/tenon/cluster/stage"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
	"github.com/tenon-numa/tenon/scheduler/capacity"
	"github.com/tenon-numa/tenon/scheduler/follow"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// This file connects package capacity, which answers ProvisioningRequests, with the ledger and the informers of this
// scheduler. Where the API server does not serve the requests, or this scheduler may not read them, none of it runs.

// findRequests is the interval at which the scheduler checks whether requests can be read.
const findRequests = 10 * time.Second

// answerRequests starts to answer requests, at once or when they can be read. If they can be read now, no pod is tried
// before the room that they have been promised is kept again.
func (s *Shared) answerRequests(ctx context.Context, h fwk.Handle) error {
	if s.options.Informers == nil {
		return nil // in another main program, it is not known which of several schedulers leads
	}
	s.promises.Open() // pods on their way count from now on
	requests, err := provisioning.NewClient(h.KubeConfig())
	if err != nil {
		return err
	}
	readable := func(ctx context.Context) error {
		_, err := requests.List(ctx, metav1.ListOptions{Limit: 1})
		return err
	}
	// The client that binds pods must not wait for templates: clients bound their requests per second.
	templates, err := kubernetes.NewForConfig(rest.CopyConfig(h.KubeConfig()))
	if err != nil {
		return fmt.Errorf("make a client for PodTemplates: %w", err)
	}
	var synced []cache.InformerSynced // set before the controller runs
	leads := func() bool { return isClosed(s.Ready) && s.leads() && allSynced(synced) }
	sees := seen{s, h, templates.CoreV1(), &follow.Gathered{}}
	c := capacity.New(requests, sees, s.promises, leads, time.Now, Logger(ctx))
	if h.SharedDRAManager() != nil {
		c.WithClaims(devices{sees, templates})
		s.promises.Check(func(ids []claims.ID) bool { return s.planner == nil || s.planner.Taken(ids) })
	}
	if synced, err = kickAtEvents(h, c, sees.pods); err != nil {
		return err
	}
	s.capacity.Store(c)
	switch err := readable(ctx); {
	case err == nil:
		s.restored = c.Restored()
		go c.Run(ctx)
		return nil
	case !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err):
		return fmt.Errorf("list ProvisioningRequests: %w", err)
	}
	go func() {
		err := poll.PollUntilContextCancel(ctx, findRequests, false, func(ctx context.Context) (bool, error) {
			return readable(ctx) == nil, nil
		})
		if err == nil {
			c.Run(ctx)
		}
	}()
	return nil
}

// kickAtEvents has requests looked at again when nodes, pods or devices have changed. The ledger's changes do the same.
// Until the informers are synced, nodes and devices seem to be missing. Only an election has a scheduler wait for them.
func kickAtEvents(h fwk.Handle, c *capacity.Controller, pods *follow.Gathered) (synced []cache.InformerSynced,
	err error) {
	core := h.SharedInformerFactory().Core().V1()
	all := map[string]cache.SharedIndexInformer{"nodes": core.Nodes().Informer(), "pods": core.Pods().Informer()}
	if h.SharedDRAManager() != nil { // it follows these, too
		devices := h.SharedInformerFactory().Resource().V1()
		all["slices of devices"], all["claims"] = devices.ResourceSlices().Informer(), devices.ResourceClaims().Informer()
		all["classes of devices"] = devices.DeviceClasses().Informer()
	}
	for name, i := range all {
		do := c.Kick
		if name == "classes of devices" {
			do = c.Recount
		}
		handler := cache.ResourceEventHandlerFuncs{AddFunc: func(any) { do() },
			UpdateFunc: func(any, any) { do() }, DeleteFunc: func(any) { do() }}
		if name == "pods" { // a pod is gathered before requests are looked at again
			handler = cache.ResourceEventHandlerFuncs{AddFunc: func(o any) { pods.OnAdd(o, false); do() },
				UpdateFunc: func(before, o any) { pods.OnUpdate(before, o); do() },
				DeleteFunc: func(o any) { pods.OnDelete(o); do() }}
		}
		r, err := i.AddEventHandler(handler)
		if err != nil {
			return nil, fmt.Errorf("follow %s: %w", name, err)
		}
		synced = append(synced, r.HasSynced)
	}
	return synced, nil
}

// allSynced reports whether all informers have the objects that there were when they began.
func allSynced(all []cache.InformerSynced) bool {
	return !slices.ContainsFunc(all, func(is cache.InformerSynced) bool { return !is() })
}

// waitRestored blocks until the room that was promised before this scheduler began is kept again. After a minute it
// gives that up, since no pod is scheduled meanwhile.
func (s *Shared) waitRestored(ctx context.Context) error {
	if s.restored == nil || s.unrestored.Load() || isClosed(s.restored) {
		return nil
	}
	s.capacity.Load().Kick()
	select {
	case <-s.restored:
		return nil
	case <-time.After(capacity.Restoring):
		s.unrestored.Store(true)
		Logger(ctx).Error(nil, "ProvisioningRequests cannot be read: room that was promised may be taken")
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for ProvisioningRequests: %w", context.Cause(ctx))
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// seen implements capacity.Cluster by what the scheduler sees.
type seen struct {
	*Shared
	handle    fwk.Handle
	templates corev1.PodTemplatesGetter
	pods      *follow.Gathered
}

// Stage implements capacity.Cluster.
func (c seen) Stage(of *staged.Requests) (*staged.Stage, error) {
	factory := c.handle.SharedInformerFactory()
	nodes, err := factory.Core().V1().Nodes().Lister().List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	book := c.Book.Snapshot()
	v := &kube.View{Nodes: make([]v1.Node, 0, len(nodes)), Served: c.served(),
		States: slices.AppendSeq(make([]*state.Node, 0, book.Len()), book.All())}
	for _, n := range nodes {
		if c.options.Nodes == nil || c.options.Nodes.Matches(labels.Set(n.Labels)) {
			v.Nodes = append(v.Nodes, *n)
		}
	}
	pods := c.pods.All()
	v.Pods = make([]kube.Stored, len(pods))
	for i, p := range pods {
		v.Pods[i] = (*kube.Whole)(p)
	}
	return staged.OfAgain(v, of)
}

// served returns the extended resources that classes of devices (DRA) serve.
func (c seen) served() map[string]bool {
	out := map[string]bool{}
	classes, err := c.handle.SharedInformerFactory().Resource().V1().DeviceClasses().Lister().List(labels.Everything())
	if err != nil {
		return nil
	}
	for _, x := range classes {
		kube.Serve(out, x)
	}
	return out
}

// Using implements capacity.Cluster.
func (c seen) Using(request string) []*v1.Pod { return c.amounts.Using(request) }

// Owned implements capacity.Cluster.
func (c seen) Owned(namespace, owner string, since int64) []*v1.Pod {
	return c.amounts.Owned(namespace, owner, since)
}

// Broken implements capacity.Cluster.
func (c seen) Broken(node string) bool { return c.promises.Short(node) }

// Waits implements capacity.Cluster.
func (c seen) Waits(namespace, name string, uid types.UID) bool {
	p := c.amounts.Waiting(state.PodID{Namespace: namespace, Name: name, UID: string(uid)})
	return p != nil && p.DeletionTimestamp == nil
}

// Rules implements capacity.Cluster.
func (c seen) Rules(scheduler string) (whatif.Rules, bool) {
	for _, p := range c.plugins {
		if profileOf(p.handle) == scheduler {
			r := whatif.Rules{Guard: p.guard, Strategy: p.strategy}
			r.Strategy.Mix = p.workload.Mix()
			return r, true
		}
	}
	return whatif.Rules{}, false
}

// Template implements capacity.Cluster.
func (c seen) Template(ctx context.Context, namespace, name string) (*v1.PodTemplate, error) {
	return c.templates.PodTemplates(namespace).Get(ctx, name, metav1.GetOptions{})
}
