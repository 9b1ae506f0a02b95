package upstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// dataItems is the part of upstream's file of results that is read.
type dataItems struct {
	DataItems []struct {
		Data   map[string]float64 `json:"data"`
		Labels map[string]string  `json:"labels"`
	} `json:"dataItems"`
}

// Metrics in upstream's results: pods per second, and the milliseconds from the start of a scheduling cycle until the
// pod has a node.
const (
	rateMetric     = "SchedulingThroughput"
	decisionMetric = "scheduler_scheduling_algorithm_duration_seconds"
)

// averages returns the averages of metrics in the results that a run left in dir; the mean where a workload collects a
// metric several times. It returns an error if there is no throughput.
func averages(dir string) (map[string]float64, error) {
	files, err := filepath.Glob(filepath.Join(dir, "BenchmarkPerfScheduling*.json"))
	if err != nil {
		return nil, err
	}
	all := map[string][]float64{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read results: %w", err)
		}
		var items dataItems
		if err := json.Unmarshal(data, &items); err != nil {
			return nil, fmt.Errorf("read results %s: %w", file, err)
		}
		for _, item := range items.DataItems {
			if average, ok := item.Data["Average"]; ok {
				all[item.Labels["Metric"]] = append(all[item.Labels["Metric"]], average)
			}
		}
	}
	if len(all[rateMetric]) == 0 {
		return nil, errors.New("the results have no throughput: the workload ended before upstream's code took samples")
	}
	out := map[string]float64{}
	for metric, values := range all {
		out[metric] = mean(values)
	}
	return out, nil
}
