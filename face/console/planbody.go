package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/api/v1alpha1"
)

// This file reads the plan in a rollout request. It decodes only the fields that a rollout needs, and no more nodes
// and bytes than a plan may have, because a large plan would take much memory.

// decodePlan decodes the body of a rollout request.
func decodePlan(body []byte) (document.KubeletRolloutRequest, error) {
	var read struct {
		document.KubeletRolloutRequest
		Plan struct {
			document.KubeletPlan
			Nodes     plannedNodes `json:"nodes"`
			Unchanged unread       `json:"unchanged"`
			Moves     unread       `json:"moves"`
			Shapes    unread       `json:"shapes"`
			Limits    unread       `json:"limits"`
		} `json:"plan"`
	}
	err := decode(body, &read)
	out := read.KubeletRolloutRequest
	out.Plan = read.Plan.KubeletPlan
	out.Plan.Nodes = read.Plan.Nodes
	return out, err
}

// unread is a JSON value whose content is skipped.
type unread struct{}

// UnmarshalJSON accepts every value.
func (*unread) UnmarshalJSON([]byte) error { return nil }

// small is a JSON value of at most maxPart bytes.
type small[T any] struct{ value T }

// UnmarshalJSON refuses a text of more than maxPart bytes before it decodes it.
func (s *small[T]) UnmarshalJSON(data []byte) error {
	if len(data) > maxPart {
		return fail(http.StatusUnprocessableEntity, "plan", fmt.Sprintf("has a field of more than %d bytes", maxPart))
	}
	return decode(data, &s.value)
}

// plannedNode is a document.KubeletPlanNode without the fields that a rollout does not read.
type plannedNode struct {
	Name       string                `json:"name"`
	Version    string                `json:"version"`
	Before     small[v1alpha1.Rules] `json:"before"`
	After      small[v1alpha1.Rules] `json:"after"`
	Diff       unread                `json:"diff"`
	DropIn     string                `json:"dropIn"`
	Errors     small[[]string]       `json:"errors"`
	Warnings   unread                `json:"warnings"`
	StateFiles small[[]string]       `json:"stateFiles"`
	Pods       unread                `json:"pods"`
	Evicted    int                   `json:"evicted"`
	Waiting    int                   `json:"waiting"`
	Blocked    unread                `json:"blocked"`
}

func (n *plannedNode) document() document.KubeletPlanNode {
	return document.KubeletPlanNode{Name: n.Name, Version: n.Version, Before: n.Before.value, After: n.After.value,
		DropIn: n.DropIn, Errors: n.Errors.value, StateFiles: n.StateFiles.value, Evicted: n.Evicted, Waiting: n.Waiting}
}

type plannedNodes []document.KubeletPlanNode

// UnmarshalJSON decodes one node after the other. It returns an error at the first node beyond maxPlanned.
func (p *plannedNodes) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	start, err := d.Token()
	if err != nil || start == nil {
		return err
	}
	if start != json.Delim('[') {
		return fail(http.StatusBadRequest, "plan", "has nodes that are no list")
	}
	for d.More() {
		if len(*p) == maxPlanned {
			return fail(http.StatusUnprocessableEntity, "plan", fmt.Sprintf("has more than %d nodes", maxPlanned))
		}
		var n plannedNode
		if err := d.Decode(&n); err != nil {
			return err
		}
		*p = append(*p, n.document())
	}
	return nil
}
