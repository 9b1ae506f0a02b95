// Package apply carries out a change of kubelets' configuration that package rollout has planned. For each node it
// evicts the pods, makes the node change its kubelet, and verifies what kubelet and agent report.
//
// Invariants: the annotation of a Node names the step in progress, so that an interrupted change continues when the
// same plan is applied again. If the change cannot be made or verified, the node keeps or gets back its old
// configuration and is uncordoned; if a later step fails, the node stays cordoned. In both cases no further node is
// begun. The package refuses plans that kubelets do not accept, nodes that have changed since they were planned, and
// pods that would be lost.
package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/api/objects"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	layouts "github.com/tenon-numa/tenon/api/v1alpha1/client"
)

// Node changes the kubelet of a node. Every method may be called again after an interruption.
type Node interface {
	// Begin makes the node stop its kubelet, remove the state files, write the configuration and start the kubelet.
	// It returns as soon as the node does all this by itself. Unless Keep is called in time, the node restores its
	// old files.
	Begin(ctx context.Context, node string, c Configuration) error
	// Keep makes the change permanent. It returns an error if the node has restored the old configuration.
	Keep(ctx context.Context, node string) error
	// Undo makes the node restore its old configuration and start its kubelet, and returns when both are done.
	Undo(ctx context.Context, node string) error
}

// Configuration is what changes on one node.
type Configuration struct {
	// DropIn is a KubeletConfiguration with the fields that change.
	DropIn string
	// StateFiles are the names of the files in the kubelet's directory that have to be removed.
	StateFiles []string
}

func configurationOf(n document.KubeletPlanNode) Configuration {
	return Configuration{DropIn: n.DropIn, StateFiles: n.StateFiles}
}

// Options are the administrator's choices.
type Options struct {
	// MaxUnavailable is the largest number of nodes that change at the same time; 0 means 1.
	MaxUnavailable int
	// Force permits the eviction of pods without a controller, which nothing creates again. LoseEmptyDir permits the
	// eviction of pods with emptyDir volumes, whose data is lost.
	Force, LoseEmptyDir bool
	// EvictWithin bounds the step Evict, and VerifyWithin the step Verify.
	EvictWithin, VerifyWithin time.Duration
	// Say, if not nil, is called before each step, and after the last one with the result, Done or Restored. Several
	// goroutines may call it at the same time.
	Say func(node string, r Record)
}

// Cluster applies plans to one cluster, with the rights of one user.
type Cluster struct {
	core    *objects.Core
	dynamic dynamic.Interface // for evictions and DaemonSets, because typed clients of their groups are large
	layouts *layouts.Client
	node    Node
	configz func(ctx context.Context, node string) ([]byte, error)
	// sets caches the DaemonSets that were looked up and exist.
	sets sync.Map
}

// New returns a Cluster. configz returns the answer of a running kubelet to /configz, as JSON.
func New(cfg *rest.Config, n Node, configz func(ctx context.Context, node string) ([]byte, error)) (*Cluster, error) {
	core, err := objects.NewCore(cfg)
	if err != nil {
		return nil, err
	}
	all, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	l, err := layouts.New(cfg)
	if err != nil {
		return nil, err
	}
	return &Cluster{core: core, dynamic: all, layouts: l, node: n, configz: configz}, nil
}

// Pending returns the nodes of a plan that are not changed yet, in the order of the change; nodes with an interrupted
// change come first. For a plan that cannot be applied it returns an error with the reason. It changes nothing.
func (c *Cluster) Pending(ctx context.Context, p document.KubeletPlan, o Options) ([]document.KubeletPlanNode, error) {
	if p.Kind != "KubeletPlan" || len(p.Nodes) == 0 {
		return nil, errors.New(`this is no plan: write one with "kubectl tenon kubelet plan -o json"`)
	}
	for _, n := range p.Nodes {
		if err := accept(n.Name, configurationOf(n)); err != nil {
			return nil, err
		}
	}
	var begun, fresh []document.KubeletPlanNode
	asked := false
	for _, n := range p.Nodes {
		if len(n.Errors) > 0 {
			return nil, fmt.Errorf("node %s: its kubelet does not accept the change: %s", n.Name, n.Errors[0])
		}
		r, err := c.readRecord(ctx, n)
		if err != nil {
			return nil, err
		}
		l, err := c.layouts.Get(ctx, n.Name, metav1.GetOptions{})
		switch {
		case err != nil:
			return nil, fmt.Errorf("read the layout of node %s: %w", n.Name, err)
		case r != nil:
			begun = append(begun, n)
		case SameRules(l.Rules, n.After):
			continue // the node is changed already, so its pods stay
		case !SameRules(l.Rules, n.Before):
			return nil, fmt.Errorf("node %s has another configuration than when the plan was made: plan again", n.Name)
		default:
			fresh = append(fresh, n)
		}
		pods, err := c.leaving(ctx, n.Name, o)
		if apierrors.IsForbidden(err) {
			return nil, fmt.Errorf("nothing was changed, since you may not read which pods leave: %w", err)
		}
		if err != nil {
			return nil, err
		}
		if !asked && len(fresh) > 0 { // the rights are the same for each node
			asked = true
			if err := c.checkRights(ctx, n, pods); err != nil {
				return nil, err
			}
		}
	}
	return append(begun, fresh...), nil
}

// readRecord returns the progress of a node's change; nil if the change has not begun. It returns an error if the
// annotation cannot be read, or belongs to another plan.
func (c *Cluster) readRecord(ctx context.Context, n document.KubeletPlanNode) (*Record, error) {
	node, err := c.core.Nodes.Get(ctx, n.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read node %s: %w", n.Name, err)
	}
	text, ok := node.Annotations[Annotation]
	if !ok {
		return nil, nil
	}
	var r Record
	err = json.Unmarshal([]byte(text), &r)
	if err == nil && !r.Step.known() {
		err = fmt.Errorf("step %q is not known", r.Step)
	}
	if err != nil {
		return nil, fmt.Errorf("node %s: annotation %s is no record of a change (if no change is under way, remove it with "+
			"kubectl annotate node %s %s-): %w", n.Name, Annotation, n.Name, Annotation, err)
	}
	if r.Plan != identity(n) {
		return nil, fmt.Errorf("node %s is being changed by another plan, as its annotation %s says: apply that one to its "+
			"end first, or plan without the node", n.Name, Annotation)
	}
	return &r, nil
}

// Run changes nodes that Pending has returned, up to o.MaxUnavailable at the same time. After the first failure it
// begins no further node. It finishes the nodes that it has begun, and returns their errors together.
func (c *Cluster) Run(ctx context.Context, nodes []document.KubeletPlanNode, o Options) error {
	todo := make(chan document.KubeletPlanNode, len(nodes))
	for _, n := range nodes {
		todo <- n
	}
	close(todo)
	var (
		mu   sync.Mutex
		errs []error
		all  sync.WaitGroup
	)
	failed := func() bool { mu.Lock(); defer mu.Unlock(); return len(errs) > 0 }
	for range max(1, o.MaxUnavailable) {
		all.Go(func() {
			for n := range todo {
				if failed() {
					return
				}
				if err := c.change(ctx, n, o); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// change takes the steps of one node. If there is a record, it continues from the recorded step. It returns nil only
// if the node has the new configuration.
func (c *Cluster) change(ctx context.Context, n document.KubeletPlanNode, o Options) error {
	if err := accept(n.Name, configurationOf(n)); err != nil {
		return err
	}
	found, err := c.readRecord(ctx, n)
	if err != nil {
		return err
	}
	r := Record{Plan: identity(n), Step: Cordon}
	if found != nil {
		r = found.resumed()
	} else {
		node, err := c.core.Nodes.Get(ctx, n.Name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("read node %s: %w", n.Name, err)
		}
		r.Stays = node.Spec.Unschedulable
	}
	for more := true; more; {
		if err := c.writeRecord(ctx, n.Name, &r); err != nil {
			return interrupted(n.Name, r.Step, err)
		}
		if o.Say != nil {
			o.Say(n.Name, r)
		}
		err := c.do(ctx, n, r, o)
		if ctx.Err() != nil {
			return interrupted(n.Name, r.Step, context.Cause(ctx))
		}
		was := r
		if r, more = r.next(err); err != nil && !more {
			return fmt.Errorf("node %s remains cordoned: step %s: %w; mend that, and apply the plan again", n.Name,
				was.Step, err)
		}
	}
	if err := c.writeRecord(ctx, n.Name, nil); err != nil {
		return interrupted(n.Name, r.Step, err)
	}
	r.Step = Done
	if r.Why != "" {
		r.Step = Restored
	}
	if o.Say != nil {
		o.Say(n.Name, r)
	}
	if r.Why != "" {
		return fmt.Errorf("node %s has its old configuration: %s", n.Name, r.Reason())
	}
	return nil
}

// interrupted wraps an error after which the change continues when the same plan is applied again.
func interrupted(node string, s Step, err error) error {
	return fmt.Errorf("node %s: interrupted in step %s, apply the same plan again to go on: %w", node, s, err)
}

// restoreWithin bounds the wait for a kubelet with the restored old configuration.
const restoreWithin = 5 * time.Minute

// writeRecord writes the record of a node into its annotation; nil removes the annotation.
func (c *Cluster) writeRecord(ctx context.Context, node string, r *Record) error {
	var value any
	if r != nil {
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		value = string(text)
	}
	return c.patch(ctx, node, map[string]any{"metadata": map[string]any{"annotations": map[string]any{Annotation: value}}})
}

// patch sends a JSON merge patch of a Node to the API server.
func (c *Cluster) patch(ctx context.Context, node string, change any) error {
	data, err := json.Marshal(change)
	if err == nil {
		_, err = c.core.Nodes.Patch(ctx, node, types.MergePatchType, data, metav1.PatchOptions{FieldManager: "kubectl-tenon"})
	}
	if err != nil {
		return fmt.Errorf("patch node %s: %w", node, err)
	}
	return nil
}

// do takes the step that the record names.
func (c *Cluster) do(ctx context.Context, n document.KubeletPlanNode, r Record, o Options) error {
	switch r.Step {
	case Cordon:
		return c.patch(ctx, n.Name, map[string]any{"spec": map[string]any{"unschedulable": true}})
	case Evict:
		return c.evict(ctx, n.Name, o)
	case Change:
		return c.node.Begin(ctx, n.Name, configurationOf(n))
	case Verify:
		return c.verify(ctx, n.Name, n.DropIn, n.After, o.VerifyWithin)
	case Keep:
		return c.node.Keep(ctx, n.Name)
	case Undo:
		if err := c.node.Undo(ctx, n.Name); err != nil {
			return err
		}
		return c.verify(ctx, n.Name, "", n.Before, restoreWithin)
	case Uncordon:
		if r.Stays {
			return nil
		}
		return c.patch(ctx, n.Name, map[string]any{"spec": map[string]any{"unschedulable": nil}})
	}
	return fmt.Errorf("step %q is not known: it is of another release", r.Step)
}

// verify waits until the kubelet runs with the configuration, its Node is ready, and its agent reports the rules. If
// that takes longer than within, verify returns what still differs as an error.
func (c *Cluster) verify(ctx context.Context, node, dropIn string, rules v1alpha1.Rules, within time.Duration) error {
	lacks := errors.New("no answer")
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, within, true, func(ctx context.Context) (bool, error) {
		lacks = c.differs(ctx, node, dropIn, rules)
		return lacks == nil, nil
	})
	if err != nil {
		return fmt.Errorf("after %s: %w", within, lacks)
	}
	return nil
}

// differs returns an error that describes the first difference between a node and its expected state; nil if there is
// none.
func (c *Cluster) differs(ctx context.Context, node, dropIn string, rules v1alpha1.Rules) error {
	data, err := c.configz(ctx, node)
	if err != nil {
		return fmt.Errorf("ask the kubelet for its configuration: %w", err)
	}
	if err := checkConfigz(dropIn, data); err != nil {
		return fmt.Errorf("the kubelet does not run with the configuration: %w", err)
	}
	n, err := c.core.Nodes.Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(n.Status.Conditions, func(c v1.NodeCondition) bool {
		return c.Type == v1.NodeReady && c.Status == v1.ConditionTrue
	}) {
		return errors.New("the Node is not ready")
	}
	l, err := c.layouts.Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the layout: %w", err)
	}
	if !SameRules(l.Rules, rules) {
		return errors.New("the agent does not report the configuration")
	}
	return nil
}

// SameRules reports whether two kubelets are configured alike. It ignores where the rules were read (From), and
// whether kubelet or agent decides (Arbiter).
func SameRules(a, b v1alpha1.Rules) bool {
	a.From, a.Arbiter, b.From, b.Arbiter = "", "", "", ""
	return reflect.DeepEqual(a, b)
}
