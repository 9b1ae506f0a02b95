package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/score"
)

// Strategy is how nodes are scored, in the form of scheduler-plugins.
type Strategy struct {
	// Type is the name of a score.Type.
	Type string `json:"type,omitempty"`
	// Resources are the weights of resources; a resource that is not named weighs 1.
	Resources []Weight `json:"resources,omitempty"`
}

// Weight is the weight of one resource in a strategy: 1..score.MaxWeight; 1 when zero.
type Weight struct {
	Name   string `json:"name"`
	Weight int64  `json:"weight"`
}

// maxResources bounds the weights of a strategy; no machine has that many resources.
const maxResources = 256

// complete checks a strategy, and returns it with its defaults. types are the scoring types that arguments of this
// kind accept, the default first; kind begins the texts of errors.
func (s Strategy) complete(kind string, types []string) (Strategy, error) {
	if s.Type == "" {
		s.Type = types[0]
	}
	if err := (check{"scoringStrategy.type", s.Type, types}).verify(kind); err != nil {
		return Strategy{}, err
	}
	if n := len(s.Resources); n > maxResources {
		return Strategy{}, fmt.Errorf("%s: scoringStrategy.resources: %d resources, at most %d", kind, n, maxResources)
	}
	s.Resources = slices.Clone(s.Resources)
	for i, r := range s.Resources {
		switch {
		case strings.TrimSpace(r.Name) == "":
			return Strategy{}, fmt.Errorf("%s: scoringStrategy.resources[%d]: name is empty", kind, i)
		case r.Weight < 0 || r.Weight > score.MaxWeight:
			return Strategy{}, fmt.Errorf("%s: scoringStrategy.resources[%d]: weight of %q: %d is outside 0..%d",
				kind, i, r.Name, r.Weight, int64(score.MaxWeight))
		case r.Weight == 0:
			s.Resources[i].Weight = 1
		}
	}
	return s, nil
}

// Scoring returns the strategy in the form that computes scores.
func (s Strategy) Scoring() score.Strategy {
	t, _ := score.ParseType(s.Type) // complete has checked it
	out := score.Strategy{Type: t}
	for _, r := range s.Resources {
		out.Weights = append(out.Weights, score.Weight{Resource: r.Name, Weight: r.Weight})
	}
	return out
}
