package console

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/cluster/live"
	"github.com/tenon-numa/tenon/face/cli"
)

// policy answers with the configuration of schedulers and kubelets.
func (h *Handler) policy(w http.ResponseWriter, q *request) error {
	ctx, cancel := context.WithTimeout(q.Context(), maxAnswer)
	defer cancel()
	state := q.who.View.State()
	kubelets, err := kubeletsOf(state)
	if err != nil {
		return err
	}
	doc := document.SchedulingPolicy{Kind: "SchedulingPolicy", Schedulers: []document.Scheduler{}, Kubelets: kubelets,
		Limits: append([]document.Limit{}, state.Limits...)}
	if q.who.Schedulers != nil {
		all, limits, err := q.who.Schedulers.List(ctx)
		if err != nil {
			return err
		}
		doc.Schedulers, doc.Limits = append(doc.Schedulers, all...), append(doc.Limits, limits...)
	}
	return answer(w, q.Request, doc)
}

// kubeletsOf groups nodes whose kubelets have equal rules, the largest group first. It leaves out nodes without a
// known machine.
func kubeletsOf(s live.State) ([]document.KubeletGroup, error) {
	groups, out := map[string]int{}, []document.KubeletGroup{}
	for _, n := range s.Nodes {
		if n.State == nil || n.State.Machine == nil {
			continue
		}
		rules := v1alpha1.FromCore(n.Name, n.State.Machine, n.State.Rules, nil, nil).Rules
		key, err := json.Marshal(rules)
		if err != nil {
			return nil, fmt.Errorf("encode rules of node %s: %w", n.Name, err)
		}
		at, ok := groups[string(key)]
		if !ok {
			at = len(out)
			groups[string(key)] = at
			out = append(out, document.KubeletGroup{Rules: rules})
		}
		out[at].Nodes = append(out[at].Nodes, n.Name)
	}
	slices.SortStableFunc(out, func(a, b document.KubeletGroup) int { return cmp.Compare(len(b.Nodes), len(a.Nodes)) })
	return out, nil
}

// numaAware answers with the state of the NUMA plugin in openFuyao's form: "open" if it is on, "close" if it is off.
func (h *Handler) numaAware(w http.ResponseWriter, q *request) error {
	if q.who.Schedulers == nil {
		return fail(http.StatusNotFound, "path", "there are no schedulers here")
	}
	ctx, cancel := context.WithTimeout(q.Context(), maxAnswer)
	defer cancel()
	s, err := q.who.Schedulers.Get(ctx, q.values.Get("scheduler"))
	if err != nil {
		return err
	}
	if s.Problem != "" {
		return fail(http.StatusUnprocessableEntity, "scheduler", s.Problem)
	}
	doc := document.NUMAAware{Code: http.StatusOK, Status: "close", Scheduler: s.ID, Version: s.Version}
	if s.Enabled {
		doc.Status = "open"
	}
	doc.Msg = fmt.Sprintf("plugin %s of %s is %s", s.Plugin, s.ID, doc.Status)
	return answer(w, q.Request, doc)
}

// setNUMAAware changes the configuration of a scheduler with the rights of the requesting person.
func (h *Handler) setNUMAAware(w http.ResponseWriter, q *request) error {
	if q.who.Schedulers == nil {
		return fail(http.StatusNotFound, "path", "there are no schedulers here")
	}
	var body document.PluginStatus
	if err := json.Unmarshal(q.body, &body); err != nil || body.Status != "open" && body.Status != "close" {
		return fail(http.StatusBadRequest, "status", `want {"status": "open"} or {"status": "close"}`)
	}
	ctx, cancel := context.WithTimeout(q.Context(), maxAnswer)
	defer cancel()
	doc, err := q.who.Schedulers.Set(ctx, document.PluginChange{Scheduler: q.values.Get("scheduler"),
		On: body.Status == "open", Profile: q.values.Get("profile"), DryRun: q.values.Get("dryRun") == "true",
		Version: q.values.Get("version")})
	if err != nil {
		return err
	}
	doc.Code, doc.Msg = http.StatusOK, fmt.Sprintf("plugin of %s is set to %s", doc.Scheduler, doc.Status)
	switch {
	case !doc.Changed:
		doc.Msg = fmt.Sprintf("plugin of %s is %s already", doc.Scheduler, doc.Status)
	case doc.DryRun:
		doc.Msg = fmt.Sprintf("plugin of %s would be set to %s", doc.Scheduler, doc.Status)
	}
	return answer(w, q.Request, doc)
}

// setArguments changes arguments of the plugin with the rights of the requesting person.
func (h *Handler) setArguments(w http.ResponseWriter, q *request) error {
	if q.who.Schedulers == nil {
		return fail(http.StatusNotFound, "path", "there are no schedulers here")
	}
	var body document.ArgumentChange
	if err := json.Unmarshal(q.body, &body); err != nil || len(body.Arguments) == 0 {
		return fail(http.StatusBadRequest, "arguments", `want {"arguments": {"NAME": VALUE}}`)
	}
	ctx, cancel := context.WithTimeout(q.Context(), maxAnswer)
	defer cancel()
	doc, err := q.who.Schedulers.Set(ctx, document.PluginChange{Scheduler: q.values.Get("scheduler"),
		Profile: q.values.Get("profile"), DryRun: q.values.Get("dryRun") == "true", Version: q.values.Get("version"),
		Arguments: body.Arguments})
	if err != nil {
		f := failureOf(err)
		if f.Status == http.StatusUnprocessableEntity {
			f.Field = "arguments"
		}
		return f
	}
	return answer(w, q.Request, document.SchedulerChange{Kind: "SchedulerChange", Scheduler: doc.Scheduler,
		Version: doc.Version, Changed: doc.Changed, DryRun: doc.DryRun, Diff: doc.Diff, Reload: doc.Reload,
		Warnings: doc.Warnings})
}

// doctor answers with a diagnosis of what the requesting person may read.
func (h *Handler) doctor(w http.ResponseWriter, q *request) error {
	if q.who.Doctor == nil {
		return fail(http.StatusNotFound, "path", "nothing examines the cluster here")
	}
	doc, err := h.bounded(q, func(ctx context.Context) (any, error) {
		return q.who.Doctor(ctx, cli.DoctorOptions{Node: q.values.Get("node"), Pod: q.values.Get("pod")})
	})
	if err != nil {
		return err
	}
	return answer(w, q.Request, doc)
}
