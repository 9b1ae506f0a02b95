package config

import (
	"fmt"
	"strings"
)

const (
	matchVersion = "kubescheduler.config.k8s.io/v1"
	matchKind    = Match + "Args"
)

// Strategy is how NodeResourceTopologyMatchArgs want nodes to be scored.
type Strategy struct {
	// Type is LeastAllocated, MostAllocated, BalancedAllocation or LeastNUMANodes; LeastAllocated when
	// empty in the arguments.
	Type string `json:"type,omitempty"`
	// Resources are the weights of resources; one that is not named weighs 1.
	Resources []Weight `json:"resources,omitempty"`
}

// Weight is the weight of one resource in a strategy, at least 1.
type Weight struct {
	Name   string `json:"name"`
	Weight int64  `json:"weight"`
}

// maxWeight keeps products of weights and scores within 64 bits.
const maxWeight = 1 << 31

// matchArgs are NodeResourceTopologyMatchArgs as scheduler-plugins reads them.
type matchArgs struct {
	APIVersion               string      `json:"apiVersion,omitempty"`
	Kind                     string      `json:"kind,omitempty"`
	ScoringStrategy          *Strategy   `json:"scoringStrategy,omitempty"`
	CacheResyncPeriodSeconds *int64      `json:"cacheResyncPeriodSeconds,omitempty"`
	DiscardReservedNodes     *bool       `json:"discardReservedNodes,omitempty"`
	Cache                    *matchCache `json:"cache,omitempty"`
	PreemptionMode           *string     `json:"preemptionMode,omitempty"`
}

type matchCache struct {
	ForeignPodsDetect *string `json:"foreignPodsDetect,omitempty"`
	ResyncMethod      *string `json:"resyncMethod,omitempty"`
	InformerMode      *string `json:"informerMode,omitempty"`
	ResyncScope       *string `json:"resyncScope,omitempty"`
}

// complete checks the arguments as scheduler-plugins does, and says what they mean here.
func (m matchArgs) complete() (Args, error) {
	for _, c := range []check{
		{"apiVersion", m.APIVersion, []string{"", matchVersion}},
		{"kind", m.Kind, []string{"", matchKind}},
	} {
		if err := c.fails(matchKind); err != nil {
			return Args{}, err
		}
	}
	a, err := Args{Strategy: Strategy{Type: "LeastAllocated"}}.complete()
	if err != nil {
		return Args{}, err
	}
	if m.ScoringStrategy != nil {
		if a.Strategy, err = m.ScoringStrategy.complete(); err != nil {
			return Args{}, err
		}
		a.note("scoringStrategy", "nodes are scored by Tenon's own cost: the numas that the pod will really use")
	}
	for _, f := range m.knobs() {
		if f.given {
			a.note(f.field, f.says)
		}
	}
	return a, nil
}

func (a *Args) note(field, says string) { a.Notes = append(a.Notes, field+": "+says) }

func (s Strategy) complete() (Strategy, error) {
	if s.Type == "" {
		s.Type = "LeastAllocated"
	}
	err := check{"scoringStrategy.type", s.Type,
		[]string{"LeastAllocated", "MostAllocated", "BalancedAllocation", "LeastNUMANodes"}}.fails(matchKind)
	if err != nil {
		return Strategy{}, err
	}
	for i, r := range s.Resources {
		switch {
		case strings.TrimSpace(r.Name) == "":
			return Strategy{}, fmt.Errorf("%s: scoringStrategy.resources[%d]: name is empty", matchKind, i)
		case r.Weight < 0 || r.Weight > maxWeight:
			return Strategy{}, fmt.Errorf("%s: scoringStrategy.resources[%d]: weight of %q: %d is outside 0..%d", matchKind, i, r.Name, r.Weight, maxWeight)
		case r.Weight == 0:
			s.Resources[i].Weight = 1
		}
	}
	return s, nil
}

// knob is a field that tunes a mechanism which Tenon has not got. Its value is not looked at, as
// scheduler-plugins does not validate it either: a file that works there works here.
type knob struct {
	field string
	given bool
	says  string
}

const noResync = "no effect: what is known of a node follows every event; nothing is resynchronized"

// knobs are the fields in the order in which scheduler-plugins declares them.
func (m matchArgs) knobs() []knob {
	c := m.Cache
	if c == nil {
		c = &matchCache{}
	}
	return []knob{
		{"cacheResyncPeriodSeconds", m.CacheResyncPeriodSeconds != nil, noResync},
		{"discardReservedNodes", m.DiscardReservedNodes != nil,
			"no effect: exactly what a pod will hold is reserved, and the rest of its node stays usable"},
		{"cache.foreignPodsDetect", c.ForeignPodsDetect != nil,
			"no effect: what pods of other schedulers got is computed, and corrected by the node's report"},
		{"cache.resyncMethod", c.ResyncMethod != nil, noResync},
		{"cache.informerMode", c.InformerMode != nil, "no effect: the scheduler's own informers are used"},
		{"cache.resyncScope", c.ResyncScope != nil, noResync},
		{"preemptionMode", m.PreemptionMode != nil,
			"no effect: preemption always computes what a node would do without the victims"},
	}
}
