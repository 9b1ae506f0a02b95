package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/score"
)

const (
	matchVersion = "kubescheduler.config.k8s.io/v1"
	matchKind    = Match + "Args"
)

// matchTypes are the scoring types of scheduler-plugins, its default first.
var matchTypes = [...]string{score.LeastAllocated.String(), score.MostAllocated.String(),
	score.BalancedAllocation.String(), score.LeastNUMANodes.String()}

// matchArgs are NodeResourceTopologyMatchArgs as scheduler-plugins reads them.
type matchArgs struct {
	APIVersion               string      `json:"apiVersion,omitempty"`
	Kind                     string      `json:"kind,omitempty"`
	ScoringStrategy          Strategy    `json:"scoringStrategy,omitempty"`
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

// complete checks the arguments as scheduler-plugins does, and returns the Args with the same effect. Notes has the
// differences.
func (m matchArgs) complete() (Args, error) {
	for _, c := range []check{
		{"apiVersion", m.APIVersion, []string{"", matchVersion}},
		{"kind", m.Kind, []string{"", matchKind}},
	} {
		if err := c.verify(matchKind); err != nil {
			return Args{}, err
		}
	}
	a, err := Args{}.complete()
	if err != nil {
		return Args{}, err
	}
	if t := m.ScoringStrategy.Type; t != "" && !slices.Contains(matchTypes[:], t) {
		return Args{}, fmt.Errorf("%s: scoringStrategy.type: Invalid value: %q: invalid ScoringStrategyType: want one of %s",
			matchKind, t, strings.Join(matchTypes[:], ", "))
	}
	if a.Strategy, err = m.ScoringStrategy.complete(matchKind, matchTypes[:]); err != nil {
		return Args{}, err
	}
	a.KeepVictims = m.PreemptionMode != nil && *m.PreemptionMode == preemptionDisabled
	for _, f := range m.knobs(a) {
		if f.given {
			a.note(f.field, f.text)
		}
	}
	return a, nil
}

func (a *Args) note(field, text string) { a.Notes = append(a.Notes, field+": "+text) }

// knob is a field of scheduler-plugins that has no effect here, or another one: most of them tune a mechanism that
// Tenon does not have. given is set if the arguments have the field and text is the note that applies to it. The
// value is not checked, because scheduler-plugins does not check it either, so a file that works there works here.
type knob struct {
	field string
	given bool
	text  string
}

// preemptionDisabled is scheduler-plugins' default for preemptionMode. Here, preemption is off only if the arguments
// name this value.
const preemptionDisabled = "Disabled"

const noResync = "no effect: what is known of a node follows every event; nothing is resynchronized"

// knobs returns the fields in the order in which scheduler-plugins declares them.
func (m matchArgs) knobs(a Args) []knob {
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
		{"preemptionMode", m.PreemptionMode != nil && !a.KeepVictims,
			"no effect: preemption computes what a node would do without the victims, whatever is known of it"},
		{"preemptionMode", a.KeepVictims,
			"nobody is evicted so that a pod can be aligned; without this field pods are"},
	}
}
