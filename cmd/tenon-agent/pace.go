package main

import (
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/tenon-numa/tenon/node/agent"
)

// pace has the flags for how often the agent writes and reads, and for the labels that it copies.
type pace struct {
	write, resync, reread time.Duration
	labels                string
}

func (p *pace) flags(fs *flag.FlagSet) {
	fs.DurationVar(&p.write, "write-interval", agent.DefaultInterval, "least time between two writes of an object")
	fs.DurationVar(&p.resync, "resync", agent.DefaultResync, "time between full reconciles that no change triggers")
	fs.DurationVar(&p.reread, "reread", agent.DefaultReread,
		"time between readings of published objects that no watch triggers; at least --resync")
	fs.StringVar(&p.labels, "layout-labels", "",
		"keys of labels to copy from the Node to published objects, separated by commas")
}

// open sets the intervals and the labels in cfg. It returns an error if a value is out of bounds.
func (p *pace) open(cfg *agent.Config) error {
	for _, d := range []struct {
		flag             string
		value, low, high time.Duration
	}{
		{"write-interval", p.write, agent.MinInterval, agent.MaxInterval},
		{"resync", p.resync, agent.MinResync, agent.MaxResync},
		{"reread", p.reread, p.resync, agent.MaxReread},
	} {
		if d.value < d.low || d.value > d.high {
			return fmt.Errorf("--%s=%s is not between %s and %s", d.flag, d.value, d.low, d.high)
		}
	}
	if p.labels != "" {
		cfg.Labels = strings.Split(p.labels, ",")
	}
	if err := agent.CheckLabels(cfg.Labels); err != nil {
		return fmt.Errorf("--layout-labels: %w", err)
	}
	cfg.Interval, cfg.Resync, cfg.Reread = p.write, p.resync, p.reread
	return nil
}
