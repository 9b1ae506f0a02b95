package capacity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tenon-numa/tenon/api/provisioning"
	"github.com/tenon-numa/tenon/scheduler/promise"
)

// This file keeps places again after a restart. No pod is scheduled meanwhile, so it must not take long, however many
// requests there are.

// errTemplates is about a request whose places cannot be kept without its templates: its pods have claims of devices.
var errTemplates = errors.New("the details do not have all that the pods ask for")

// promisedBy returns the places of a request by the details of its status alone.
func (c *Controller) promisedBy(r *request) (out []promise.Place, err error) {
	if len(r.object.Spec.PodSets) > maxSets {
		return nil, errTemplates
	}
	for i, s := range r.object.Spec.PodSets {
		p, err := r.object.Pod(i)
		if err != nil || p.Spec.SchedulerName == "" || len(p.Spec.ResourceClaims) > 0 {
			return nil, errTemplates
		}
		p.Namespace, p.Name = r.object.Namespace, s.PodTemplateRef.Name
		if _, known := c.cluster.Rules(p.Spec.SchedulerName); !known {
			return nil, errForeign
		}
		if c.claims != nil {
			if serves, err := c.claims.Serves(p); serves || err != nil {
				return nil, errTemplates
			}
		}
		x, err := judged(p)
		if err != nil {
			return nil, err
		}
		x.Set = i
		runs, err := r.object.Places(i, int(s.Count))
		if err != nil {
			return nil, err
		}
		if len(out)+int(s.Count) > provisioning.MaxPods {
			return nil, fmt.Errorf("the request has more than %d pods", provisioning.MaxPods)
		}
		for _, run := range runs {
			out = append(out, slices.Repeat([]promise.Place{{Node: run.Node, Pod: x}}, run.Count)...)
		}
	}
	return out, nil
}

// restore keeps the places that the status of a request names. It returns false if it has to be called again. later are
// the requests that follow.
func (c *Controller) restore(ctx context.Context, r *request, later []*request) bool {
	places, err := c.promisedBy(r)
	if errors.Is(err, errTemplates) {
		if r.sets == nil && r.fetched == nil && !c.now().Before(r.again) {
			c.fetch(ctx, c.needTemplates(later))
		}
		places, err = c.placesByTemplates(ctx, r)
	}
	switch {
	case errors.Is(err, errForeign):
		return true
	case passes(err):
		return false
	case err == nil:
		err = c.keeper.Restore(r.asked(), places)
	}
	if err != nil {
		c.logger.Error(err, "The room of a request cannot be kept after a restart", "request", r.name)
		c.finish(ctx, r, "Unreadable", err.Error())
	}
	return true
}

// unread is an error about templates that passes.
type unread struct{ error }

// passes reports whether an error about a request's places passes, so that they may be kept later.
func passes(err error) bool {
	is := unread{}
	return errors.As(err, &is)
}

// placesByTemplates returns the places of a request whose templates have to be read.
func (c *Controller) placesByTemplates(ctx context.Context, r *request) ([]promise.Place, error) {
	err := c.read(ctx, r)
	bad, missing, full := invalid{}, noTemplate{}, crowded{}
	switch {
	case err == nil:
		return r.placesOf()
	case errors.Is(err, errForeign), errors.As(err, &bad), errors.As(err, &missing), errors.As(err, &full):
		return nil, err
	}
	return nil, unread{err}
}

// needTemplates returns the first requests whose places are to be kept and need templates, as many as are fetched
// ahead.
func (c *Controller) needTemplates(list []*request) (out []*request) {
	for _, r := range list {
		if len(out) == maxAhead {
			break
		}
		if r.over() || r.restored || r.sets != nil || !r.is(provisioning.Provisioned) {
			continue
		}
		if _, err := c.promisedBy(r); errors.Is(err, errTemplates) {
			out = append(out, r)
		}
	}
	return out
}

// inTurn returns requests by the turn of their namespaces. Requests of one namespace keep their order.
func inTurn(list []*request) []*request {
	turn, of := map[*request]int{}, map[string]int{}
	for _, r := range list {
		turn[r] = of[r.object.Namespace]
		of[r.object.Namespace]++
	}
	out := slices.Clone(list)
	slices.SortStableFunc(out, func(a, b *request) int { return cmp.Compare(turn[a], turn[b]) })
	return out
}
