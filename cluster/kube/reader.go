package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/objects"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
)

// Reader reads a cluster once, for tools: the same book that a scheduler keeps, computed from what the
// API server has now.
type Reader struct {
	cluster *objects.Core
	layouts *client.Client
}

// Problem is a node whose layout is missing or was refused.
type Problem struct{ Node, Reason string }

// NewReader returns a reader of the cluster that cfg names.
func NewReader(cfg *rest.Config) (*Reader, error) {
	cluster, err := objects.NewCore(cfg)
	if err != nil {
		return nil, err
	}
	layouts, err := client.New(cfg)
	if err != nil {
		return nil, err
	}
	return &Reader{cluster, layouts}, nil
}

// View is a cluster as it was read once.
type View struct {
	// States are of the nodes whose layout is understood, in ascending order of name, with what is held and
	// predicted on each; Problems say why the others are not among them.
	States   []*ledger.Node
	Problems []Problem
	Nodes    []v1.Node
	Pods     []v1.Pod
}

// Nodes returns the states and the problems of a view.
func (r *Reader) Nodes(ctx context.Context) ([]*ledger.Node, []Problem, error) {
	v, err := r.View(ctx)
	if err != nil {
		return nil, nil, err
	}
	return v.States, v.Problems, nil
}

// View reads the cluster.
func (r *Reader) View(ctx context.Context) (*View, error) {
	layouts, err := r.layouts.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list node layouts: %w", err)
	}
	nodes, err := r.cluster.Nodes.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	pods, err := r.cluster.Pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	book := ledger.New()
	feed := NewFeed(book, nil, nil)
	for i := range layouts.Items {
		feed.Layout(&layouts.Items[i])
	}
	for i := range pods.Items {
		feed.Pod(&pods.Items[i])
	}
	feed.Begin()
	snap := book.Snapshot()
	out := &View{Problems: problems(feed, snap, nodes.Items), Nodes: nodes.Items, Pods: pods.Items}
	for _, name := range snap.Names() {
		out.States = append(out.States, snap.Node(name))
	}
	return out, nil
}

func problems(feed *Feed, snap *ledger.Snapshot, nodes []v1.Node) (out []Problem) {
	for i := range nodes {
		name := nodes[i].Name
		switch why := feed.Problem(name); {
		case why != "":
			out = append(out, Problem{name, "layout refused: " + why})
		case snap.Node(name) == nil:
			out = append(out, Problem{name, "no layout: is the agent running?"})
		}
	}
	slices.SortFunc(out, func(a, b Problem) int { return strings.Compare(a.Node, b.Node) })
	return out
}

// Lacks says of every node which plain amounts it has too little of left for the pod, as the scheduler's
// NodeResourcesFit counts them: the node's allocatable less the requests of all pods bound to it.
func (r *Reader) Lacks(ctx context.Context, pod *v1.Pod) (map[string][]place.Reason, error) {
	nodes, err := r.cluster.Nodes.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	pods, err := r.cluster.Pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	used := map[string]v1.ResourceList{}
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.Spec.NodeName == "" || p.UID == pod.UID || Ended(p) {
			continue
		}
		used[p.Spec.NodeName] = sum(used[p.Spec.NodeName], Requests(p))
	}
	want := Requests(pod)
	out := map[string][]place.Reason{}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		if short := lacks(want, n.Status.Allocatable, used[n.Name]); len(short) > 0 {
			out[n.Name] = short
		}
	}
	return out, nil
}

// Pod returns one pod.
func (r *Reader) Pod(ctx context.Context, namespace, name string) (*v1.Pod, error) {
	return r.cluster.Pods.In(namespace).Get(ctx, name, metav1.GetOptions{})
}
