package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/face/cli"
)

// Bounds of a request that carries out a plan.
const (
	maxUnavailable = 1000 // nodes that change at the same time
	maxCommand     = 1024 // bytes of a command or of the name of an image
)

// rollouts carries out one plan at a time. The plan continues even if the person who began it signs out.
type rollouts struct {
	mu      sync.Mutex
	request document.KubeletRolloutRequest // the request of the last rollout
	last    document.KubeletRollout
	stop    context.CancelCauseFunc
	ended   chan struct{} // closed when the last rollout has ended; nil before the first one
}

// getRollout answers with the progress of the present plan, or with the result of the last one.
func (h *Handler) getRollout(w http.ResponseWriter, q *request) error {
	return answer(w, q.Request, h.rollouts.shown(q.who))
}

// shown returns what an identity may read of the last rollout, without the nodes that the identity may not read. If
// there are such nodes, it also replaces the error, which may name them or their pods.
func (r *rollouts) shown(who *Identity) document.KubeletRollout {
	r.mu.Lock()
	defer r.mu.Unlock()
	out, state := r.last, who.View.State()
	out.Kind, out.MayStop = "KubeletRollout", r.last.By == who.Name && r.last.Running
	out.Nodes = []document.KubeletRolloutNode{}
	for _, n := range r.last.Nodes {
		if _, ok := state.Node(n.Name); ok {
			out.Nodes = append(out.Nodes, n)
		}
	}
	if len(out.Nodes) < len(r.last.Nodes) && out.Error != "" {
		out.Error = "it has failed on a node that you may not read"
	}
	return out
}

// beginRollout checks that a plan can be carried out. It then begins the rollout, unless the request is a dry run or
// no node has to change. A request without nodes continues the last rollout, if the same person began it.
func (h *Handler) beginRollout(w http.ResponseWriter, q *request) error {
	if q.who.Kubelets == nil {
		return fail(http.StatusNotFound, "path", "nothing changes kubelets here")
	}
	body, err := decodePlan(q.body)
	if err != nil {
		return err
	}
	q.body = nil // it is large
	if len(body.Plan.Nodes) == 0 {
		var ok bool
		if body, ok = h.rollouts.lastRequest(q.who); !ok {
			return fail(http.StatusUnprocessableEntity, "plan", "has no nodes, and there is none of yours to go on with")
		}
	}
	options, err := optionsOf(body)
	if err != nil {
		return err
	}
	applier, namespace, err := q.who.Kubelets.Apply(body.Namespace, options)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(q.Context(), maxAnswer)
	defer cancel()
	nodes, err := applier.Pending(ctx, body.Plan)
	if err != nil {
		return err
	}
	doc := document.KubeletRollout{Kind: "KubeletRollout", DryRun: true, By: q.who.Name, Namespace: namespace,
		Image: options.Image, StopCommand: options.Stop, StartCommand: options.Start,
		MaxUnavailable: options.MaxUnavailable, Nodes: []document.KubeletRolloutNode{}}
	for _, n := range nodes {
		doc.Nodes = append(doc.Nodes, document.KubeletRolloutNode{Name: n.Name})
	}
	if q.values.Get("dryRun") == "true" || len(nodes) == 0 {
		return answer(w, q.Request, doc)
	}
	if err := h.rollouts.begin(body, doc, func(ctx context.Context, say func(document.KubeletStep)) error {
		return applier.Run(ctx, nodes, say)
	}); err != nil {
		return err
	}
	return answer(w, q.Request, h.rollouts.shown(q.who))
}

// optionsOf returns the options that a request selects, with defaults for the others. It returns an error for a value
// out of bounds.
func optionsOf(r document.KubeletRolloutRequest) (cli.KubeletApplyOptions, error) {
	o := cli.KubeletDefaults()
	refused := func(field, detail string) (cli.KubeletApplyOptions, error) {
		return o, fail(http.StatusUnprocessableEntity, field, detail)
	}
	if r.Namespace != "" && checkNamespace(r.Namespace) != nil {
		return refused("namespace", checkNamespace(r.Namespace).Error())
	}
	if r.MaxUnavailable < 0 || r.MaxUnavailable > maxUnavailable {
		return refused("maxUnavailable", fmt.Sprintf("want 1..%d, or 0 for 1", maxUnavailable))
	}
	for _, n := range r.Plan.Nodes {
		if err := checkNode(n.Name); err != nil {
			return refused("plan", fmt.Sprintf("node %q: %v", n.Name, err))
		}
	}
	o.MaxUnavailable = max(1, r.MaxUnavailable)
	o.Force, o.LoseEmptyDir = r.Force, r.DeleteEmptyDirData
	for _, one := range []struct {
		field, value string
		into         *string
	}{{"image", r.Image, &o.Image}, {"stopCommand", r.StopCommand, &o.Stop}, {"startCommand", r.StartCommand, &o.Start}} {
		if len(one.value) > maxCommand {
			return refused(one.field, "is too long")
		}
		if one.value != "" {
			*one.into = one.value
		}
	}
	return o, nil
}

// lastRequest returns the last rollout request; false if another person made the request, or if it has no nodes.
func (r *rollouts) lastRequest(who *Identity) (document.KubeletRolloutRequest, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.request, r.last.By == who.Name && len(r.request.Plan.Nodes) > 0
}

// begin records a rollout, and starts do, which changes its nodes, in a goroutine. It returns a failure if a rollout
// runs already.
func (r *rollouts) begin(asked document.KubeletRolloutRequest, doc document.KubeletRollout,
	do func(ctx context.Context, say func(document.KubeletStep)) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last.Running {
		return fail(http.StatusConflict, "", r.last.By+" is changing kubelets now: wait for the end of that")
	}
	ctx, stop := context.WithCancelCause(context.Background()) // independent of the request's context
	now := time.Now()
	doc.DryRun, doc.Running, doc.Began = false, true, &now
	r.request, r.last, r.stop, r.ended = asked, doc, stop, make(chan struct{})
	go func() {
		err := do(ctx, r.step)
		stop(nil)
		r.end(err)
	}()
	return nil
}

// step records the step that a node takes, and the time. Answers that are being written use the previous list of
// nodes, so step makes a new one.
func (r *rollouts) step(s document.KubeletStep) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, nodes := time.Now(), append([]document.KubeletRolloutNode{}, r.last.Nodes...)
	for i := range nodes {
		if nodes[i].Name == s.Node {
			nodes[i] = document.KubeletRolloutNode{Name: s.Node, Step: s.Step, Why: s.Why, Since: &now}
		}
	}
	r.last.Nodes = nodes
}

// end records the end of the rollout and its error.
func (r *rollouts) end(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.last.Running, r.last.Ended = false, &now
	if err != nil {
		r.last.Error = err.Error()
	}
	close(r.ended)
}

// stopRollout interrupts the rollout, for the person who began it. A node in progress keeps a record of its step,
// from which the same plan continues later.
func (h *Handler) stopRollout(w http.ResponseWriter, q *request) error {
	r := &h.rollouts
	r.mu.Lock()
	running, by, stop := r.last.Running, r.last.By, r.stop
	r.mu.Unlock()
	switch {
	case !running:
		return fail(http.StatusConflict, "", "no plan is being carried out")
	case by != q.who.Name:
		return fail(http.StatusForbidden, "", "only "+by+" may stop it, who began it")
	}
	stop(fmt.Errorf("stopped by %s", by))
	return answer(w, q.Request, r.shown(q.who))
}

// Close interrupts a running rollout, and returns when it has ended.
func (h *Handler) Close() {
	r := &h.rollouts
	r.mu.Lock()
	stop, ended := r.stop, r.ended
	r.mu.Unlock()
	if ended != nil {
		stop(errors.New("the console has ended"))
		<-ended
	}
}
