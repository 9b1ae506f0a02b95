package upstream

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// ownCode matches functions of the plugin. It does not match the harness, because that is on the stack of upstream's
// main goroutine, too. gaugeCode matches the computation of metrics when they are read.
const (
	ownCode   = "tenon-numa/tenon/(api|cluster|core|scheduler)/"
	gaugeCode = `tenon-numa/tenon/scheduler/metrics\.\(\*gauges\)`
)

// total matches the line in which go tool pprof sums up the samples that it shows.
var total = regexp.MustCompile(`accounting for [^,]+, +([0-9.]+)% of `)

// share returns the share of a run's CPU profile with matching functions on the stack, from 0 to 1. If the run wrote
// several profiles, it returns the mean of their shares.
func (k *Kit) share(ctx context.Context, dir, functions string) (float64, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*-cpu.prof"))
	if err != nil {
		return 0, err
	}
	var all []float64
	for _, file := range files {
		text, err := k.run(ctx, "tool", "pprof", "-top", "-nodecount=0", "-focus="+functions, file)
		if err != nil {
			return 0, err
		}
		x, err := shareOf(text)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, x)
	}
	return mean(all), nil
}

// shareOf returns the share that a text of go tool pprof shows, from 0 to 1. If no sample matches, the text has
// filters but no sum, and the share is 0.
func shareOf(text string) (float64, error) {
	found := total.FindStringSubmatch(text)
	if found == nil && strings.Contains(text, "Active filters:") {
		return 0, nil
	}
	if found == nil {
		return 0, fmt.Errorf("no sum in what go tool pprof prints: %q", text)
	}
	percent, err := strconv.ParseFloat(found[1], 64)
	return percent / 100, err
}
