//go:build !upto1.35

package cli

import (
	"fmt"
	"strings"
	"testing"
)

// member is a pod template in an operator's object, whose pods name the group g.
func member(cpus int) string {
	return fmt.Sprintf(`{spec: {schedulingGroup: {podGroupName: g}, containers: [{name: c, image: i, `+
		`resources: {limits: {cpu: "%d", memory: 1Gi}}}]}}`, cpus)
}

// object is an object of an operator.
func object(api, kind, spec string) string {
	return fmt.Sprintf("\napiVersion: %s\nkind: %s\nmetadata: {name: x}\nspec: %s\n---", api, kind, spec)
}

// jobSet has two drivers and three workers of one CPU. policy is about the whole object, and depends about the workers.
func jobSet(policy, depends string, cpus int) string {
	job := func(name, more string, pods, cpus int) string {
		return fmt.Sprintf("{name: %s, %stemplate: {spec: {parallelism: %d, completions: %[3]d, template: %[4]s}}}", name,
			more, pods, strings.Replace(member(cpus), "{spec: {", "{spec: {restartPolicy: Never, ", 1))
	}
	return object("jobset.x-k8s.io/v1alpha2", "JobSet", fmt.Sprintf("{%sreplicatedJobs: [%s, %s]}", policy,
		job("driver", "", 2, cpus), job("worker", depends, 3, 1)))
}

const inOrder = "startupPolicy: {startupPolicyOrder: InOrder}, "

func lws(policy, leader string) string {
	return object("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", fmt.Sprintf("{replicas: 2, startupPolicy: %s, "+
		"leaderWorkerTemplate: {size: 2, %sworkerTemplate: %s}}", policy, leader, member(1)))
}

func mpi(policy string) string {
	return object("kubeflow.org/v2beta1", "MPIJob", fmt.Sprintf("{launcherCreationPolicy: %s, mpiReplicaSpecs: {"+
		"Launcher: {template: %s}, Worker: {replicas: 3, template: %[2]s}}}", policy, member(1)))
}

func ray(replicas string) string {
	return object("ray.io/v1", "RayCluster", fmt.Sprintf("{headGroupSpec: {template: %s}, workerGroupSpecs: [{"+
		"groupName: w, %s, template: %[1]s}]}", member(1), replicas))
}

// rayJob has a head, two workers and a submitter. more is about the whole object.
func rayJob(more string) string {
	return object("ray.io/v1", "RayJob", fmt.Sprintf("{%s, submitterPodTemplate: %s, rayClusterSpec: {headGroupSpec: "+
		"{template: %[2]s}, workerGroupSpecs: [{groupName: w, replicas: 2, template: %[2]s}]}}", more,
		strings.Replace(member(1), "{spec: {", "{spec: {restartPolicy: Never, ", 1)))
}

// volcanoJob has two tasks of two pods. more is about the first one, and depends about the second.
func volcanoJob(more, depends string) string {
	return object("batch.volcano.sh/v1alpha1", "Job", fmt.Sprintf("{tasks: [{name: a, %sreplicas: 2, template: %s}, "+
		"{%sreplicas: 2, template: %[2]s}]}", more, member(1), depends))
}

// A gang starts only if enough of its pods exist at the same time, as the operator makes them.
func TestPodsThatOperatorsMakeLaterDoNotStartAGang(t *testing.T) {
	leader := "leaderTemplate: " + member(1) + ", "
	for name, c := range map[string]struct {
		file  string
		least int
		want  string // "" if the gang may start
	}{
		"a JobSet":             {jobSet("", "", 1), 5, ""},
		"a JobSet in order":    {jobSet(inOrder, "", 1), 3, "JobSet default/x-worker gets its pods when the replicated jobs"},
		"of the first job":     {jobSet(inOrder, "", 1), 2, ""},
		"after another job":    {jobSet("", "dependsOn: [{name: driver, status: Ready}], ", 1), 5, "remove dependsOn"},
		"a LeaderWorkerSet":    {lws("LeaderCreated", ""), 4, ""},
		"leaders first":        {lws("LeaderReady", ""), 3, "default/x gets its workers when their leader runs"},
		"enough leaders":       {lws("LeaderReady", ""), 2, ""},
		"leaders of their own": {lws("LeaderReady", leader), 3, "set spec.startupPolicy to LeaderCreated"},
		"an MPIJob":            {mpi("AtStartup"), 4, ""},
		"workers first":        {mpi("WaitForWorkersReady"), 4, "set spec.launcherCreationPolicy to AtStartup"},
		"enough workers":       {mpi("WaitForWorkersReady"), 3, ""},
		"a RayCluster":         {ray("replicas: 2, minReplicas: 1, maxReplicas: 4"), 3, ""},
		"at least minReplicas": {ray("replicas: 0, minReplicas: 2, maxReplicas: 4"), 3, ""},
		"only minReplicas":     {ray("minReplicas: 2"), 4, "the files make 3 pods of it"},
		"at most maxReplicas":  {ray("replicas: 9, maxReplicas: 2, minReplicas: 0"), 4, "the files make 3 pods of it"},
		"all replicas":         {ray("replicas: 3, minReplicas: 1, numOfHosts: 2, maxReplicas: 2147483647"), 7, ""},
		"a RayJob":             {rayJob("shutdownAfterJobFinishes: true"), 4, "RayJob default/x gets its submitter when"},
		"its cluster":          {rayJob("submissionMode: K8sJobMode"), 3, ""},
		"no submitter":         {rayJob("submissionMode: HTTPMode"), 4, "the files make 3 pods of it"},
		"a Volcano Job":        {volcanoJob("", ""), 4, ""},
		"after another task":   {volcanoJob("", "dependsOn: {name: [a]}, "), 3, "remove dependsOn"},
		"of the first task":    {volcanoJob("", "dependsOn: {name: [a]}, "), 2, ""},
		"after no pod of it":   {volcanoJob("minAvailable: 0, ", "dependsOn: {name: [a]}, "), 4, ""},
		"after any of two": {volcanoJob("minAvailable: 0, ", "name: b, dependsOn: {name: [a, b], iteration: any}, "), 4,
			""},
		"after both":    {volcanoJob("minAvailable: 0, ", "name: b, dependsOn: {name: [a, b]}, "), 4, "remove dependsOn"},
		"after nothing": {volcanoJob("", "dependsOn: {name: []}, "), 4, ""},
		"suspended":     {ray("replicas: 3, suspend: true"), 2, "the files make 1 pod of it"},
	} {
		t.Run(name, func(t *testing.T) {
			code := ExitYes
			if c.want != "" {
				code = ExitNo
			}
			file := group("g", c.least, "") + c.file
			out, errs, got := checks(t, file)
			if text := strings.Join(strings.Fields(out+errs), " "); got != code || !strings.Contains(text, c.want) ||
				strings.Contains(text, "never start") != (code == ExitNo) {
				t.Errorf("check: exit code %d, want %d, with %q: %s%s", got, code, c.want, out, errs)
			}
			d, _ := onMachines(t, file, 2)
			never := strings.Contains(d.Groups[0].Text, "never starts") || d.Groups[0].Pods < c.least
			if g := d.Groups[0]; never != (c.want != "") || c.want == "" && !g.Fits {
				t.Errorf("simulate: %+v", g)
			}
		})
	}
}

// What an operator waits for before it makes the pods of a gang may start by itself, if it is not of the gang.
func TestAGangMayComeAfterPodsThatAreNotOfIt(t *testing.T) {
	for name, c := range map[string]struct {
		file       string
		of, counts int // the template whose pods are of the gang, and how many it has
	}{
		"a submitter": {rayJob("submissionMode: K8sJobMode"), 0, 1},
		"a launcher":  {mpi("WaitForWorkersReady"), 0, 1},
		"a task":      {volcanoJob("", "dependsOn: {name: [a]}, "), 1, 2},
	} {
		parts := strings.Split(c.file, "schedulingGroup: {podGroupName: g}, ")
		file := strings.Join(parts[:c.of+1], "") + "schedulingGroup: {podGroupName: g}, " + strings.Join(parts[c.of+1:], "")
		out, errs, code := checks(t, group("g", c.counts, "")+file)
		if code != ExitYes || !strings.Contains(out, fmt.Sprintf("start together, %d at least", c.counts)) {
			t.Errorf("%s: check: exit code %d: %s%s", name, code, out, errs)
		}
		d, _ := onMachines(t, group("g", c.counts, "")+file, 2)
		if g := d.Groups[0]; !g.Fits || g.Pods != c.counts || strings.Contains(g.Text, "never") {
			t.Errorf("%s: simulate: %+v", name, g)
		}
	}
}

// Pods that come later take no part in the decision whether the first ones start, and need no room at that time.
func TestPodsThatComeLaterArePlacedLater(t *testing.T) {
	for _, c := range []struct {
		copies, fit int
		fits        bool
	}{{1, 1, false}, {2, 5, true}} {
		d, _ := onMachines(t, group("g", 2, "")+jobSet(inOrder, "", 8), c.copies)
		if g := d.Groups[0]; g.Fits != c.fits || g.Fit != c.fit {
			t.Errorf("two drivers of 8 CPUs, on %d nodes: %+v", c.copies, g)
		}
	}
	d, _ := onMachines(t, group("g", 2, "")+jobSet(inOrder, "", 7), 1)
	if g := d.Groups[0]; !g.Fits || g.Fit != 3 || len(g.LeftOut) != 2 || !strings.HasPrefix(g.LeftOut[0], "x-worker") {
		t.Errorf("the drivers leave room for one worker: %+v", g)
	}
}

// kube-scheduler refuses a group for good once it knows pods of it that differ in their schedulers or in whether they
// preempt.
func TestPodsOfAGroupThatDifferWaitForEver(t *testing.T) {
	gang := group("g", 2, "")
	basic := strings.Replace(gang, "gang: {minCount: 2}", "basic: {}", 1)
	of := func(policy string) string {
		return strings.Replace(gang, "spec:", "spec:\n  preemptionPolicy: "+policy, 1)
	}
	part := strings.Replace(of("Never"), "spec:", "spec:\n  parentCompositePodGroupName: all", 1)
	const never, lower = "preemptionPolicy: Never,", "preemptionPolicy: PreemptLowerPriority,"
	mixed := members("a", "g", 1, 2, never) + members("b", "g", 1, 2, lower)
	schedulers := members("a", "g", 2, 2, "schedulerName: tenon-scheduler,") + members("b", "g", 2, 2, "")
	const differ = "the preemptionPolicy of the pods of StatefulSet default/a is Never, and that of the pods of " +
		"StatefulSet default/b is PreemptLowerPriority; kube-scheduler tries the group only if all its pods have the " +
		"same: give all of them the same priorityClassName"
	const gate = "with the feature gate PodGroupPreemptionPolicy"
	for name, c := range map[string]struct {
		file, want string
		code       int
	}{
		"policies":        {gang + mixed, differ, ExitNo},
		"of a part":       {part + mixed, differ, ExitNo},
		"basic":           {basic + mixed, "Pods of PodGroup default/g can never start: T" + differ[1:], ExitNo},
		"not known":       {gang + members("a", "g", 1, 2, never) + members("b", "g", 1, 2, ""), "", ExitYes},
		"the group's":     {of("Never") + members("a", "g", 2, 2, lower), gate, ExitYes},
		"equal":           {of("Never") + members("a", "g", 2, 2, never), "", ExitYes},
		"the composite's": {part + members("a", "g", 2, 2, lower), "", ExitYes},
		"schedulers": {basic + schedulers, "Its pods have different schedulers (default-scheduler, tenon-scheduler): once " +
			"pods of one have nodes, kube-scheduler refuses those of the others: give all of them the same schedulerName",
			ExitNo},
	} {
		t.Run(name, func(t *testing.T) {
			out, errs, code := checks(t, c.file)
			text := strings.Join(strings.Fields(out+errs), " ")
			if code != c.code || !strings.Contains(strings.ToLower(text), strings.ToLower(c.want)) ||
				c.want == "" && strings.Contains(text, "preemptionPolicy of") {
				t.Errorf("check: exit code %d, want %d with %q: %s%s", code, c.code, c.want, out, errs)
			}
			d, _ := onMachines(t, c.file, 2)
			if g := d.Groups[0]; g.Gang && (!strings.Contains(g.Text, c.want) ||
				strings.Contains(g.Text, "never starts") != (c.code == ExitNo)) {
				t.Errorf("simulate: %s", g.Text)
			}
		})
	}
}

// kube-scheduler tries a group only if all its pods have its priority.
func TestTheGroupAndItsPodsNeedOnePriority(t *testing.T) {
	of := func(class string) string {
		return strings.Replace(group("g", 2, ""), "spec:", "spec:\n  priorityClassName: "+class, 1)
	}
	pods := func(class string) string { return members("a", "g", 2, 2, "priorityClassName: "+class+",") }
	const high, highest = "system-cluster-critical", "system-node-critical"
	const refused = "its priority is 2000000000, and that of the pods of StatefulSet default/a is 2000001000; " +
		"kube-scheduler tries it only if they are equal: give both the same priorityClassName"
	const open = "its priority is that of the default class, and the priority of the pods of StatefulSet default/a is " +
		"that of the class gold; kube-scheduler tries it only if they are equal"
	part := strings.Replace(of(high), "spec:", "spec:\n  parentCompositePodGroupName: all", 1)
	mixed := pods(high) + members("b", "g", 1, 2, "")
	for name, c := range map[string]struct {
		file, want string
		certain    bool
	}{
		"both default":  {of(`""`) + pods(`""`), "", false},
		"the same":      {of("gold") + pods("gold"), "", false},
		"known":         {of(high) + pods(highest), refused, true},
		"not known":     {of(`""`) + pods("gold"), open, false},
		"composite":     {part + pods(highest), "", false},
		"one of two":    {of(high) + mixed, "StatefulSet default/b is that of the default", false},
		"basic and bad": {strings.Replace(of(high), "gang: {minCount: 2}", "basic: {}", 1) + pods(highest), refused, true},
	} {
		t.Run(name, func(t *testing.T) {
			out, errs, code := checks(t, c.file)
			text := strings.Join(strings.Fields(out+errs), " ")
			if (code == ExitNo) != c.certain || !strings.Contains(strings.ToLower(text), strings.ToLower(c.want)) ||
				c.want == "" && strings.Contains(text, "its priority") {
				t.Errorf("check: exit code %d, want %q: %s%s", code, c.want, out, errs)
			}
			d, _ := onMachines(t, c.file, 2)
			g := d.Groups[0]
			if g.Gang && (!strings.Contains(g.Text, c.want) || strings.Contains(g.Text, "never starts") != c.certain) {
				t.Errorf("simulate: %s", g.Text)
			}
		})
	}
}
