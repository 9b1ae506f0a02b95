package upstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// caseFile is the name of upstream's files of test cases.
const caseFile = "performance-config.yaml"

// testCase is a test case as upstream writes it. The fields that are not read here stay as they are.
type testCase map[string]any

// Threshold is the least rate that upstream's CI accepts, on its own machines.
type Threshold struct {
	Rate float64 // pods per second; 0 if there is no threshold
	Of   string  // the workload that has it, maybe a larger one of the same test case
}

// readCases reads a file of test cases.
func readCases(file string) ([]testCase, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read test cases: %w", err)
	}
	var out []testCase
	if err := yaml.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("read test cases %s: %w", file, err)
	}
	return out, nil
}

// isolate returns the test case with one workload, with the parameters that w replaces, and upstream's threshold: the
// workload's own if w replaces nothing, otherwise the first one in the test case. The returned test case has no
// threshold, because upstream's code would fail a run below it.
func isolate(all []testCase, w Workload) (testCase, Threshold, error) {
	for _, c := range all {
		if c["name"] != w.Case {
			continue
		}
		var found map[string]any
		var limit Threshold
		list, _ := c["workloads"].([]any)
		for _, each := range list {
			one, _ := each.(map[string]any)
			name, _ := one["name"].(string)
			rate := rateOf(one["threshold"], w.Topic)
			if name == w.Name {
				found = maps.Clone(one)
			}
			if rate > 0 && (name == w.Name && len(w.Set) == 0 || limit.Of == "") {
				limit = Threshold{rate, name}
			}
		}
		if found == nil {
			return nil, limit, fmt.Errorf("test case %s of %s has no workload %s", w.Case, w.Topic, w.Name)
		}
		if err := replace(found, w.Set); err != nil {
			return nil, limit, fmt.Errorf("%s: %w", w, err)
		}
		return withOneWorkload(c, found), limit, nil
	}
	return nil, Threshold{}, fmt.Errorf("topic %s has no test case %s", w.Topic, w.Case)
}

// withOneWorkload returns a test case with one workload, without thresholds. Upstream's code then collects the time
// of a decision instead of its own selection of histograms; it measures the throughput in any case.
func withOneWorkload(c testCase, workload map[string]any) testCase {
	delete(workload, "threshold")
	delete(workload, "thresholdMetricSelector")
	out := maps.Clone(c)
	delete(out, "defaultThresholdMetricSelector")
	out["workloads"] = []any{workload}
	out["metricsCollectorConfig"] = map[string]any{"metrics": map[string]any{decisionMetric: nil}}
	return out
}

// rateOf returns a threshold in pods per second, or 0 if there is none. Upstream writes it as one number, or as one
// number for each topic.
func rateOf(threshold any, topic string) float64 {
	switch t := threshold.(type) {
	case float64:
		return t
	case map[string]any:
		rate, _ := t[filepath.Base(topic)].(float64)
		return rate
	}
	return 0
}

// replace replaces parameters of a workload.
func replace(workload map[string]any, set map[string]int) error {
	if len(set) == 0 {
		return nil
	}
	params, _ := workload["params"].(map[string]any)
	params = maps.Clone(params)
	for name, value := range set {
		if _, ok := params[name]; !ok {
			return fmt.Errorf("no parameter %s", name)
		}
		params[name] = value
	}
	workload["params"] = params
	return nil
}

// prepare writes the files of a run into dir, and returns its job and the limit of upstream's CI.
func (k *Kit) prepare(w Workload, s Subject, dir string) (Job, Threshold, error) {
	topic := k.topic(w.Topic)
	all, err := readCases(filepath.Join(topic, caseFile))
	if err != nil {
		return Job{}, Threshold{}, err
	}
	c, limit, err := isolate(all, w)
	if err != nil {
		return Job{}, limit, err
	}
	j := Job{Cases: filepath.Join(dir, "cases.yaml"), Topic: filepath.Base(w.Topic), Subject: s, NUMA: w.Topic == NUMA,
		Counts: filepath.Join(dir, "counts.json")}
	if s != Plain {
		j.Scheduler, j.Deployed = filepath.Join(dir, "scheduler.yaml"), k.deployed()
		if own, ok := c["schedulerConfigPath"].(string); ok {
			j.Base = filepath.Join(topic, own)
		}
		c["schedulerConfigPath"] = j.Scheduler
	}
	return j, limit, errors.Join(put(j.Cases, []testCase{c}), put(filepath.Join(dir, "job.json"), j))
}

// get reads a value that put has written.
func get(file string, into any) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read a run's files: %w", err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	return nil
}

// put writes a value as JSON, which is YAML too.
func put(file string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return fmt.Errorf("write a run's files: %w", err)
	}
	return nil
}
