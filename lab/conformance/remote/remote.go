// Package remote grades the scheduler of a running cluster, on the machines of that cluster. The kubelets are the
// judges: they refuse pods themselves, and they answer whether a waiting pod could run when a copy of it is bound to
// their node.
//
// Invariant: the package changes and deletes only pods that it created, in a namespace of its own, and deletes them at
// the end, also after an interruption. It needs no access to machines and no object of Tenon. It refuses nodes on
// which other pods may have exclusive CPUs, and does not judge how pods are aligned: that cannot be read from outside.
package remote

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/lab/conformance"
	"github.com/tenon-numa/tenon/lab/conformance/judge"
	"github.com/tenon-numa/tenon/lab/workload"
)

// Label is the label of all pods of a run. Its value is different in each run.
const Label = "conformance.tenon.sh/run"

// Defaults of options.
const (
	DefaultNamespace = "tenon-conformance"
	DefaultImage     = "registry.k8s.io/pause:3.10"
)

// Options of a run.
type Options struct {
	Config        *rest.Config
	SchedulerName string
	// Selector selects the nodes that may be used.
	Selector string
	// Tolerate has the taints that nodes may have, each as KEY[=VALUE][:EFFECT].
	Tolerate []string
	// Namespace is created if it is missing, and then also deleted.
	Namespace string
	// NUMA declares the NUMA nodes of all selected nodes, such as "2x32" for two of 32 CPUs each. If it is empty, each
	// node needs a NodeResourceTopology.
	NUMA string
	// Shared also uses nodes on which other pods may have exclusive CPUs.
	Shared bool
	Image  string
	// Settle is how long nothing must change before a pod counts as waiting. The kubelets are asked if it lasts four
	// times as long.
	Settle time.Duration
	// Pause is how long nothing must change if no pod waits.
	Pause time.Duration
	// Progress receives a line for each step.
	Progress func(line string)
	// Done, if not nil, receives each result.
	Done func(r *conformance.Result)
	// Judged, if not nil, receives each scene with its findings.
	Judged func(ctx context.Context, s *judge.Scene, findings []judge.Finding) error
}

// Found is what a run found.
type Found struct {
	Results []*conformance.Result
	// Kubernetes is the release of the API server.
	Kubernetes string
	// Nodes are the nodes on which cases were played.
	Nodes []string
	// NotJudged are sentences about what the run did not judge.
	NotJudged []string
}

// Bounds of times.
const (
	firstTimeout   = 5 * time.Minute  // for a first pod to run, whose image is pulled
	restTimeout    = 2 * time.Minute  // for the cluster to come to rest
	cleanupTimeout = 90 * time.Second // for pods to end
)

// cluster is a running cluster.
type cluster struct {
	Options
	client kubernetes.Interface
	run    string // the value of Label
	nodes  []string
	// tolerations are of all pods.
	tolerations []v1.Toleration
	room        room
	amounts     map[string]int
	pods        *workload.Watch
	created     bool // the namespace
	probes      int
}

// Run plays cases one after the other. Nothing that it created is left when it returns, unless the error names it.
func Run(ctx context.Context, cases []*Case, o Options) (found *Found, err error) {
	c := &cluster{Options: o, run: strings.ToLower(rand.Text()[:10])}
	if o.NUMA != "" {
		if _, _, err := declare(o.NUMA); err != nil {
			return nil, fmt.Errorf("declared NUMA nodes: %w", err)
		}
	}
	if c.tolerations, err = tolerations(o.Tolerate); err != nil {
		return nil, err
	}
	if c.client, err = kubernetes.NewForConfig(o.Config); err != nil {
		return nil, fmt.Errorf("connect to cluster: %w", err)
	}
	version, err := c.client.Discovery().ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("connect to cluster: %w", err)
	}
	if err := c.choose(ctx, most(cases)); err != nil {
		return nil, err
	}
	found = &Found{Nodes: c.nodes, Kubernetes: strings.TrimPrefix(version.GitVersion, "v"), NotJudged: []string{
		"misalignment: what a kubelet assigned to a pod cannot be read from outside of its node"}}
	defer func() { err = errors.Join(err, c.cleanUp(context.WithoutCancel(ctx))) }()
	if err := c.prepare(ctx); err != nil {
		return nil, err
	}
	for _, one := range cases {
		if one.Nodes > len(c.nodes) {
			found.NotJudged = append(found.NotJudged, fmt.Sprintf("case %s: it needs %d nodes", one.Name, one.Nodes))
			continue
		}
		r, err := c.play(ctx, one)
		if err != nil {
			return nil, err
		}
		found.Results = append(found.Results, r)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if o.Done != nil {
			o.Done(r)
		}
	}
	if len(found.Results) == 0 {
		return nil, errors.New("no case could be played: " + strings.Join(found.NotJudged, "; "))
	}
	return found, nil
}

// most returns how many nodes the cases use at most.
func most(cases []*Case) (n int) {
	for _, c := range cases {
		n = max(n, c.Nodes)
	}
	return n
}

// play plays a case, and deletes its pods.
func (c *cluster) play(ctx context.Context, one *Case) (*conformance.Result, error) {
	made, err := one.on(c.room, c.amounts, c.nodes, c.Image)
	if err != nil {
		return nil, err
	}
	on := &played{cluster: c, nodes: c.nodes[:one.Nodes], created: map[string]time.Time{},
		bound: map[string]time.Duration{}, unseen: map[string]bool{}}
	r := conformance.Runner{Judge: on}.Run(ctx, made, on)
	return r, c.clear(context.WithoutCancel(ctx))
}

// prepare makes the namespace, and lets the scheduler place a pod on each node, so that its start and the pulls of
// images do not count.
func (c *cluster) prepare(ctx context.Context) error {
	if err := c.makeNamespace(ctx); err != nil {
		return err
	}
	var err error
	c.pods, err = workload.Follow(ctx, c.client, informers.WithNamespace(c.Namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = Label + "=" + c.run }))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, firstTimeout, fmt.Errorf(
		"the scheduler %s binds no pod, or no container starts", c.SchedulerName))
	defer cancel()
	for i, node := range c.nodes {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("first-", i)}, Spec: spec()}
		p.Spec.Containers = []v1.Container{container("c", c.Image, nil)}
		if err := c.create(ctx, p, node); err != nil {
			return err
		}
	}
	_, err = c.pods.Until(ctx, func(pods []*v1.Pod) bool {
		running := 0
		for _, p := range pods {
			if p.Status.Phase == v1.PodRunning {
				running++
			}
		}
		return running == len(c.nodes)
	})
	if err != nil {
		return fmt.Errorf("start first pods: %w", err)
	}
	return c.clear(ctx)
}

// makeNamespace creates the namespace if it is missing, and waits for one that is being deleted. A person without the
// right to read namespaces may have been given one.
func (c *cluster) makeNamespace(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, cleanupTimeout, errors.New("it is being deleted"))
	defer cancel()
	namespaces := c.client.CoreV1().Namespaces()
	for {
		n, err := namespaces.Get(ctx, c.Namespace, metav1.GetOptions{})
		switch {
		case apierrors.IsForbidden(err) || err == nil && n.DeletionTimestamp == nil:
			return nil
		case apierrors.IsNotFound(err):
			n = &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.Namespace}}
			if _, err := namespaces.Create(ctx, n, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("create namespace %s: %w", c.Namespace, err)
			}
			c.created = true
			return nil
		case err == nil:
			err = workload.Sleep(ctx, time.Second)
		}
		if err != nil {
			return fmt.Errorf("get namespace %s: %w", c.Namespace, err)
		}
	}
}

// create creates a pod that may run on some nodes.
func (c *cluster) create(ctx context.Context, p *v1.Pod, nodes ...string) error {
	p.Namespace, p.Labels, p.Spec.Tolerations = c.Namespace, map[string]string{Label: c.run}, c.tolerations
	if p.Spec.NodeName == "" {
		p.Spec.SchedulerName = c.SchedulerName
	} else {
		p.Spec.SchedulerName = "none"
	}
	var terms []v1.NodeSelectorTerm
	for _, n := range nodes {
		terms = append(terms, v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name",
			Operator: v1.NodeSelectorOpIn, Values: []string{n}}}})
	}
	p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: terms}}}
	for {
		_, err := c.client.CoreV1().Pods(c.Namespace).Create(ctx, p, metav1.CreateOptions{})
		switch {
		case err == nil:
			return nil
		case !c.created || !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "serviceaccount"):
			return fmt.Errorf("create pod %s: %w", p.Name, err)
		}
		// A controller makes the service account of a new namespace a moment later.
		if err := workload.Sleep(ctx, 200*time.Millisecond); err != nil {
			return fmt.Errorf("create pod %s: wait for the service account: %w", p.Name, err)
		}
	}
}

// clear deletes the pods of the run, and waits until they are gone.
func (c *cluster) clear(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, cleanupTimeout, errors.New("pods do not end"))
	defer cancel()
	selector := metav1.ListOptions{LabelSelector: Label + "=" + c.run}
	if err := c.client.CoreV1().Pods(c.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, selector); err != nil {
		return fmt.Errorf("delete pods with the label %s in namespace %s: %w", selector.LabelSelector, c.Namespace, err)
	}
	if c.pods == nil {
		return nil
	}
	if _, err := c.pods.Until(ctx, func(pods []*v1.Pod) bool { return len(pods) == 0 }); err != nil {
		return fmt.Errorf("delete pods with the label %s in namespace %s: %w", selector.LabelSelector, c.Namespace, err)
	}
	return nil
}

// cleanUp deletes what the run created.
func (c *cluster) cleanUp(ctx context.Context) error {
	err := c.clear(ctx)
	if c.pods != nil {
		c.pods.Stop()
	}
	if !c.created {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	others, listed := c.client.CoreV1().Pods(c.Namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if listed != nil {
		return errors.Join(err, fmt.Errorf("list pods in namespace %s: %w", c.Namespace, listed))
	}
	if len(others.Items) > 0 { // another run uses the namespace
		return err
	}
	if gone := c.client.CoreV1().Namespaces().Delete(ctx, c.Namespace, metav1.DeleteOptions{}); gone != nil {
		err = errors.Join(err, fmt.Errorf("delete namespace %s: %w", c.Namespace, gone))
	}
	return err
}
