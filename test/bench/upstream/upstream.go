// Package upstream runs kube-scheduler's own benchmark (test/integration/scheduler_perf of Kubernetes) with
// kube-scheduler as it is and with Tenon's plugin, in turns, and compares the results.
//
// Each run of a workload is a process of its own: the test binary of package harness, with an API server in it and an
// etcd beside it. Invariant: the runs of a workload differ in the scheduler's plugin and configuration only. Most
// workloads are upstream's, from the Kubernetes module that Tenon is built with, some of them at other sizes; the
// folder numa has more in the same format. The package measures and does not judge: a number below upstream's threshold
// is no error.
package upstream

import (
	"fmt"
	"os"
)

// jobEnv is the environment variable with the path of the file that has the harness's [Job].
const jobEnv = "TENON_UPSTREAM_JOB"

// Job is one run of one workload with one scheduler.
type Job struct {
	// Cases is a file in upstream's format, with this workload only.
	Cases string
	// Topic is upstream's name of the group of test cases.
	Topic   string
	Subject Subject
	// Scheduler is the file of the scheduler's configuration, which the harness writes; empty for kube-scheduler's own.
	// Base is the configuration that upstream has for the test case, or empty. Deployed has Tenon's deployed profile.
	Scheduler, Base, Deployed string
	// NUMA makes nodes publish layouts and admit pods as kubelets do. Afterwards the harness writes [Counts] into the
	// file Counts.
	NUMA   bool
	Counts string
}

// Subject is a scheduler.
type Subject string

const (
	// Plain is kube-scheduler without the plugin.
	Plain Subject = "plain"
	// Tenon is kube-scheduler with the plugin, set up as tenon-scheduler sets it up.
	Tenon Subject = "tenon"
	// Alone is kube-scheduler with the plugin compiled in, without what only tenon-scheduler adds.
	Alone Subject = "alone"
)

// Counts are what the imitated kubelets of a job with NUMA nodes did.
type Counts struct {
	Refused int // pods that kubelets refused after they were bound
	Pods    int // pods that the workload created
}

// ReadJob returns the job of this process.
func ReadJob() (Job, error) {
	var j Job
	if err := get(os.Getenv(jobEnv), &j); err != nil {
		return j, fmt.Errorf("the job that %s names: %w", jobEnv, err)
	}
	return j, nil
}
