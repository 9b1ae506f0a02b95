package main

import (
	"context"
	"errors"
	"slices"
)

// longCommands maps commands of this program to go commands that take long, which a run of all checks therefore
// leaves out. The last go command of each gets the arguments.
var longCommands = map[string][][]string{
	"model": {{"test", "-v", "-timeout", "0", "./core/ledger", "-run", "TestEveryInterleaving", "-model.depth", "2"}},
	"mixed": {{"test", "-v", "-count=1", "-timeout", "0", "./lab/scheduler", "-run",
		"TestMixedReleases|TestOlderSchedulers", "-mixed.releases", "1.34,1.35,1.36"}},
	"conformance": {{"run", "./cmd/tenon-conformance", "--scheduler", "tenon", "--short", "--level", "aligned"}},
	"doctor": {
		{"test", "./ops/doctor", "./ops/bundle", "./ops/rollout", "./ops/apply"},
		{"test", "-v", "-timeout", "1h", "./cmd/kubectl-tenon", "-run", "TestTheDoctor|TestAPlan|TestKubeletsAreChanged",
			"-plan.clusters", "10"},
	},
}

// runLong runs a command of longCommands. What the doctor finds and changes is tried on a real node with systemd,
// too.
func (r *runner) runLong(ctx context.Context, what string, args []string) error {
	lines := longCommands[what]
	var errs []error
	for i, line := range lines {
		name := what
		if i == len(lines)-1 {
			line = slices.Concat(line, args)
		} else {
			name += "'s packages"
		}
		errs = append(errs, r.step(ctx, name, line...))
	}
	if what == "doctor" {
		errs = append(errs, r.trial(ctx, installation, []string{"-run", "TestKubeletsUnderSystemd"}))
	}
	return errors.Join(errs...)
}
