package plugin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/live"
	"github.com/tenon-numa/tenon/cluster/stage"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/face/cli"
	"github.com/tenon-numa/tenon/face/console"
	"github.com/tenon-numa/tenon/ops/doctor"
	"github.com/tenon-numa/tenon/ops/schedulers"
)

// Watch follows the cluster in cfg with the rights of cfg, until ctx ends. namespaces are followed one by one if cfg
// may not list the pods of all; name is the identity's name in the console.
func Watch(ctx context.Context, cfg *rest.Config, name string, namespaces ...string) (*console.Identity, error) {
	reader, err := kube.NewReader(cfg)
	if err != nil {
		return nil, err
	}
	configured, err := schedulers.New(cfg, name)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	view, err := live.Start(ctx, cfg, live.Options{Namespaces: namespaces, Bounds: live.Standard()})
	if err != nil {
		stop()
		return nil, err
	}
	w := &watched{view: view, reader: reader}
	return &console.Identity{Name: name, View: w, Cluster: judged{w},
		Stages: cli.Stages{Cluster: w.stage, Vary: vary, Slots: &cli.Slots{}}, History: reader.History,
		Schedulers: configured, Kubelets: kubelets{w, cfg},
		Doctor: func(ctx context.Context, o cli.DoctorOptions) (document.Diagnosis, error) {
			v, err := w.whole(ctx)
			if err != nil {
				return document.Diagnosis{}, err
			}
			s, err := doctor.ReadAround(ctx, v, cfg, time.Now())
			if err != nil {
				return document.Diagnosis{}, err
			}
			return doctor.Examine(s, doctor.Options(o))
		},
		Affinity: func(ctx context.Context, node string) (document.Affinity, error) { return affinityOf(ctx, cfg, node) },
		Valid:    func() bool { return !view.Rejected() }, Close: stop}, nil
}

// watched implements the console's and the commands' interfaces with a live view.
type watched struct {
	view   *live.View
	reader *kube.Reader

	mu    sync.Mutex
	known bool
	state console.State // the last one
}

// State is computed once for each version.
func (w *watched) State() console.State {
	w.mu.Lock()
	defer w.mu.Unlock()
	version := w.view.Version()
	if w.known && w.state.Version == version {
		return w.state
	}
	s := console.State{Version: version}
	select {
	case <-w.view.Ready():
		s.Ready = true
	default:
	}
	s.Pods, s.Waiting = w.view.Count()
	for _, l := range w.view.Limits() {
		s.Limits = append(s.Limits, document.Limit{Resource: l.Resource, Reason: l.Reason})
	}
	s.Nodes = w.nodes()
	w.state, w.known = s, true
	return s
}

// nodes returns the nodes of the API server. If the identity may not read them, it returns the nodes that report.
func (w *watched) nodes() (out []console.Node) {
	snap, problems, notes := w.view.Snapshot(), map[string]string{}, map[string][]string{}
	for _, p := range w.view.Problems() {
		problems[p.Node] = p.Reason
	}
	for _, n := range w.view.Notes() {
		notes[n.Node] = append(notes[n.Node], n.Reason)
	}
	seen := map[string]bool{}
	for _, n := range w.view.Nodes() {
		seen[n.Name] = true
		out = append(out, console.Node{Name: n.Name, State: snap.Node(n.Name), Problem: problems[n.Name],
			Warnings: notes[n.Name], Labels: n.Labels, NotReady: !ready(n), Cordoned: n.Spec.Unschedulable})
	}
	for n := range snap.All() {
		if !seen[n.Name] {
			out = append(out, console.Node{Name: n.Name, State: n, Warnings: notes[n.Name]})
		}
	}
	slices.SortFunc(out, func(a, b console.Node) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// ready reports whether a node is ready. A node without the condition counts as ready.
func ready(n *v1.Node) bool {
	return !slices.ContainsFunc(n.Status.Conditions, func(c v1.NodeCondition) bool {
		return c.Type == v1.NodeReady && c.Status != v1.ConditionTrue
	})
}

// podAt returns a pod's summary.
func podAt(p live.Pod) console.Pod {
	return console.Pod{ID: p.ID, Node: p.Node, Scheduler: p.Scheduler, Phase: string(p.Phase), Reason: p.Reason,
		Created: p.Created, Ended: p.Ended()}
}

// follower implements the console's interface with a follower of the view.
type follower struct{ *live.Follower }

func (f follower) Next(ctx context.Context) (console.Change, error) {
	c, err := f.Follower.Next(ctx)
	return console.Change{Nodes: c.Nodes, Pods: c.Pods, All: c.All}, err
}

// Follow returns a follower of changes.
func (w *watched) Follow() console.Follower { return follower{w.view.Follow()} }

// await waits until everything was read once. An earlier answer would lack nodes and pods.
func (w *watched) await(ctx context.Context) error {
	select {
	case <-w.view.Ready():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("read the cluster for the first time: %w", ctx.Err())
	}
}

// whole returns the live view, with what is not followed.
func (w *watched) whole(ctx context.Context) (*kube.View, error) {
	if err := w.await(ctx); err != nil {
		return nil, err
	}
	v := w.view.View()
	for _, l := range w.view.Limits() {
		if v.Seen == nil || !strings.HasPrefix(l.Resource, "pods ") {
			v.Miss(l.Resource, l.Reason)
		}
	}
	return v, w.reader.Complete(ctx, v)
}

func (w *watched) stage(ctx context.Context, _ cli.Kubeconfig) (cli.Stage, []document.Problem, string, error) {
	if err := w.await(ctx); err != nil {
		return nil, nil, "", err
	}
	v := w.view.View()
	var err error
	if v.Served, err = w.reader.Served(ctx); err != nil {
		return nil, nil, "", err
	}
	s, err := stage.Of(v)
	if err != nil {
		return nil, nil, "", err
	}
	return s, nodeProblems(v.Problems), "", nil
}

// Pods returns summaries of pods.
func (w *watched) Pods(accept func(console.Pod) bool) (out []console.Pod) {
	for _, p := range w.view.Pods(func(p live.Pod) bool { return accept(podAt(p)) }) {
		out = append(out, podAt(p))
	}
	return out
}

// judged implements explain's interface with a live view.
type judged struct{ *watched }

// Pods returns the pods of a namespace, or of all namespaces if it is empty.
func (w judged) Pods(_ context.Context, namespace string) ([]cli.PodView, error) {
	all := w.view.View().Pods
	out, _ := podViews(slices.DeleteFunc(all, func(p kube.Stored) bool {
		return namespace != "" && p.Pod().Namespace != namespace
	}))
	return out, nil
}

// Nodes returns the nodes that report.
func (w judged) Nodes(ctx context.Context) (out []*ledger.Node, problems []document.Problem, err error) {
	if err := w.await(ctx); err != nil {
		return nil, nil, err
	}
	for n := range w.view.Snapshot().All() {
		out = append(out, n)
	}
	return out, nodeProblems(w.view.Problems()), nil
}

// Pod returns a pod that the identity may read.
func (w judged) Pod(ctx context.Context, namespace, name string) (cli.PodView, error) {
	if err := w.await(ctx); err != nil {
		return cli.PodView{}, err
	}
	pod := w.view.Pod(namespace, name)
	if pod == nil {
		return cli.PodView{}, apierrors.NewNotFound(v1.Resource("pods"), name)
	}
	out, err := podView(pod)
	if err != nil {
		return cli.PodView{}, err
	}
	v := w.view.View()
	if v.Served, err = w.reader.Served(ctx); err != nil {
		return cli.PodView{}, err
	}
	s, err := stage.Of(v)
	if err != nil {
		return cli.PodView{}, err
	}
	return out, around(ctx, w.reader, s, pod, &out)
}
