package manifest

import "slices"

// This file finds the pods that an operator makes only when other pods of the same object run. They cannot start
// together with these.

// Late is about an object that makes some of its pods only when others of them run. The zero Late is about one that
// makes all pods at once.
type Late struct {
	// First is how many of the pods are made before.
	First int
	// Until is when the others are made, and Remedy is what makes all pods at once; both are for people. Until is empty
	// if all are made at once.
	Until, Remedy string
}

// oneByOne is about a StatefulSet with the policy OrderedReady.
var oneByOne = Late{First: 1, Until: "gets its next pod when the one before it runs",
	Remedy: "set spec.podManagementPolicy to Parallel"}

// workersLate is about the workers of a LeaderWorkerSet (pkg/controllers/pod_controller.go of lws: a group's
// StatefulSet of workers is created when its leader is ready). The objects above the template are the whole one, its
// spec, and its leaderWorkerTemplate. Without a leader's template, the leaders are made of the workers'.
func workersLate(f found) (out Late) {
	above := f.above
	if above[1]["startupPolicy"] != "LeaderReady" {
		return Late{}
	}
	out = Late{Until: "gets its workers when their leader runs", Remedy: "set spec.startupPolicy to LeaderCreated"}
	if _, hasLeader := above[2]["leaderTemplate"]; !hasLeader {
		out.First, _ = leaders(above) // counted before, without an error
	}
	return out
}

// jobLate is about a replicated job of a JobSet (pkg/controllers of jobset: startup_policy.go, depends_on.go). The last
// objects above its pod template are the JobSet's spec, the job, its template, and the template's spec.
func jobLate(f found) Late {
	set, own := f.above[len(f.above)-4], f.above[len(f.above)-3]
	if list, _ := own["dependsOn"].([]any); len(list) > 0 {
		return Late{Until: "gets its pods when the replicated jobs that it depends on run or have succeeded",
			Remedy: "remove dependsOn"}
	}
	policy, _ := set["startupPolicy"].(object)
	list, _ := set["replicatedJobs"].([]any)
	if policy["startupPolicyOrder"] != "InOrder" || !slices.ContainsFunc(before(list, own), makesPods) {
		return Late{}
	}
	return Late{Until: "gets its pods when the replicated jobs before it run",
		Remedy: "set spec.startupPolicy.startupPolicyOrder to AnyOrder"}
}

// before returns the elements of a list before the one with the name of own. The names of replicated jobs are unique.
func before(list []any, own object) []any {
	name, _ := own["name"].(string)
	at := slices.IndexFunc(list, func(x any) bool {
		o, _ := x.(object)
		other, ok := o["name"].(string)
		return ok && other == name
	})
	return list[:max(0, at)]
}

// makesPods reports whether a replicated job has pods: one without any counts as started.
func makesPods(x any) bool {
	o, _ := x.(object)
	copies, err := number(o, "replicas", 1)
	return err != nil || copies > 0
}

// launcherLate is about the replicas of an MPIJob (pkg/controller/mpi_job_controller.go of mpi-operator).
func launcherLate(f found) Late {
	if f.part != "Launcher" || f.above[1]["launcherCreationPolicy"] != "WaitForWorkersReady" {
		return Late{}
	}
	return Late{Until: "gets its pod when the workers run", Remedy: "set spec.launcherCreationPolicy to AtStartup"}
}

// submitterLate is about the pod that submits a RayJob (ray-operator/controllers/ray/rayjob_controller.go of KubeRay:
// its Job is created when the cluster is ready). A cluster that the RayJob selects may run before.
func submitterLate(f found) Late {
	spec := f.above[len(f.above)-1]
	if selected, _ := spec["clusterSelector"].(object); len(selected) > 0 {
		return Late{}
	}
	return Late{Until: "gets its submitter when the cluster runs",
		Remedy: "leave schedulingGroup out of submitterPodTemplate, or lower minCount"}
}

// taskLate is about a task of a Volcano Job (pkg/controllers/job of Volcano, waitDependsOnTaskMeetCondition). The last
// objects above its template are the Job's spec and the task.
func taskLate(f found) Late {
	spec, own := f.above[len(f.above)-2], f.above[len(f.above)-1]
	depends, _ := own["dependsOn"].(object)
	names, _ := depends["name"].([]any)
	tasks, _ := spec["tasks"].([]any)
	on, waits := map[string]bool{}, 0
	for _, x := range names {
		if name, ok := x.(string); ok {
			on[name] = true
		}
	}
	for _, x := range tasks {
		o, _ := x.(object)
		if name, _ := o["name"].(string); on[name] && awaited(o) {
			waits++
		}
	}
	if waits == 0 || waits < len(on) && depends["iteration"] == "any" {
		return Late{}
	}
	return Late{Until: "gets its pods when those of the tasks that it depends on run", Remedy: "remove dependsOn"}
}

// awaited reports whether tasks that depend on a task wait for pods of it: for minAvailable, which Volcano's webhook
// sets (mutateSpec in pkg/webhooks/admission/jobs/mutate).
func awaited(task object) bool {
	least, err := number(task, "replicas", 1)
	if policy, ok := task["partitionPolicy"].(object); ok {
		least, err = number(policy, "minPartitions", 0)
	}
	if err == nil {
		least, err = number(task, "minAvailable", least)
	}
	return err != nil || least > 0
}
