// Package plugin connects the commands of face/cli to the cluster of a kubeconfig. The kubectl plugin and the lab's
// demonstration run the same commands.
//
// It only wires.
package plugin

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/api/document"
	podapi "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/stage"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/core/whatif"
	"github.com/tenon-numa/tenon/face/cli"
	"github.com/tenon-numa/tenon/node/sysfs"
	"github.com/tenon-numa/tenon/ops/doctor"
	"github.com/tenon-numa/tenon/ops/rollout"
)

// Setup returns the functions that the commands call, for a program of a version.
func Setup(version string) cli.Setup {
	return cli.Setup{Version: version, Connect: connect, Machine: readMachine, Catalogue: catalogue,
		Stages: stages(), Affinity: affinity, Doctor: examine, Bundle: writeBundle(version),
		KubeletPlan: planKubelets, ApplyKubelets: applyKubelets, Console: serveConsole(version)}
}

// readMachine reads the text form or the snapshot of a machine.
func readMachine(data []byte) (*topo.Machine, []string, error) {
	found, err := sysfs.Read(data)
	if err != nil {
		return nil, nil, err
	}
	var warnings []string
	for _, w := range found.Warnings {
		warnings = append(warnings, w.String())
	}
	return found.Machine, warnings, nil
}

func connect(k cli.Kubeconfig) (cli.Cluster, string, error) {
	r, err := reach(k)
	if err != nil {
		return nil, "", err
	}
	reader, err := r.reader()
	if err != nil {
		return nil, "", err
	}
	return &cluster{reader: reader}, r.namespace, nil
}

// examine examines the cluster of a kubeconfig.
func examine(ctx context.Context, k cli.Kubeconfig, o cli.DoctorOptions) (document.Diagnosis, error) {
	r, err := reach(k)
	if err != nil {
		return document.Diagnosis{}, err
	}
	s, err := doctor.Read(ctx, r.cfg, r.at)
	if err == nil && k.Bundle() == "" {
		err = s.LookAgain(ctx, r.cfg, pause)
	}
	if err != nil {
		return document.Diagnosis{}, err
	}
	return doctor.Examine(s, doctor.Options(o))
}

// pause waits, and prints that it does.
func pause(ctx context.Context, d time.Duration) error {
	fmt.Fprintf(os.Stderr, "some nodes report pods that are gone: looking again in %v\n", d)
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// planKubelets returns what a change of kubelets' configuration does to the cluster of a kubeconfig.
func planKubelets(ctx context.Context, k cli.Kubeconfig, v whatif.Variation) (document.KubeletPlan, error) {
	r, err := reach(k)
	if err != nil {
		return document.KubeletPlan{}, err
	}
	return r.plan(ctx, v)
}

func (r reached) plan(ctx context.Context, v whatif.Variation) (document.KubeletPlan, error) {
	reader, err := r.reader()
	if err != nil {
		return document.KubeletPlan{}, err
	}
	scene, err := rollout.Read(ctx, reader, r.cfg)
	if err != nil {
		return document.KubeletPlan{}, err
	}
	return scene.Plan(v)
}

// cluster implements the commands' interface with a reader. A command asks it several questions about one moment: it
// reads the cluster once, unless the command follows changes.
type cluster struct {
	reader  *kube.Reader
	follows bool
	view    *kube.View // nil before the first question
	// complete: the view has volumes and namespaces.
	complete bool
	// omitted names the pods that an answer omits; see podViews.
	omitted string
}

// read returns the cluster, complete with volumes and namespaces if that is wanted.
func (c *cluster) read(ctx context.Context, complete bool) (v *kube.View, err error) {
	switch {
	case c.view == nil || c.follows:
		if complete {
			c.view, err = c.reader.ViewAll(ctx)
		} else {
			c.view, err = c.reader.View(ctx)
		}
	case complete && !c.complete:
		err = c.reader.Around(ctx, c.view)
	}
	if err != nil {
		c.view = nil
		return nil, err
	}
	c.complete = complete || c.complete && !c.follows
	return c.view, nil
}

func (c *cluster) Nodes(ctx context.Context) ([]*ledger.Node, []document.Problem, error) {
	v, err := c.read(ctx, false)
	if err != nil {
		return nil, nil, err
	}
	return v.States, nodeProblems(v.Problems), nil
}

// Notes returns notes on the nodes that Nodes returned last.
func (c *cluster) Notes() []document.Problem { return nodeProblems(c.reader.Notes()) }

// Partial returns what of the cluster could not be read; see [cli.Partial].
func (c *cluster) Partial() string {
	var texts []string
	if c.view != nil {
		texts = append(texts, c.view.Partial())
	}
	texts = append(texts, c.omitted)
	return strings.Join(slices.DeleteFunc(texts, func(s string) bool { return s == "" }), "; ")
}

// NodeNames returns names for completion.
func (c *cluster) NodeNames(ctx context.Context) ([]string, error) { return c.reader.NodeNames(ctx) }

// PodNames returns names of one namespace for completion.
func (c *cluster) PodNames(ctx context.Context, namespace string) ([]string, error) {
	return c.reader.PodNames(ctx, namespace)
}

// Changes returns a channel that receives after a change. The cluster is read for every question from then on.
func (c *cluster) Changes(ctx context.Context) (<-chan struct{}, error) {
	c.follows = true
	return c.reader.Changes(ctx)
}

func (c *cluster) Pod(ctx context.Context, namespace, name string) (cli.PodView, error) {
	pod, err := c.reader.Pod(ctx, namespace, name)
	if err != nil {
		return cli.PodView{}, err
	}
	view, err := podView(pod)
	if err != nil {
		return cli.PodView{}, err
	}
	return view, c.around(ctx, pod, &view)
}

// Pods omits pods that cannot be translated, which Tenon's scheduler does not accept; Partial names them.
func (c *cluster) Pods(ctx context.Context, namespace string) (out []cli.PodView, err error) {
	v, err := c.read(ctx, false)
	if err != nil {
		return nil, err
	}
	out, c.omitted = podViews(slices.DeleteFunc(slices.Clone(v.Pods), func(p kube.Stored) bool {
		return namespace != "" && p.Pod().Namespace != namespace
	}))
	return out, nil
}

// PodsOf finds the pods of a workload.
func (c *cluster) PodsOf(ctx context.Context, kind, namespace, name string) ([]cli.PodView, error) {
	pods, err := c.reader.PodsOf(ctx, kind, namespace, name)
	views, omitted := podViews(kube.StoreAll(pods))
	c.omitted = omitted
	return views, err
}

// podViews returns the pods that can be translated. omitted counts the others, and has the reason of one of them.
func podViews(pods []kube.Stored) (out []cli.PodView, omitted string) {
	count, first := 0, ""
	for p := range kube.EachPod(pods) {
		view, err := podView(p)
		if err == nil {
			out = append(out, view)
			continue
		}
		count, first = count+1, cmp.Or(first, err.Error())
	}
	if count > 0 {
		omitted = fmt.Sprintf("pods that are left out, since they cannot be judged: %d, such as %s", count, first)
	}
	return out, omitted
}

func podView(pod *v1.Pod) (cli.PodView, error) {
	core, err := podapi.ToPlace(pod)
	if err != nil {
		return cli.PodView{}, err
	}
	demand, err := podapi.Demand(pod)
	if err != nil {
		return cli.PodView{}, err
	}
	return cli.PodView{ID: kube.ID(pod), Pod: core, Demand: demand, Node: pod.Spec.NodeName,
		Phase: string(pod.Status.Phase), Reason: pod.Status.Reason, Message: pod.Status.Message}, nil
}

// around reads what kube-scheduler's own filters depend on, and how far the scheduling of a pod without a node has
// come.
func (c *cluster) around(ctx context.Context, pod *v1.Pod, out *cli.PodView) error {
	v, err := c.read(ctx, true)
	if err != nil {
		return err
	}
	s, err := stage.Of(v)
	if err != nil {
		return err
	}
	return around(ctx, c.reader, s, pod, out)
}

func around(ctx context.Context, reader *kube.Reader, s *stage.Stage, pod *v1.Pod, out *cli.PodView) error {
	w, err := s.Existing(pod)
	if err != nil {
		return err
	}
	out.Needs, out.Unjudged, out.Around = w.Want.Needs, w.Unjudged, map[string]cli.Around{}
	out.Misspelt = podapi.Misspelt(pod, s.Schedulers())
	barred := w.Want.Barred(s.Nodes())
	for i, n := range s.Nodes() {
		out.Around[n.Name] = cli.Around{Node: n, Barred: barred[i]}
	}
	if pod.Spec.NodeName != "" {
		return nil
	}
	how, err := reader.Scheduling(ctx, pod, s.Pods())
	out.Scheduling = &how
	return err
}
