package upstream

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
)

// own matches functions of the plugin. The harness is on the stack of upstream's main goroutine, and is not meant.
const own = "tenon-numa/tenon/(api|cluster|core|scheduler)/"

// total matches the line in which go tool pprof sums up the samples that it shows.
var total = regexp.MustCompile(`accounting for [^,]+, +([0-9.]+)% of `)

// share returns the share of a run's CPU profile with Tenon's code on the stack, from 0 to 1; the mean if the run wrote
// several.
func (k *Kit) share(ctx context.Context, dir string) (float64, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*-cpu.prof"))
	if err != nil {
		return 0, err
	}
	var all []float64
	for _, file := range files {
		text, err := k.run(ctx, "tool", "pprof", "-top", "-nodecount=0", "-focus="+own, file)
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

// shareOf returns the share that a text of go tool pprof shows.
func shareOf(text string) (float64, error) {
	found := total.FindStringSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("no sum in what go tool pprof prints: %q", text)
	}
	percent, err := strconv.ParseFloat(found[1], 64)
	return percent / 100, err
}
